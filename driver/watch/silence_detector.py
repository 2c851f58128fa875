"""`SilentNodes`: asks `silence` about all nodes, and says whose ranks the others wait for. Pure."""

from holdfast.driver.watch import jobs, silence
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Findings
from holdfast.telemetry.analysis import hang


class SilentNodes(Detector):
    """Each silence is told once, and forgotten once the node is heard again."""

    def __init__(self) -> None:
        self._told: silence.Reported = frozenset()

    def looked(self, context: Context) -> Findings:
        if not context.sees_most:
            return ()
        self._told, findings = silence.judge(
            self._told, context.nodes, _around(context), context.settings, context.now
        )
        return findings


def _around(context: Context) -> silence.Around:
    now, late_s, nodes = context.now, context.late_s, context.nodes.values()
    silent = any(seen.heard_s and now - seen.heard_s > late_s for seen in nodes)
    return silence.Around(
        period_s=context.period_s,
        seated=frozenset(context.seats),
        held_up=_held_up(context) if silent else {},
    )


def _held_up(context: Context) -> dict[str, float]:
    """Nodes whose ranks the others wait for, and for how long nothing has moved."""
    held_up: dict[str, float] = {}
    for job in context.running():
        with context.guard(job.expected.job):
            held_up.update(_waited_for(job, context.now))
    return held_up


def _waited_for(job: JobSeen, now: float) -> dict[str, float]:
    """The node of the rank that the others of the job wait for, and for how long nothing moves."""
    quiet_s = jobs.quiet_s(job, now)
    if quiet_s <= jobs.QUIET_S:
        return {}
    ranks = jobs.fresh(job, now)
    rank = hang.culprit(ranks, job.places.keys() - ranks.keys()).rank
    return {} if rank is None else {job.places[rank]: quiet_s}
