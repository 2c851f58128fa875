"""`holdfast checkpoint verify`: every byte is read, and every checksum compared."""

from typing import TYPE_CHECKING, Any

from holdfast.cli import earlier
from holdfast.cli.output import as_json, say
from holdfast.cli.shared import Json
from holdfast.cli.stored.shared import Where, progress, told
from holdfast.page.words import size
from holdfast.protocol import exitcodes
from holdfast.protocol.counts import plural

if TYPE_CHECKING:
    from holdfast.checkpoint.tools.places import Place
    from holdfast.checkpoint.tools.verifying import Verified


def verify(where: Where, json: Json = False) -> int:
    """Read checkpoints through, and compare every checksum. Exit code 1 where one is damaged, or
    where the store does not give it.

    One without a manifest is torn: it is said, and damaged only where URL names it alone.
    """
    from holdfast.checkpoint.tools.places import found

    with told():
        meant = earlier.store_url(where)
        places = found(meant)
        results = _verified(places)
    alone = len(places) == 1 and meant.endswith(places[0].folder)
    bad = [each for each in results if each.wrong and (alone or not each.torn)]
    if json:
        as_json({"ok": not bad, "checkpoints": [_verdicts(each) for each in results]})
    else:
        for each in results:
            say(f"{each.place.url}: {_said(each)}")
    return exitcodes.FAILED if bad else exitcodes.OK


def _verified(places: "list[Place]") -> "list[Verified]":
    from holdfast.checkpoint.tools.listing import listed
    from holdfast.checkpoint.tools.verifying import shards, verified

    manifests = [listed(place).manifest for place in places]
    all_bytes = sum(
        file.size_bytes for manifest in manifests if manifest for file in shards(manifest)
    )
    with progress("verifying", all_bytes) as read:
        return [verified(place, read) for place in places]


def _said(each: "Verified") -> str:
    if each.torn:
        return "torn: it has no manifest"
    if each.wrong:
        return f"{each.status}: " + "; ".join(verdict.why for verdict in each.wrong)
    read = sum(verdict.size_bytes for verdict in each.verdicts)
    return f"whole, {plural(len(each.verdicts), 'file')}, {size(read)}"


def _verdicts(each: "Verified") -> dict[str, Any]:
    return {
        "url": each.place.url,
        "step": each.place.step,
        "status": each.status,
        "files": [
            {"file": verdict.file, "size_bytes": verdict.size_bytes, "why": verdict.why}
            for verdict in each.verdicts
        ],
    }
