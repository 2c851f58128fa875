"""Our own lines beside the script's output: at the start, for a fault, a recovery, at the end.

Called by `cli.run.follow` with what the driver says. Writes to stderr, so that the script's stdout
can be piped on. Silent when all is well.
"""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.cli.words import duration, plural

FINISHED = ("Succeeded", "Failed", "Stopped")


class Narrator:
    """Says each thing once, as the job's view changes."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say_line = say
        self._found: set[int] = set()
        self._recovered: set[int] = set()

    def say(self, sentence: str) -> None:
        self._say_line(f"holdfast  {sentence}")

    def incidents(self, incidents: list[Mapping[str, Any]]) -> None:
        """One line where an incident is new, one where it is over."""
        for incident in incidents:
            number = int(incident["number"])
            if number not in self._found:
                self._found.add(number)
                self.say(told(incident))
            if incident["recovered_s"] is not None and number not in self._recovered:
                self._recovered.add(number)
                self.say(back(incident))

    def end(self, job: Mapping[str, Any], incidents: list[Mapping[str, Any]]) -> None:
        """The summary, and the user's own exception first and whole."""
        failure = job.get("failure") or {}
        if failure.get("traceback") and job["ranks"] > 1:
            self._say_line(str(failure["traceback"]).rstrip())
        self.say(summary(job, incidents))


def told(incident: Mapping[str, Any]) -> str:
    """What went wrong, and what is done about it."""
    action = incident.get("action")
    return f"{incident['summary']}; {action}" if action else str(incident["summary"])


def back(incident: Mapping[str, Any]) -> str:
    """`back at step 121 after 0.4 s, nothing lost   (detect 0.01 · stop 0.05 · …)`."""
    lost = incident.get("steps_lost")
    what = (
        ""
        if lost is None
        else ", nothing lost"
        if lost == 0
        else f", {plural(lost, 'step')} redone"
    )
    at = f" at step {incident['step']}" if incident.get("step") is not None else ""
    stages = " · ".join(
        f"{stage} {float(took):.2f}" for stage, took in incident["stages_s"].items()
    )
    return f"back{at} after {duration(incident['recovered_s'])}{what}" + (
        f"   ({stages})" if stages else ""
    )


def summary(job: Mapping[str, Any], incidents: list[Mapping[str, Any]]) -> str:
    """`done: 2,000 steps, 1 fault, 0.4 s lost of 18 min`."""
    words = {"Succeeded": "done", "Stopped": "stopped"}
    parts = [f"{job['step']:,} steps"] if job.get("step") else []
    parts.append(plural(len(incidents), "fault") if incidents else "no fault")
    down_s = sum(each["recovered_s"] or 0.0 for each in incidents)
    took = duration(job["age_s"])
    parts.append(f"{duration(down_s)} lost of {took}" if incidents else took)
    counted = ", ".join(parts)
    if job["phase"] == "Failed":
        return f"failed: {job['why']} ({counted})"
    return f"{words[job['phase']]}: {counted}"
