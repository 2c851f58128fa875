"""`holdfast checkpoint show`: what is in one checkpoint."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import earlier
from holdfast.cli.errors import misused
from holdfast.cli.output import as_json, say, table
from holdfast.cli.shared import Json
from holdfast.cli.stored.shared import Where, manifest_of, newest_whole, told
from holdfast.protocol.counts import plural

if TYPE_CHECKING:
    from holdfast.checkpoint.tools.contents import Tensor

AXES = ("dp", "pp", "tp")
SHOWN_CHARACTERS = 80
"""Of a value, in a line."""


def show(
    where: Where,
    rank: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only what this rank saved.")
    ] = None,
    json: Json = False,
) -> None:
    """Show a checkpoint: ranks, shards, tensors, and the values beside them; the newest whole one
    where URL has several.
    """
    from holdfast.checkpoint.tools import contents

    with told():
        place = newest_whole(earlier.store_url(where))
        manifest = manifest_of(place)
        if rank is not None and rank >= manifest.world_size:
            raise misused(
                f"--rank {rank}: {place.folder} is of {plural(manifest.world_size, 'rank')}.",
                f"Give at most {manifest.world_size - 1}.",
            )
        parts = [part for part in manifest.parts if rank in (None, part.rank)]
        tensors = [one for one in contents.tensors(place, manifest) if rank in (None, one.rank)]
    if json:
        as_json(
            {
                "url": place.url,
                "job": manifest.job,
                "step": manifest.step,
                "order": manifest.epoch,
                "topology": {axis: getattr(manifest.topology, axis) for axis in AXES},
                "ranks": [
                    {
                        "rank": part.rank,
                        "shard": part.shard.name if part.shard else None,
                        "size_bytes": part.shard.size_bytes if part.shard else 0,
                        "values": contents.values(part),
                    }
                    for part in parts
                ],
                "tensors": [_tensor(one) for one in tensors],
            }
        )
        return
    sizes = " ".join(f"{axis} {getattr(manifest.topology, axis)}" for axis in AXES)
    ranks = plural(manifest.world_size, "rank")
    say(f"{place.url}: step {manifest.step} of {manifest.job or 'no job'}, {ranks} ({sizes})")
    _table_of(tensors)
    for part in parts:
        for path, value in contents.values(part).items():
            say(f"rank {part.rank}  {path} = {_short(value)}")


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= SHOWN_CHARACTERS else f"{told[:SHOWN_CHARACTERS]}…"


def _table_of(tensors: "list[Tensor]") -> None:
    table(
        ("rank", "file", "dtype", "shape", "of", "offsets", "at", "tensor"),
        (
            (
                one.rank,
                one.file,
                one.dtype,
                list(one.shape),
                list(one.whole) if one.whole != one.shape else "",
                list(one.offsets) if one.whole != one.shape else "",
                one.at_bytes,
                one.name,
            )
            for one in tensors
        ),
    )


def _tensor(one: "Tensor") -> dict[str, Any]:
    return {field: getattr(one, field) for field in one.__struct_fields__}
