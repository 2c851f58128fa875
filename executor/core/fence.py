"""What an executor must not forget, and whether a desired state is too old to follow. Pure."""

import msgspec

from holdfast.protocol.messages import STOPS, Desired, Refused


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """The newest that was accepted. Kept on disk: a restarted executor is as strict as before.

    `started` says that ranks of (job, epoch) were forked once: never again, for the others of that
    epoch have lost them.
    """

    term: int = 0
    generation: int = 0
    job: str | None = None
    epoch: int = 0
    started: bool = False

    def accept(self, desired: Desired) -> "Fence":
        """The fence after `desired`."""
        same = (self.job, self.epoch) == (desired.job, desired.epoch)
        return Fence(
            term=desired.term,
            generation=desired.generation,
            job=desired.job,
            epoch=desired.epoch,
            started=self.started and same,
        )


def refusal(fence: Fence, node: str, desired: Desired) -> Refused | None:
    """Why `desired` cannot be followed, or None.

    Terms, epochs and generations are the driver's and rise together for a node, whatever its job; a
    new term starts the others afresh. The same desired state again is no mistake.
    """
    why, fix = _too_old(fence, desired) or _malformed(node, desired) or ("", "")
    if not why:
        return None
    return Refused(what="Desired", why=why, fix=fix, generation=desired.generation)


def _too_old(fence: Fence, desired: Desired) -> tuple[str, str] | None:
    if desired.term < fence.term:
        return (
            f"term: {desired.term} is older than {fence.term}, another driver has taken over",
            "Stop the older driver.",
        )
    if desired.term > fence.term:
        return None
    if desired.epoch < fence.epoch:
        return (
            f"order: {desired.epoch} is older than {fence.epoch}, which this node has followed",
            f"Send order {fence.epoch} or a later one.",
        )
    if desired.generation < fence.generation:
        return (
            f"generation: {desired.generation} is older than {fence.generation}",
            f"Send generation {fence.generation} or a later one.",
        )
    return None


def _malformed(node: str, desired: Desired) -> tuple[str, str] | None:
    if desired.node != node:
        return (f"node: {desired.node!r}, but this is {node!r}", f"Send it to {desired.node!r}.")
    if desired.stop not in STOPS:
        known = ", ".join(f'"{each}"' for each in sorted(STOPS))
        return (f"stop: {desired.stop!r} is not known", f"Send one of {known}.")
    missing = [
        name
        for name, there in (
            ("job", desired.job is not None),
            ("task", desired.task is not None),
            ("rendezvous", desired.rendezvous is not None),
            ("world_size", desired.world_size > 0),
            ("places", desired.places > 0),
        )
        if not there
    ]
    if desired.seats and missing:
        return (f"seats: given without {', '.join(missing)}", "Send them together.")
    if foreign := sorted({seat.node for seat in desired.seats} - {node}):
        return (f"seats: given of {', '.join(foreign)}", f"Send those of {node!r} alone.")
    return None
