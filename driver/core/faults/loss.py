"""How many steps an incident cost each job: what it had completed before, less where it went back.

Called by `incidents` with what is known of that. Pure. What is trained between two ways back of one
incident belongs to its recovery: neither does it raise what was completed before, nor is it lost
twice. Where the job was still doing steps again for an incident before, only what it had done of
these is lost to this one: how far it had ever been counts for the first.
"""

from msgspec.structs import replace

from holdfast.driver.core.state.model import Rollback


def reached(known: Rollback, step: int | None) -> Rollback:
    """The job is known to have completed `step`; it counts until its first way back."""
    if step is None or known.restored is not None:
        return known
    return replace(known, before=max(step, known.before or 0))


def went_back(known: Rollback, step: int) -> Rollback:
    """The job's ranks start from `step`: the furthest way back counts."""
    return replace(known, restored=step if known.restored is None else min(step, known.restored))


def went_back_unseen(known: Rollback, saved: int) -> Rollback:
    """Its script began again, which had saved step `saved` by itself, and may go on from it."""
    return replace(went_back(known, saved), unseen=saved > 0)


def furthest(known: Rollback, before: int) -> Rollback:
    """The highest step of all earlier epochs is known to be `before`."""
    return known if known.again else replace(known, before=max(before, known.before or 0))
