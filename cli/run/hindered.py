"""A driver that can write nothing down, as where its disk is full: it decides nothing, nor does it
end a job.

Made by `cli.run.follow`, which looks often; the driver is asked once a second. Says so once, and
again when it changes; bounds how long a stop waits for it. Must not stop anything itself.
"""

import math
from collections.abc import Callable

from holdfast.cli.client import Readiness
from holdfast.cli.run.service import Service
from holdfast.driver.ports import NO_NEW_WORK

ASK_S = 1.0
OVER = "that is over"
MORE_S = 5.0
"""Beyond the job's grace that a stop waits for a driver that cannot take it."""


class Hindered:
    """What was said of the driver, and since when it may not have been able to decide."""

    def __init__(
        self, service: Service, say: Callable[[str], None], *, grace_s: float, now: float
    ) -> None:
        self._service = service
        self._say = say
        self._within_s = grace_s + MORE_S
        self._able_s = now
        self._looked_s = -math.inf
        self._said = ""
        self._stale = False  # it decided nothing, when it was last asked

    def look(self, now: float, *, stopped: bool) -> bool:
        """Whether a stop that was asked for (`stopped`) is in vain: that is said then."""
        if now - self._looked_s < ASK_S:
            return False
        self._looked_s = now
        found = self._service.ask(lambda driver: driver.readiness())
        if found is not None:
            self._tell(found)
        if not stopped or (found is not None and not found.stale):
            self._able_s = now
        if now - self._able_s <= self._within_s:
            return False
        why = self._said if found is not None else "it does not answer."
        waited = f"the driver could not end the job within {self._within_s:.0f} s"
        self._say(f"{waited}, so all of it is taken down now: {why}")
        return True

    def _tell(self, found: Readiness) -> None:
        why = "" if found.ready else found.why.replace(f": {NO_NEW_WORK}", "")
        if why != self._said:
            self._say(why or ("that is over: the driver decides again" if self._stale else OVER))
        self._said, self._stale = why, found.stale
