"""Our own lines beside the script's output: at the start, for a fault, a recovery, at the end.

Called by `cli.run.follow` with what the driver says. Writes to stderr, so that the script's stdout
can be piped on. Silent when all is well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.cli.words import duration, plural

FINISHED = ("Succeeded", "Failed", "Stopped")


class Narrator:
    """Says each thing once, as the job's view changes."""

    def __init__(self, say: Callable[[str], None], ranks: int) -> None:
        self._say_line = say
        self._ranks = ranks
        self._faults: dict[int, int] = {}
        self._recovered: set[int] = set()

    def say(self, sentence: str) -> None:
        self._say_line(f"holdfast  {sentence}")

    def incidents(self, incidents: Sequence[Mapping[str, Any]]) -> None:
        """One line for each fault, one where its incident is over."""
        for incident in incidents:
            number, faults = int(incident["number"]), int(incident["faults"])
            if faults > self._faults.get(number, 0):
                self._faults[number] = faults
                self.say(told(incident, self._ranks))
            if incident["recovered_s"] is not None and number not in self._recovered:
                self._recovered.add(number)
                self.say(back(incident))

    def end(self, job: Mapping[str, Any], incidents: Sequence[Mapping[str, Any]]) -> None:
        """The summary, and the user's own exception first and whole."""
        failure = job.get("failure") or {}
        if failure.get("traceback") and job["ranks"] > 1:
            self._say_line(str(failure["traceback"]).rstrip())
        self.say(summary(job, incidents))


def told(incident: Mapping[str, Any], ranks: int) -> str:
    """What went wrong, and what is done about it."""
    doing = {
        1: f"; restarting {plural(ranks, 'rank')}",
        2: "; another node takes over",
        3: "; testing the suspects",
        4: "; testing every node",
    }
    over = not incident["open"] and incident["recovered_s"] is None
    return f"{incident['summary']}{'' if over else doing.get(incident['rung'], '')}"


def back(incident: Mapping[str, Any]) -> str:
    """`back at step 121 after 0.4 s, nothing lost   (stop 0.05 · restore 0.13 · step 0.17)`."""
    at = f" at step {incident['step']}" if incident["step"] is not None else ""
    lost = incident["steps_lost"]
    what = f", {plural(lost, 'step')} redone" if lost else ", nothing lost" if lost == 0 else ""
    stages = [f"{stage} {took:.2f}" for stage, took in incident["stages_s"].items()]
    tail = f"   ({' · '.join(stages)})" if stages else ""
    return f"back{at} after {duration(incident['recovered_s'])}{what}{tail}"


def summary(job: Mapping[str, Any], incidents: Sequence[Mapping[str, Any]]) -> str:
    """`done: 2,000 steps seen, 1 fault, 0.4 s lost of 18 min`."""
    parts = [f"{plural(job['step'], 'step')} seen"] if job["step"] else []
    faults = sum(int(each["faults"]) for each in incidents)
    parts.append(plural(faults, "fault") if faults else "no fault")
    down_s = sum(each["recovered_s"] or 0.0 for each in incidents)
    took = duration(job["age_s"])
    parts.append(f"{duration(down_s)} lost of {took}" if down_s else took)
    counted = ", ".join(parts)
    if job["phase"] == "Failed":
        reason = str((job["failure"] or {}).get("reason") or job["why"]).rstrip(".")
        return f"failed: {reason}. ({counted})"
    return f"{'done' if job['phase'] == 'Succeeded' else 'stopped'}: {counted}"
