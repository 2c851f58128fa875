"""Which checkpoints may go. Pure; asked by the agent of rank 0 after each commit."""

from collections.abc import Iterable

import msgspec


class Kept(msgspec.Struct, frozen=True):
    """A checkpoint's folder in the store. `whole`: it has its manifest."""

    step: int
    epoch: int
    whole: bool


def expendable(
    folders: Iterable[Kept], *, step: int, epoch: int, keep: int, keep_every_steps: int = 0
) -> tuple[Kept, ...]:
    """What may be deleted once (step, epoch) is committed, oldest first.

    Whole ones beyond the newest `keep`, newest by epoch first: a later epoch knows that its own
    history is the true one. But those stay whose step is a multiple of `keep_every_steps`; and the
    furthest of all, until that history is as far, for it was acknowledged once: whoever began again
    from an older step may want it back. Torn ones that nobody writes any more: of an older epoch,
    or before `step`. What a newer epoch wrote is never touched.
    """
    older = sorted(
        (folder for folder in folders if folder.epoch <= epoch),
        key=lambda folder: (folder.epoch, folder.step),
    )
    whole = [folder for folder in older if folder.whole]
    furthest = max(whole, key=lambda folder: (folder.step, folder.epoch), default=None)
    spare = [
        one
        for one in whole[: max(0, len(whole) - keep)]
        if one != furthest and not _for_ever(one.step, keep_every_steps)
    ]
    torn = [
        folder
        for folder in older
        if not folder.whole and (folder.epoch < epoch or folder.step < step)
    ]
    return tuple(sorted(spare + torn, key=lambda folder: (folder.epoch, folder.step)))


def _for_ever(step: int, every_steps: int) -> bool:
    return every_steps > 0 and step % every_steps == 0
