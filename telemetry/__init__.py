"""The rank's side of watching: progress, phases and collectives in a ring in shared memory.

Called inside ranks (by the launcher's hooks, the built-in workload, or a user's script) and by the
daemon, which reads the rings. Must not lock, wait, or let an exception of its own reach the user.

A script may import this and say more than the hooks can see:

    from holdfast import telemetry

    with telemetry.phase("forward"):
        ...
    telemetry.step(step, loss=loss, tokens=tokens_so_far)
    with telemetry.pause():
        upload()

Outside Holdfast all of them do nothing.
"""

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from holdfast.telemetry import current, pauses

_NOTHING: AbstractContextManager[None] = nullcontext()


def step(
    step: int,
    *,
    loss: float | None = None,
    tokens: int | None = None,
    grad_norm: float | None = None,
) -> None:
    """Say that `step` (counted from 1, over all attempts) is complete.

    `tokens`: how many this rank's replica has seen so far. `grad_norm`: that of the gradients; it
    is seen by itself where torch's `clip_grad_norm_` clips them on a CPU. From the first call on,
    optimizer steps are no longer counted by themselves.
    """
    recorder = current.recorder
    if recorder is not None:
        with suppress(Exception):  # a rank is never ended by its telemetry
            recorder.reported(int(step), _number(loss), tokens, _number(grad_norm))


def _number(told: Any) -> float | None:
    """With a graph, a tensor that is made a number warns."""
    number = getattr(told, "detach", lambda: told)()
    return None if number is None else float(number)


def pause() -> AbstractContextManager[None]:
    """Say that what is inside is no step, and may take long: an upload, a clean-up, an export.

    For as long as something moves there (CPU, bytes, lines, child processes) the job is given its
    `pauseMaxS`; where nothing does, a minute, or its `stuckMaxS` if that is longer.
    """
    return pauses.paused("pauses")


def phase(name: str) -> AbstractContextManager[None]:
    """Time what is inside, on the wall clock and on the CPU clock of this thread."""
    recorder = current.recorder
    return _NOTHING if recorder is None else recorder.phase(name)
