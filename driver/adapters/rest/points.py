"""What people are shown of how a job's ranks lie, and of what they could start from. Pure.

Used by `views`.
"""

from itertools import chain

from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.attempt.quiet import quiet_of
from holdfast.driver.core.state.model import Job, State
from holdfast.driver.core.state.restore_point import RestorePoint, Tainted


class LayoutView(View):
    """How many ranks there are, and along which axes. `places` of the job says on which nodes."""

    number: int
    """One more each time that ranks start on other nodes; 0 while none has run on these."""
    dp: int
    pp: int
    tp: int
    nodes: int
    ranks_per_node: int


class RestorePointView(View):
    """A saved step that ranks could start from, or could but for its status."""

    step: int
    where: str
    """memory (of the job's nodes) or store."""
    status: str
    """sealed (not every rank has it), whole, verified (ranks started from it, and got further than
    any had been), or tainted (it is not used)."""
    why: str
    """It is tainted; else empty."""
    since_s: float | None
    """Seconds since it is known to be tainted; null where the last look found it so."""
    written_s: float | None
    """Seconds since it was written to the store; null where it was only found there."""
    attempt: int
    """The attempt that saved it; 0 where that is not known, as of the next one."""
    layout: int
    """The number of that attempt's layout."""
    version: int
    """The version of the job that it ran."""


def layout_view(job: Job) -> LayoutView:
    layout, axes = job.layout, job.layout.topology
    return LayoutView(
        number=layout.number,
        dp=axes.dp,
        pp=axes.pp,
        tp=axes.tp,
        nodes=layout.nodes,
        ranks_per_node=layout.ranks_per_node,
    )


def restore_points(state: State, job: Job, now: float) -> list[RestorePointView]:
    """What the job remembers, and what its nodes tell of until its ranks run; the newest first."""
    told = () if job.seated else known_points.told(job, quiet_of(state.nodes, job))
    by_name = {(each.where, each.saved): each for each in chain(job.points, told)}
    newest_first = sorted(by_name.values(), key=lambda each: (each.saved, each.where), reverse=True)
    return [_view(each, now) for each in newest_first]


def _view(point: RestorePoint, now: float) -> RestorePointView:
    taint = point.status if isinstance(point.status, Tainted) else None
    return RestorePointView(
        step=point.step,
        where=point.where.value,
        status=type(point.status).__name__.lower(),
        why=taint.why if taint else "",
        since_s=ago(taint.since_s if taint else None, now),
        written_s=ago(point.written_s, now),
        attempt=point.attempt,
        layout=point.layout,
        version=point.version,
    )


def ago(at_s: float | None, now: float) -> float | None:
    """How long that is over, if it was."""
    return None if at_s is None else max(0.0, now - at_s)
