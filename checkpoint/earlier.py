"""What an earlier job left, from which another one goes on: `beginFrom` of the job spec.

Used by agents that look up, and by ranks that restore. Must not write there: it is another's. (But
for the note of a rank that cannot believe a checkpoint, without which it would be tried for ever.)
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from holdfast.checkpoint.fetch import NotBelieved, Refused, whole
from holdfast.checkpoint.layout import folder_name, parse_folder
from holdfast.checkpoint.stores import PermanentStoreError, Store, open_store
from holdfast.protocol.messages import EARLIER, Stored


class Earlier(msgspec.Struct, frozen=True):
    """A life, and of which checkpoints in it: `only` one, or None for the newest."""

    url: str
    only: Stored | None = None


def parse(url: str) -> Earlier:
    """What `beginFrom` means: a life, or one checkpoint in it."""
    url = url.rstrip("/")
    life, _, name = url.rpartition("/")
    if place := parse_folder(name):
        return Earlier(life, Stored(step=place[0], epoch=place[1]))
    return Earlier(url)


def look(
    url: str, *, watched: Callable[[Store], Store], go_on: Callable[[], None]
) -> Iterator[Stored | NotBelieved]:
    """What may be begun from, the newest first: believed, or why it is not.

    Raises `StoreError` where the store cannot be listed, or has nothing that was meant.
    """
    earlier, believed, why = parse(url), False, ""
    for one in whole(watched(open_store(earlier.url)), go_on=go_on):
        point = one.point if isinstance(one, NotBelieved) else one
        if earlier.only not in (None, point):
            continue
        if isinstance(one, NotBelieved):
            why = why or f"beginFrom: no checkpoint at {url} can be believed: {one.why}"
        else:
            believed = True
        yield one
    if not believed:
        raise PermanentStoreError(
            why
            or f"beginFrom: there is no checkpoint at {url}. Name the folder life-… of a job, or "
            "a checkpoint in it; `holdfast checkpoint ls` lists them."
        )


def named(one: Stored | NotBelieved) -> Stored | NotBelieved:
    """The checkpoint as this job calls it: its epochs are not those of the earlier one."""
    if isinstance(one, NotBelieved):
        return replace(one, point=Stored(step=one.point.step, epoch=EARLIER))
    return Stored(step=one.step, epoch=EARLIER)


def folder(store: Store, url: str, step: int) -> str:
    """The folder of that step, of the newest epoch of which it is believed. Raises `Refused` or
    `StoreError`.
    """
    only = parse(url).only
    for one in whole(store):
        if isinstance(one, Stored) and one.step == step and only in (None, one):
            return folder_name(one.step, one.epoch)
    raise Refused(f"{url}: step {step} is no longer there, or damaged")
