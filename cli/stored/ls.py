"""`holdfast checkpoint ls`: lives and checkpoints, and whether they are whole."""

from typing import TYPE_CHECKING, Any

from holdfast.cli import earlier
from holdfast.cli.output import as_json, table
from holdfast.cli.shared import Json
from holdfast.cli.stored.shared import Where, told
from holdfast.kit.clock import SystemClock
from holdfast.page.words import duration, size

if TYPE_CHECKING:
    from holdfast.checkpoint.tools.listing import Listed


def ls(where: Where, json: Json = False) -> None:
    """List lives and checkpoints: steps, sizes, ages, and whether they are whole.

    Looks at names, manifests and sizes; `verify` reads them through. A life is what one job wrote.
    """
    from holdfast.checkpoint.tools.listing import listed
    from holdfast.checkpoint.tools.places import found

    with told():
        all_ = [listed(place) for place in found(earlier.store_url(where))]
    now_s = SystemClock().wall().timestamp()
    if json:
        as_json([_listed(each, now_s) for each in all_])
        return
    table(
        ("life", "step", "order", "ranks", "size", "age", "status"),
        (
            (
                each.place.life.name or "-",
                each.place.step,
                each.place.epoch,
                each.manifest.world_size if each.manifest else "-",
                size(each.size_bytes),
                "-" if each.changed_s is None else duration(now_s - each.changed_s),
                f"{each.status}: {each.why}" if each.why else each.status,
            )
            for each in all_
        ),
    )


def _listed(each: "Listed", now_s: float) -> dict[str, Any]:
    return {
        "url": each.place.url,
        "life": each.place.life.name,
        "step": each.place.step,
        "order": each.place.epoch,
        "job": each.manifest.job if each.manifest else None,
        "ranks": each.manifest.world_size if each.manifest else None,
        "size_bytes": each.size_bytes,
        "age_s": None if each.changed_s is None else now_s - each.changed_s,
        "status": each.status,
        "why": each.why,
    }
