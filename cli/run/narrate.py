"""Our own lines beside the script's output: at the start, for a fault, a recovery, at the end.

Called by `cli.run.follow` with what the driver says. Writes to stderr, so that the script's stdout
can be piped on. Silent when all is well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.driver.core.state.model import Phase
from holdfast.page.recoveries import back
from holdfast.page.spent import lost_to_faults
from holdfast.page.words import at_least, counted, duration, repeats
from holdfast.protocol.counts import plural, times
from holdfast.protocol.faults import Kind, Rung

STANDS = frozenset({Kind.HANG, Kind.NO_PROGRESS})
"""Stacks of its ranks are taken before anything is done about one."""


TRAINS_S = 60.0
"""From so long on it is worth a word that no step of a job was seen."""


class Narrator:
    """Says each thing once, as the job's view changes."""

    def __init__(self, say: Callable[[str], None], ranks: int) -> None:
        self._say_line = say
        self._ranks = ranks
        self._faults: dict[int, int] = {}
        self._recovered: set[int] = set()
        self._restarts = 0
        self._used = 0  # of the user's budget

    def say(self, sentence: str) -> None:
        """One line, also where it quotes an exception of several."""
        self._say_line("holdfast  " + " ".join(line.strip() for line in sentence.splitlines()))

    def incidents(
        self, incidents: Sequence[Mapping[str, Any]], job: Mapping[str, Any] | None = None
    ) -> None:
        """One line for each fault, one where its incident is over."""
        for incident in incidents:
            number, faults = int(incident["number"]), int(incident["faults"])
            new = faults > self._faults.get(number, -1)  # what is only reported has none
            if new and not _is_looked_at(incident, job):
                what = self._what(incident)
                self._faults[number] = faults
                if job is None or what not in _reason(job):  # else our last line says it
                    self.say(f"{what}{then(incident, self._ranks, job, self._used)}")
            if incident["recovered_s"] is not None and number not in self._recovered:
                self._recovered.add(number)
                self.say(back(incident))
        if job is not None:
            self._used = _used(job)

    def driver(self, restarts: int) -> None:
        """A line for each time that our own driver ended unasked and was started again."""
        if restarts > self._restarts:
            self.say("the driver ended unasked and was started again; the ranks run on meanwhile")
        self._restarts = restarts

    def spent(self, told: Mapping[str, Any] | None) -> None:
        """Where the time went, where faults cost any."""
        if told is not None and (line := lost_to_faults(told)):
            self.say(line)

    def end(
        self,
        job: Mapping[str, Any],
        incidents: Sequence[Mapping[str, Any]],
        *,
        shown: Callable[[str], bool] = lambda _traceback: False,
    ) -> None:
        """The summary, and the user's own exception first and whole.

        `shown`: whether the exception is the last thing that the script itself has printed.
        """
        traceback = str((job["failure"] or {}).get("traceback") or "").rstrip()
        if traceback and not shown(traceback):
            self._say_line(traceback)
        self.say(summary(job, incidents, driver_restarts=self._restarts))

    def _what(self, incident: Mapping[str, Any]) -> str:
        """What went wrong now: of an incident that is known already, its latest fault."""
        later = int(incident["number"]) in self._faults
        return str(incident.get("latest", incident["summary"]) if later else incident["summary"])


def then(
    incident: Mapping[str, Any], ranks: int, job: Mapping[str, Any] | None, used: int = 0
) -> str:
    """`; restarting 2 ranks (restart 1 of 3)`: what is done about a fault, where `used` of the
    user's restarts were before.
    """
    if _came_to_nothing(incident, job):
        return ""
    doing = DOING.get(_act(incident), "").format(ranks=plural(ranks, "rank"))
    return doing + _restart(incident, job, used)


def _came_to_nothing(incident: Mapping[str, Any], job: Mapping[str, Any] | None) -> bool:
    """Whether it is over with nothing done. A job that ended well before anybody saw it train
    again was restarted all the same.
    """
    if incident["open"] or incident["recovered_s"] is not None:
        return False
    succeeded = job is not None and job["phase"] == Phase.SUCCEEDED
    return not (succeeded and incident["faults"] and incident.get("hypotheses"))


RESTARTING, TESTING = "; restarting {ranks}", "; testing the suspects"
REPLACING, TESTING_ALL = "; another node is to take over", "; testing every node"
DOING: dict[int | str, str] = {
    Rung.IN_PLACE: RESTARTING,
    Rung.REPLACE: REPLACING,
    Rung.DIAGNOSE: TESTING,
    Rung.DIAGNOSE_ALL: TESTING_ALL,
    "wait": "; waiting to see whether it goes on",
    "restart": RESTARTING,
    "step-back": "; restarting {ranks} from another restore point",
    "version-before": "; restarting {ranks} with the version before",
    "swap": "; restarting {ranks}, two of the nodes change places",
    "move-warm": REPLACING,
    "move-cold": REPLACING,
    "replace": REPLACING,
    "exam": TESTING,
    "exam-all": TESTING_ALL,
}
"""What is done about a fault, by what was chosen, or by the rung where nothing was judged."""


def _act(incident: Mapping[str, Any]) -> int | str:
    """What was chosen for its latest fault: the rung is the highest of all that it took so far."""
    judged = incident.get("hypotheses") or ()
    if not judged:
        return int(incident["rung"])
    return next((str(each["act"]) for each in judged if each["chosen"]), "restart")


def _is_looked_at(incident: Mapping[str, Any], job: Mapping[str, Any] | None) -> bool:
    """Whether the stacks of a standstill are taken still: then maybe nothing is done at all."""
    runs = job is not None and job["phase"] == Phase.RUNNING and incident["open"]
    stands = incident["kind"] in STANDS or incident["faults"] > 1
    return runs and stands and not incident.get("hypotheses")


def _restart(incident: Mapping[str, Any], job: Mapping[str, Any] | None, used: int) -> str:
    """Told of what the user's budget pays for alone: a few restarts are all that it has."""
    if job is None or (incident["blame"] != "user" and _used(job) <= used):
        return ""
    budget = job["restarts"]["user"]
    return f" (restart {budget['used']} of {budget['allowed']})"


def _used(job: Mapping[str, Any]) -> int:
    """Of the user's budget."""
    return int(job["restarts"]["user"]["used"])


def summary(
    job: Mapping[str, Any], incidents: Sequence[Mapping[str, Any]], *, driver_restarts: int = 0
) -> str:
    """`done: 2,000 steps seen, 1 fault, 0.4 s lost of 18 min`."""
    parts = [_seen(job)] if job["step"] else []
    if not job["step"] and job["age_s"] > TRAINS_S:
        parts.append("no step seen, as without an optimizer of torch or telemetry.step()")
    parts.append(counted(incidents) or "no fault")
    down_s = sum(each["down_s"] or 0.0 for each in incidents)
    took = duration(job["age_s"])
    more = " and what its script repeated" if repeats(incidents) else ""
    lost = f"{at_least(incidents)}{duration(down_s)}{more} lost"
    parts.append(f"{lost} of {took}" if down_s else took)
    if driver_restarts:
        parts.append(f"driver restarted {times(driver_restarts)}")
    parts += _slow(incidents) + _unsaved(job)
    told = ", ".join(parts)
    if job["phase"] == "Failed":
        return f"failed: {(_reason(job) or str(job['why'])).rstrip('.')}. ({told})"
    if job["phase"] == "Succeeded":
        return f"done: {told}"
    _, killed, how = str(job["why"]).partition(f"{job['name']} is stopped: ")
    return f"stopped: {how}. ({told})" if killed else f"stopped: {told}"


def _slow(incidents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who held the others up, in its own words: that is no fault, and costs as much."""
    found: list[str] = []
    for kinds in ((Kind.SLOW, Kind.KEEPS_PACE), (Kind.LINK_SLOW, Kind.LINK_WELL)):
        told = (each for each in incidents if each["kind"] in kinds)
        last = max(told, key=lambda each: int(each["number"]), default=None)
        found += [str(last.get("latest", last["summary"]))] if last else []
    return found


def _unsaved(job: Mapping[str, Any]) -> list[str]:
    step = job.get("unsaved_step")
    return [] if step is None else [f"step {step:,} did not reach the store"]


def _seen(job: Mapping[str, Any]) -> str:
    """How many steps; of those that have no numbers only the last attempt's are known."""
    if not job.get("step_relative"):
        return f"{plural(job['step'], 'step')} seen"
    last = " in the last attempt" if job["attempt"] > 1 else ""
    return f"{plural(job['step'], 'optimizer step')} seen{last}"


def _reason(job: Mapping[str, Any]) -> str:
    """Why it was given up; "" where it was not."""
    return str((job["failure"] or {}).get("reason") or "")
