"""A rank's GPU, as its recorder knows it: a clock once there is one, and none where it fails.

Called by the recorder and the hooks. Raises nothing: an error of CUDA comes up at whichever call is
next, and that is the script's to hear of, at a call of its own.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.telemetry import cuda
from holdfast.telemetry.gpuclock import GpuClock, Mark, Told

_T = TypeVar("_T")


class Gpu:
    """Its clock begins as a step ends in a process that uses a GPU; where it fails, `failed` is
    called, and there is none any more."""

    def __init__(self, failed: Callable[[], None]) -> None:
        self._clock: GpuClock | None = None
        self._marks: cuda.CudaMarks | None = None
        self._failed, self._is_broken = failed, False
        self._apart = False  # whether collectives are enqueued on streams of their own

    @property
    def is_timed(self) -> bool:
        """Whether there is a clock."""
        return self._clock is not None

    @property
    def step(self) -> int:
        """The newest that it is known to have done; 0: of none."""
        return self._clock.step if self._clock is not None else 0

    @property
    def at_step_ns(self) -> tuple[int, int, int, int]:
        return self._clock.at_step_ns if self._clock is not None else (0, 0, 0, 0)

    def waits(self) -> Mark | None:
        return self._fenced(GpuClock.waits)

    def stream_waits(self, stream: Any) -> Mark | None:
        """That stream is about to wait for another one."""
        if not self._apart or self._marks is None or not self._marks.is_mine(stream):
            return None
        return self.waits()

    def waited(self, begin: Mark | None, work: Any = None) -> None:
        if begin is not None:
            self._fenced(GpuClock.waited, begin, _key(work))

    def enqueued(self, told: Told | None = None) -> bool:
        if self._clock is None:
            return False
        self._apart = self._apart or self._fenced(self._is_apart) is True
        return self._fenced(GpuClock.enqueued, told) is True

    def made(self, work: Any) -> None:
        if self._clock is not None:
            self._fenced(GpuClock.made, _key(work))

    def optimizes(self) -> None:
        self._fenced(GpuClock.optimizes)

    def begins(self) -> Mark | None:
        return self._fenced(GpuClock.begins)

    def ends(self, begin: Mark | None, told: Told) -> bool:
        return begin is not None and self._fenced(GpuClock.ends, begin, told) is True

    def pauses(self, pausing: bool) -> None:
        self._fenced(GpuClock.pauses, pausing)

    def stepped(self, step: int, ran_ns: int, told: Told | None = None) -> bool:
        if self._clock is None and not self._is_broken:
            self._begin()
        return self._fenced(GpuClock.stepped, step, ran_ns, told) is True

    def _begin(self) -> None:
        try:
            if cuda.is_there():
                self._marks = cuda.CudaMarks()
                self._clock = GpuClock(self._marks)
        except Exception:  # noqa: BLE001 see above
            self._end()

    def _is_apart(self, clock: GpuClock) -> bool:
        return self._marks is not None and clock.is_of_training() and not self._marks.here()

    def _fenced(self, what: Callable[..., _T], *arguments: Any) -> _T | None:
        if self._clock is None:
            return None
        try:
            return what(self._clock, *arguments)
        except Exception:  # noqa: BLE001 see above
            self._end()
            return None

    def _end(self) -> None:
        self._clock, self._is_broken = None, True
        self._failed()


def _key(work: Any) -> int | None:
    """By which a work is known again: torch gives a new object each time."""
    try:
        return int(work._get_sequence_number())
    except (AttributeError, RuntimeError, TypeError):  # one that is written in Python
        return None
