"""Entries as stories need them: read without the effects of which nobody is told.

Used by `journal`. An entry that starts the ranks of 1,536 nodes has 2.1 MB of effects, which took
half of the time in which a job's story was read.
"""

import msgspec

from holdfast.driver.core.effects import AnyEffect, Distrust
from holdfast.driver.ports import Entry

RESTATES = '"restates":true'
"""Of a body of which a story has nothing. A node that comes to a job writes four such entries: of a
job on 1,536 nodes 6,144 of 6,377. Within a text of somebody's the marks have a backslash before
them."""
_DISTRUST = f'"type":"{Distrust.__name__}"'.encode()


class _Told(Entry, frozen=True, kw_only=True):
    effects: msgspec.Raw  # type: ignore[assignment] # not read yet


_decode = msgspec.json.Decoder(_Told).decode
_effects = msgspec.json.Decoder(tuple[AnyEffect, ...]).decode


def told(body: str) -> Entry:
    """An entry with those of its effects alone that stories tell of."""
    found = _decode(body)
    effects = _effects(found.effects) if _DISTRUST in bytes(found.effects) else ()
    kept = tuple(effect for effect in effects if isinstance(effect, Distrust))
    fields = {name: getattr(found, name) for name in Entry.__struct_fields__}
    return Entry(**{**fields, "effects": kept})
