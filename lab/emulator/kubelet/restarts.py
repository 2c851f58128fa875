"""When a container that ended is started again: at once the first time, then with backoff. Pure.

Used by `pod`. The rule is the kubelet's: 10 s, doubled for each restart up to 5 minutes, and
forgotten after a container ran for 10 minutes.
"""

from holdfast.lab.emulator.kubelet.orders import Life

LONGEST_S = 300.0
FORGOTTEN_AFTER_S = 600.0


class Restarts:
    """The backoff of each container of one pod."""

    def __init__(self, base_s: float = 10.0) -> None:
        self._base_s = base_s
        self._next_s: dict[str, float] = {}

    def wait_s(self, ended: Life, now_s: float) -> float:
        """How long from now until this container may start again; 0 or less: now."""
        if ended.finished_at_s - ended.started_at_s >= FORGOTTEN_AFTER_S:
            self._next_s.pop(ended.container, None)
        return ended.finished_at_s + self._next_s.get(ended.container, 0.0) - now_s

    def restarted(self, ended: Life) -> None:
        """It is started again: the next wait is longer."""
        before = self._next_s.get(ended.container, 0.0)
        self._next_s[ended.container] = min(LONGEST_S, before * 2 or self._base_s)
