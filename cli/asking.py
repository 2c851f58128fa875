"""One way to ask about jobs and nodes, whether a driver runs or only its journal is there.

Called by `status`, `story`, `why`, `jobs` and `nodes`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from holdfast.cli import find
from holdfast.cli.client import Client, Problem, Readiness, path
from holdfast.cli.errors import Stopped, not_reachable
from holdfast.cli.output import warn
from holdfast.driver.adapters.rest import naming
from holdfast.protocol import exitcodes

MOST_SPANS = 200_000
"""As many as the driver tells at once."""


class Source(Protocol):
    """What these commands need. `filters` of jobs: phase, label, name."""

    def jobs(self, **filters: Any) -> list[dict[str, Any]]: ...

    def job(self, name: str) -> dict[str, Any]:
        """The one that is meant. Raises `Stopped` with what there is."""
        ...

    def no_job(self) -> Stopped:
        """What is said where there is none at all."""
        ...

    def nodes(self) -> list[dict[str, Any]]: ...

    def worst(self, most: int) -> dict[str, Any]:
        """Nodes, links and versions against which most is held, at most so many of each."""
        ...

    def digest(self, since_s: float) -> dict[str, Any]:
        """What happened in the last seconds."""
        ...

    def readiness(self) -> Readiness:
        """Whether the driver takes new work, and decides. Without one nothing is stale: it is said
        that none runs.
        """
        ...

    def incidents(self, job: str) -> list[dict[str, Any]]: ...

    def ranks(self, job: str) -> dict[str, Any]:
        """A row each rank. Without a driver: where they were."""
        ...

    def view3d(self, job: str, *, incident: int | None = None) -> dict[str, Any]:
        """Where ranks stand in the grid, and who waits for whom; by traces in the end of a run that
        is over, and when an incident was found. Raises `Stopped` where nothing is kept."""
        ...

    def spans(self, job: str, *, last_s: float, incident: int | None = None) -> dict[str, Any]:
        """What was traced of the last seconds, or until an incident was found. Raises `Stopped`
        where nothing is kept, or the job had no such incident."""
        ...

    def bursts(self, job: str) -> dict[str, Any]:
        """Those of its nodes that are kept."""
        ...

    def burst(self, job: str, number: int) -> dict[str, Any]:
        """One with its samples. Raises `Stopped` where there is none."""
        ...

    def story(self, job: str, *, whole: bool = False, earlier: bool = False) -> dict[str, Any]:
        """`earlier`: also of the jobs that had its name before."""
        ...

    def curves(self, job: str) -> dict[str, Any]:
        """Its loss, speed and memory, with its incidents."""
        ...

    def why(self, name: str) -> dict[str, Any]:
        """Of the job or the node that is meant. Raises `Stopped`."""
        ...

    def goodput(self, job: str) -> dict[str, Any]:
        """Where the time of the job went."""
        ...

    def fleet_goodput(self, *, since_s: float, limit: int) -> dict[str, Any]:
        """Where the time of all jobs went, so far back; at most so many kinds and nodes."""
        ...


class Live:
    """A running driver. `others`: runs that it does not know."""

    def __init__(self, client: Client, others: Sequence[str] = ()) -> None:
        self._client = client
        self._others = others

    def jobs(self, **filters: Any) -> list[dict[str, Any]]:
        """Every page of the list."""
        found: list[dict[str, Any]] = []
        token: str | None = None
        while True:
            page = self._client.get(path("jobs"), **{"continue": token, **filters})
            found += page["items"]
            token = page["continue"]
            if token is None:
                return found

    def job(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self._client.get(path("jobs", name))
        except Problem as problem:
            self._name_others(problem, name)
            raise
        return found

    def no_job(self) -> Stopped:
        return Stopped("there is no job.", fix="Submit one: holdfast submit job.yaml")

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get(path("nodes"))["items"]
        return found

    def worst(self, most: int) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(path("evidence"), limit=most)
        return found

    def digest(self, since_s: float) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(path("digest"), since_s=since_s)
        return found

    def readiness(self) -> Readiness:
        return self._client.readiness()

    def incidents(self, job: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get(path("incidents"), job=job)["items"]
        return found

    def ranks(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(path("jobs", job, "ranks"))
        return found

    def view3d(self, job: str, *, incident: int | None = None) -> dict[str, Any]:
        if incident is not None:
            from holdfast.page import ended

            return ended.grid_of(self.spans(job, last_s=0.0, incident=incident), self.job(job))
        found: dict[str, Any] = self._client.get(path("jobs", job, "view3d"))
        return found

    def spans(self, job: str, *, last_s: float, incident: int | None = None) -> dict[str, Any]:
        if incident is not None:
            of_one = {"incident": incident, "limit": MOST_SPANS}
            told: dict[str, Any] = self._client.get(path("jobs", job, "spans"), **of_one)
            return told
        age_s = self.job(job)["age_s"]
        since = {"from_s": max(0.0, age_s - last_s), "to_s": age_s, "limit": MOST_SPANS}
        found: dict[str, Any] = self._client.get(path("jobs", job, "spans"), **since)
        return found

    def bursts(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(path("jobs", job, "bursts"))
        return found

    def burst(self, job: str, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(path("jobs", job, "bursts", number))
        return found

    def story(self, job: str, *, whole: bool = False, earlier: bool = False) -> dict[str, Any]:
        asked = {"all": whole, "earlier": earlier}
        told: dict[str, Any] = self._client.get(path("jobs", job, "story"), **asked)
        return told

    def goodput(self, job: str) -> dict[str, Any]:
        told: dict[str, Any] = self._client.get(path("jobs", job, "goodput"))
        return told

    def fleet_goodput(self, *, since_s: float, limit: int) -> dict[str, Any]:
        told: dict[str, Any] = self._client.get(path("goodput"), since_s=since_s, limit=limit)
        return told

    def curves(self, job: str) -> dict[str, Any]:
        told: dict[str, Any] = self._client.get(path("jobs", job, "curves"))
        return told

    def why(self, name: str) -> dict[str, Any]:
        of_job = self._why("jobs", name)
        if not isinstance(of_job, Problem):
            return of_job
        of_node = self._why("nodes", name)
        if not isinstance(of_node, Problem):
            return of_node
        raise neither(name, of_job, of_node)

    def _name_others(self, problem: Problem, name: str) -> None:
        """Where there is no such job: runs of other drivers may be meant as well."""
        if problem.status == 404 and self._others:
            known = {*self._others, *(job["name"] for job in self.jobs())}
            problem.fix = naming.instead("job", name, known)

    def _why(self, kind: str, name: str) -> dict[str, Any] | Problem:
        """The answer, or why there is none for this person."""
        try:
            told: dict[str, Any] = self._client.get(path(kind, name, "why"))
        except Problem as problem:
            if problem.status not in (403, 404):
                raise
            if kind == "jobs":
                self._name_others(problem, name)
            return problem
        return told


def neither(name: str, of_job: Problem, of_node: Problem) -> Stopped:
    """Where one of them is not there the other was meant, and may not be seen."""
    refused = [each for each in (of_job, of_node) if each.status == 403]
    if len(refused) == 1:
        return refused[0]
    fix = " ".join(dict.fromkeys(filter(None, (of_job.fix, of_node.fix))))  # each once
    if refused:
        sentence = f"you may see neither a job nor a node {name!r}."
        return Stopped(sentence, fix=fix, code=exitcodes.CONFIGURATION)
    lists = "`holdfast jobs` and `holdfast nodes` list what there is."
    return Stopped(f"there is no job or node {name!r}.", fix=fix or lists)


def source(
    url: str | None, state: Path | None, job: str | None = None, *, warns: bool = True
) -> tuple[Source, bool]:
    """Where to ask, about that job, and whether a driver runs there. `warns`: stderr has why one
    takes no new work, unless what is asked for tells it. Raises `Stopped` (69) where nothing is.
    """
    target = find.Target(url=url, state=state, job=job)
    root = find.state_folder(target, alive=False)
    others = [run.name for run in find.runs()] if target.is_guessed else []
    if url or (root is not None and find.awaited(root) is not None):
        live = Live(find.client(find.Target(url=url, state=root)), others)
        if warns:
            warn_unready(live.readiness())
        return live, True
    if root is None:
        raise not_reachable(
            "no driver is running here, and there is no run under ./runs.",
            "Name one: --state DIR, or --driver URL",
        )
    from holdfast.cli.offline import Recorded

    return Recorded(root, others), False


def warn_unready(found: Readiness) -> None:
    """On stderr, once a command: why the driver takes no new work."""
    if found.why and not found.ready:
        warn(found.why)


LOST = "lost its driver"
"""What a job does that had not ended when its driver did: nobody runs it any more."""
CUT_SHORT = "cut short"
"""The same of one that a person was stopping: he did not wait for its end."""


def state_of(job: Mapping[str, Any], *, alive: bool) -> str:
    """A job's phase, as far as it is true: without a driver nothing under way is."""
    from holdfast.driver.core.state.model import FINISHED, Wanted

    if alive or job["phase"] in FINISHED:
        return str(job["phase"])
    return CUT_SHORT if job["wanted"] in {Wanted.STOP, Wanted.DELETE} else LOST


def broken_off(asked: Source, subject: str) -> str:
    """How a job ended that had not ended when its driver did: `speech lost its driver.`; "" of all
    else.
    """
    found = next((job for job in asked.jobs() if job["name"] == subject), None)
    how = state_of(found, alive=False) if found is not None else ""
    told = {
        LOST: f"{subject} {LOST}.",
        CUT_SHORT: f"{subject} was {CUT_SHORT}: it was being stopped, and nobody waited for that.",
    }
    return told.get(how, "")


def job_named(asked: Source, name: str | None) -> dict[str, Any]:
    """The job, or the only or newest one where none is named. Raises `Stopped`."""
    if name is not None:
        return asked.job(name)
    jobs = asked.jobs()
    if not jobs:
        raise asked.no_job()
    return jobs[-1]
