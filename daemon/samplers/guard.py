"""A guard around each sampler: what one of them meets, no other does, and the heartbeat goes.

Used by the daemon's loop. What a sampler knows to expect it handles itself (`samplers.readings`).
"""

from collections.abc import Callable
from typing import TypeVar

from holdfast.kit.logs import LazyLogger

T = TypeVar("T")

_log = LazyLogger()


class Guard:
    """Says each kind of error of each sampler once, with its traceback: it is a defect of ours."""

    def __init__(self) -> None:
        self._said: set[tuple[str, type[Exception]]] = set()
        self._failing: dict[str, str] = {}

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Samplers that failed when they were asked last."""
        return tuple(f"{sampler}: {why}" for sampler, why in self._failing.items())

    def ask(self, sampler: str, sample: Callable[[], T], instead: T) -> T:
        """What `sample` says; `instead` where it fails."""
        try:
            answer = sample()
        except Exception as error:  # noqa: BLE001 a daemon that ends is a node that is silent
            if (kind := (sampler, type(error))) not in self._said:
                self._said.add(kind)
                _log.exception("unreadable", sampler=sampler)
            self._failing[sampler] = f"{type(error).__name__}, a defect of Holdfast's daemon"
            return instead
        self._failing.pop(sampler, None)
        return answer
