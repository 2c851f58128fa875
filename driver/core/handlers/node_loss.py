"""Nodes that are gone, or silent: what follows, and when nobody is taken for either.

Called by whoever hears of a node, and by ticks. Pure. A node is gone when two sources say so, the
cluster, its connection or its peers; silence alone counts only after a while, and within the brake.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.faults import incidents, root_cause
from holdfast.driver.core.faults.fault import by_executor, infrastructure
from holdfast.driver.core.handlers import oom_killed
from holdfast.driver.core.job import eviction
from holdfast.driver.core.recovery import next_step
from holdfast.driver.core.state.fact import Bearing, Fact, OfCluster
from holdfast.driver.core.state.model import Fault, Job, Timer
from holdfast.driver.core.state.node import Awaited, Broken, Node
from holdfast.driver.core.testing import off_the_job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Evidence, Kind, Weight
from holdfast.telemetry.analysis.ends import failed

MOMENT = 0.25
"""Of the time that a silent executor has: so short is no silence. The rest is longer than the 10 s
within which all connections end of a network that fails: as often executors ping."""

HEARD = "all are heard again"


def missing(turn: Turn, job: Job) -> list[str]:
    """Its nodes that may be gone: not there, or without a connection."""
    known = [turn.nodes[name] for name in job.nodes]
    return [node.name for node in known if not (node.present and node.connected)]


def confirm(turn: Turn, name: str) -> None:
    """Act once the cluster and the connection agree that the node is gone."""
    node = turn.nodes[name]
    if node.present or not isinstance(node.link, Broken):
        return
    off_the_job.object_to(turn, name, "it went away")
    if node.job is not None:
        next_step.recover(turn, node.job, _loss(name, _no_connection(name)))


def lose_missed(turn: Turn, job: Job) -> bool:
    """Lose nodes of which the cluster says that they are gone, and whose peers say the same."""
    missed = [name for name in job.nodes if not turn.nodes[name].present]
    exits = exits_of(turn.nodes, job) if missed else ()
    for name in missed:
        echo = next(exited for exited in exits if failed(exited.status))
        peers = by_executor(echo.node, f"rank {echo.status.rank} there lost a peer")
        next_step.recover(turn, job.name, _loss(name, peers))
    return bool(missed)


def explain_echoes(turn: Turn, node: str) -> None:
    """What ranks that lost a peer wait for: no connection has to end before that is believed.

    After a driver was restarted nothing was connected, so nothing ends; the peers' word is enough.
    """
    job = turn.jobs.get(turn.nodes[node].job or "")
    if job is not None and Timer.DOUBT in job.timers and root_cause.only_echoes(job):
        lose_missed(turn, job)


def end_doubt(turn: Turn, job: Job) -> None:
    """All are back: what they know of their ranks comes now, or there is nothing to know."""
    if Timer.DOUBT in job.timers and not missing(turn, job):
        turn.set_timer(job.name, Timer.DOUBT, turn.policy.echo_s)


def _no_connection(name: str) -> Evidence:
    return Evidence(source="driver", text=f"the executor of {name} has no connection")


def _loss(name: str, second: Evidence) -> Fault:
    """The cluster says that it is gone, and so does a second source."""
    gone = Evidence(source="cluster", text=f"{name} is gone")
    return infrastructure(Kind.NODE_LOST, Weight.CONCLUSIVE, f"{name} is lost", name, gone, second)


def check_silence(turn: Turn) -> None:
    """Executors that were away too long: within the brake their nodes go, above it nobody does.

    While executors still come back to a driver that took over, those that have not are late, for
    there are many of them, and not silent.
    """
    due = [n.name for n in turn.nodes.values() if n.silent_check_s and n.silent_check_s <= turn.now]
    if not due:
        return
    held = [node for node in turn.nodes.values() if node.job and not _may_go(turn, node.job)]
    silent = [node.name for node in held if _is_silent(turn, node)]
    cap = eviction.cap(turn, turn.policy.silence_share)
    outage = len(silent) == len(held) or len(silent) > cap
    again_s = turn.now + turn.policy.reconnect_s
    broken = sorted(each for node in turn.nodes.values() if (each := _broken_s(node)) is not None)
    for name in turn.each_node(due):
        node = turn.nodes[name]
        if node.job is None or node.connected:
            turn.look_at_silence(name, None)
        elif _may_go(turn, node.job) or turn.jobs[node.job].parked:
            turn.look_at_silence(name, again_s)
        elif not node.present:
            next_step.recover(turn, node.job, _loss(name, _no_connection(name)))
        elif oom_killed.may_come(turn, node) or _is_waited_for(turn, node):
            turn.look_at_silence(name, again_s)
        elif to_return(node) and turn.now < (late_s := turn.returned_s + turn.policy.reconnect_s):
            turn.look_at_silence(name, late_s)
        elif outage or eviction.too_many(turn, silent=True):
            turn.look_at_silence(name, again_s)
            _note_outage(turn, silent, len(held))
        else:
            fault = replace(_silence(turn, node), spared=_not_alone(turn, node, broken))
            next_step.recover(turn, node.job, fault)


def _broken_s(node: Node) -> float | None:
    """Since when it is not heard; 0: of a driver that took over. None: it is, or was never."""
    if isinstance(node.link, Awaited):
        return 0.0
    return node.link.since_s if isinstance(node.link, Broken) else None


def _not_alone(turn: Turn, node: Node, broken: Sequence[float]) -> bool:
    """Whether others fell silent at about the same time: then it is more likely what is between
    them and the driver, and nothing is held against any. `broken`: since when nodes are, sorted.
    """
    since_s, near_s = _broken_s(node) or 0.0, turn.policy.correlation_s
    first, last = bisect_left(broken, since_s - near_s), bisect_right(broken, since_s + near_s)
    return last - first > 1


def _is_silent(turn: Turn, node: Node) -> bool:
    """Whether it has no connection, and not for a moment only: who flaps protects nobody."""
    moment_s = MOMENT * turn.policy.reconnect_s
    lost_s = node.link.since_s if isinstance(node.link, Broken) else 0.0
    return not node.connected and turn.now - lost_s >= moment_s


def _is_waited_for(turn: Turn, node: Node) -> bool:
    """Whether its job does nothing about its loss yet, for it may have no other."""
    held = turn.jobs[node.job or ""].held
    return held is not None and held.node == node.name


def _may_go(turn: Turn, job: str) -> bool:
    """Whether the job is to end or to rest, for now: its executors go, with a last word or without
    one, and what does not become quiet in time is left.
    """
    return not turn.jobs[job].goes_on


def to_return(node: Node) -> bool:
    """Whether its executor was not here yet since this driver took over."""
    return isinstance(node.link, Awaited) and node.link.check_s is not None


def _silence(turn: Turn, node: Node) -> Fault:
    text = f"no executor connected for {turn.policy.reconnect_s:g} s"
    told, summary = Evidence(source="driver", text=text), f"{node.name} stays silent"
    return infrastructure(
        Kind.EXECUTOR_LOST, Weight.CONCLUSIVE, summary, node.name, told, silent=True
    )


def _note_outage(turn: Turn, silent: list[str], held: int) -> None:
    if any(incident.outage and incident.open for incident in turn.incidents.values()):
        return
    summary = f"{len(silent)} of {held} nodes are silent at once: more than may be evicted for it"
    fault = infrastructure(Kind.EXECUTOR_LOST, Weight.CONCLUSIVE, summary)
    incident = incidents.open_or_join(turn, None, fault)
    turn.incident(incident.id, outage=True, closed_s=None, nodes=tuple(silent))
    turn.add_fact(Fact(subject=OfCluster(), what=summary, bearing=Bearing.ACCUSES))
    turn.say(f"{summary}; nobody is evicted")


def end_outage(turn: Turn) -> None:
    """Close the outage once everybody who is needed is heard again."""
    outages = [i for i in turn.incidents.values() if i.outage and i.open]
    if not outages:
        return
    if any(node.job is not None and not node.connected for node in turn.nodes.values()):
        return
    turn.add_fact(Fact(subject=OfCluster(), what=HEARD, bearing=Bearing.ACQUITS))
    for incident in outages:
        incidents.close_at_rest(turn, turn.incident(incident.id, outage=False), HEARD)
