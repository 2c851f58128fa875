"""The same answers as the driver's, from a run's journal, where no driver runs. Read-only.

Called through `cli.asking`. Builds its answers with the functions that the driver's own
routes use, so that both say the same.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli import past_ranks
from holdfast.cli.client import Readiness
from holdfast.cli.errors import Stopped, not_reachable, not_readable
from holdfast.cli.output import complain
from holdfast.kit.clock import SystemClock
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

if TYPE_CHECKING:
    from holdfast.driver.adapters.page.past import Past
    from holdfast.driver.adapters.rest.costs import FleetGoodput
    from holdfast.driver.adapters.rest.parameters import JobFilter
    from holdfast.driver.core.state.model import Job
    from holdfast.traces.axes import Axes

LAST_S = 10.0
"""Of spans in which it is looked for what ranks were at when it ended."""
UNDER_WAY = frozenset({"free", "held", "in test", "unknown"})
"""States of nodes that are over where nothing runs any more; others are known as well then."""


class Recorded:
    """A run's journal, as if its driver were asked. `others`: runs that it does not know."""

    def __init__(self, root: Path, others: Sequence[str] = ()) -> None:
        from holdfast.driver.adapters.sql.sqlite import read_only
        from holdfast.driver.core.state.model import State
        from holdfast.driver.formats.encode import UnreadableState, decode
        from holdfast.driver.ports import PermanentError, TemporaryError

        self._root, self._others = root, others
        path = RunPaths(root).journal
        try:
            path.open("rb").close()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise not_reachable(
                f"{root} has no journal.", "Name the state folder of a driver: --state DIR"
            ) from error
        except OSError as error:
            raise not_readable(path, error) from error
        try:
            self._journal, missing = read_only(path)
            encoded, self._sequence, self._now = self._journal.load()
            self._state = decode(encoded) if encoded else State()
        except TemporaryError as error:
            raise Stopped(str(error), code=exitcodes.UNAVAILABLE) from error
        except (PermanentError, UnreadableState) as error:
            raise Stopped(str(error), code=exitcodes.CONFIGURATION) from error
        if missing:
            complain(missing)

    def jobs(self, **filters: Any) -> list[dict[str, Any]]:
        chosen = filter(_filter(filters).takes, self._state.jobs.values())
        return [self._view(job) for job in sorted(chosen, key=lambda job: job.number)]

    def job(self, name: str) -> dict[str, Any]:
        return self._view(self._state.jobs[self._meant(name)])

    def _view(self, job: "Job") -> dict[str, Any]:
        """What is "ago" counts to now; what a job was at then lasted until its driver ended."""
        from holdfast.driver.adapters.rest.views import job_view

        told = _plain(job_view(self._state, job, now=self._now_s, live=None))
        if not job.finished:
            since_s, age_s = self._now - job.since_s, self._now - job.submitted_s
            told |= {"since_s": max(0.0, since_s), "age_s": max(0.0, age_s)}
        return told

    def no_job(self) -> Stopped:
        return Stopped(
            f"{self._root} has no job: its driver ended before one had begun.",
            fix=f"See {RunPaths(self._root).driver_log}, or ask about another run: holdfast runs",
        )

    def nodes(self) -> list[dict[str, Any]]:
        from holdfast.driver.adapters.rest.views import node_view

        nodes = self._state.nodes.values()
        views = (node_view(self._state, node, now=self._now_s) for node in nodes)
        return [{**_plain(view), "state": self._now_of(view.state)} for view in views]

    def worst(self, most: int) -> dict[str, Any]:
        from holdfast.driver.adapters.rest.worst import worst_of

        told = _plain(worst_of(self._state, now=self._now_s, most=most))
        nodes = [{**each, "state": self._now_of(each["state"])} for each in told["nodes"]]
        return {**told, "nodes": nodes}

    def digest(self, since_s: float) -> dict[str, Any]:
        from holdfast.driver.adapters.rest.digests import digest_view
        from holdfast.driver.adapters.rest.goodput import DEFAULT_LIMIT, MAX_SINCE_S

        goodput = self._goodput(min(since_s, MAX_SINCE_S), DEFAULT_LIMIT)
        return _plain(digest_view(self._state, goodput, now=self._now_s, since_s=since_s))

    @cached_property
    def _now_s(self) -> float:
        """What the driver's time would be now: the last entry has that and the time of day."""
        last = self._journal.entries(after=self._sequence - 1, limit=1)
        ages = [SystemClock().wall() - datetime.fromisoformat(entry.at) for entry in last]
        return self._now + max((age.total_seconds() for age in ages), default=0.0)

    def _now_of(self, state: str) -> str:
        """What a node is now that was so: those of this machine end with whoever started them."""
        return past_ranks.ENDED if self._local and state in UNDER_WAY else state

    @cached_property
    def _local(self) -> bool:
        """Whether its nodes were of this machine."""
        from holdfast.keeper.state import state_path

        return state_path(self._root).exists()

    def readiness(self) -> Readiness:
        return Readiness(ready=False, why="", stale=False)

    def brake(self) -> dict[str, Any]:
        from holdfast.driver.adapters.rest.views import brake_view

        return _plain(brake_view(self._state, dry_run=False))

    def incidents(self, job: str) -> list[dict[str, Any]]:
        from holdfast.driver.adapters.rest.views import incident_view
        from holdfast.driver.people import job_lives

        found = job_lives.incidents_of(self._state, job)
        return [_plain(incident_view(each)) for each in found]

    def ranks(self, job: str) -> dict[str, Any]:
        """Where each was, what it did last as far as it was traced, and what it wrote last."""
        from holdfast.driver.adapters.rest.ranks import last_lines

        meant = self._state.jobs[self._meant(job)]
        layout, spans = meant.layout, self.spans(job, last_s=LAST_S)
        rows = past_ranks.rows(meant.world_size, layout.ranks_per_node, layout.node_of, spans)
        lines = last_lines(RunPaths(self._root), meant) if rows else {}
        told = [{**row, "last_line": lines.get(row["rank"], "")} for row in rows]
        says = past_ranks.OF_SPANS if spans["spans"] else past_ranks.NOT_KEPT
        return {"job": meant.name, "step": meant.best_step or 0, "ranks": told, "nothing": says}

    def view3d(self, job: str, *, incident: int | None = None) -> dict[str, Any]:
        from holdfast.page import ended

        meant = self.job(job)
        told = self.spans(job, last_s=LAST_S, incident=incident)
        if not told["spans"]:
            fix = f"What was traced: holdfast trace ls, holdfast timeline {job}"
            raise Stopped(f"no driver runs, and {past_ranks.NOT_KEPT}", fix=fix)
        return ended.grid_of(told, meant)

    def spans(self, job: str, *, last_s: float, incident: int | None = None) -> dict[str, Any]:
        """The last of what the run's folder has: its end is that of the last span."""
        from holdfast.driver.adapters.page.past import last_of

        if incident is not None:
            return self.spans_until(job, incident).answer()
        meant = self.job(job)
        name, axes = meant["name"], self.axes(meant["name"])
        past = last_of(self._root, name, age_s=meant["age_s"], last_s=last_s, axes=axes)
        return past.answer()

    def axes(self, job: str) -> "Axes":
        """How its ranks are parallel."""
        from holdfast.driver.adapters.rest.spans import axes_of

        return axes_of(self._state.jobs[self._meant(job)])

    def spans_until(self, job: str, incident: int) -> "Past":
        """What its ranks did until that incident was found. Raises `Stopped` where it had none."""
        from holdfast.driver.adapters.page.past import between
        from holdfast.driver.adapters.rest.problems import Problem
        from holdfast.driver.adapters.rest.spans import until_found

        meant = self._state.jobs[self._meant(job)]
        try:
            from_s, to_s = until_found(self._state, meant, incident)
        except Problem as problem:
            raise Stopped(problem.detail, fix=problem.fix) from problem
        axes = self.axes(meant.name)
        return between(self._root, meant.name, from_s=from_s, to_s=to_s, axes=axes)

    def bursts(self, job: str) -> dict[str, Any]:
        from holdfast.driver.adapters.rest import burst_views

        return _plain(burst_views.listed(self._root, self._meant(job)))

    def burst(self, job: str, number: int) -> dict[str, Any]:
        from holdfast.driver.adapters.rest import burst_views
        from holdfast.driver.adapters.rest.problems import Problem

        try:
            return _plain(burst_views.one(self._root, self._meant(job), number))
        except Problem as problem:
            raise Stopped(problem.detail, fix=problem.fix) from problem

    def story(self, job: str, *, whole: bool = False, earlier: bool = False) -> dict[str, Any]:
        from holdfast.driver.adapters.rest import telling

        meant = self._state.jobs[self._meant(job)]
        told = telling.story_of(self._journal, self._state, meant, whole=whole, earlier=earlier)
        return _plain(told)

    def why(self, name: str) -> dict[str, Any]:
        """About a job or a node."""
        from holdfast.driver.adapters.rest import against, telling, views

        if node := self._state.nodes.get(name):
            ended = self._now_of(views.node_state(node)) == past_ranks.ENDED
            over = "has ended, as all nodes of this machine do with their driver" if ended else ""
            now = self._now_s
            told = _plain(telling.why_node(self._journal, self._state, node, now=now, over=over))
            mind = against.mind_once_over(self._state, node, now)
            return {**told, "mind": mind} if self._local else told
        job = self._state.jobs[self._meant(name, kind="job or node")]
        return _plain(telling.why_job(self._journal, self._state, job, now=self._now_s))

    def goodput(self, job: str) -> dict[str, Any]:
        """Until the driver's last entry: what a job did after that nobody saw."""
        from holdfast.driver.adapters.rest.costs import goodput_view
        from holdfast.driver.people.goodput.ledger import Ledger

        meant = self._state.jobs[self._meant(job)]
        account = Ledger().account(self._journal, self._state, meant, now=self._now)
        return _plain(goodput_view(account, self._state.incidents))

    def curves(self, job: str) -> dict[str, Any]:
        """As its driver noted them in the run's folder."""
        from holdfast.driver.adapters.rest.curves import curves_view
        from holdfast.driver.follow.curves import stored
        from holdfast.driver.people import job_lives

        meant = self._state.jobs[self._meant(job)]
        known = stored(RunPaths(self._root).curves(meant.name), meant.submitted_s)
        incidents = job_lives.incidents_of(self._state, meant.name)
        return _plain(curves_view(meant, known, incidents))

    def fleet_goodput(self, *, since_s: float, limit: int) -> dict[str, Any]:
        return _plain(self._goodput(since_s, limit))

    def _goodput(self, window_s: float, most: int) -> "FleetGoodput":
        from holdfast.driver.adapters.rest.costs import fleet_view
        from holdfast.driver.people.goodput.ledger import Ledger

        begin_s = self._now_s - window_s
        fleet = Ledger().fleet(self._journal, self._state, now=self._now, since_s=begin_s)
        return fleet_view(fleet, window_s=window_s, most=most)

    def _meant(self, name: str, *, kind: str = "job") -> str:
        """The whole name of the one job that is meant. Raises `Stopped` as a driver would."""
        from holdfast.driver.adapters.rest import naming

        if name == self._root.name and not self._state.jobs:
            raise self.no_job()
        fits = naming.fitting(name, self._state.jobs)
        if not fits:
            there = naming.instead("job", name, {*self._state.jobs, *self._others})
            if kind != "job":
                there += f" {naming.instead('node', name, self._state.nodes)}"
            raise Stopped(naming.none_of(kind, name), fix=there)
        if len(fits) > 1:
            sentence, fix = naming.several(name, fits)
            raise Stopped(sentence, fix=fix)
        return fits[0]


def _filter(asked: dict[str, Any]) -> "JobFilter":
    """What the driver would make of it. Raises `Stopped` (2) with what it would refuse."""
    from pydantic import ValidationError

    from holdfast.driver.adapters.rest.parameters import JobFilter
    from holdfast.protocol.mistakes import in_our_words

    try:
        given = {name: value for name, value in asked.items() if value is not None}
        return JobFilter.model_validate(given)
    except ValidationError as error:
        wrong = [str(in_our_words({**each}, known=())) for each in error.errors()]
        raise Stopped("the query is not right.", details=wrong, code=exitcodes.USAGE) from error


def _plain(view: Any) -> dict[str, Any]:
    values: dict[str, Any] = view.model_dump(mode="json", by_alias=True)
    return values
