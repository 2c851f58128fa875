"""What ranks of a job have told of the attempt under way: each node its own, the job the sums.

Kept by `ranks` and asked by whoever judges ends. Pure. A word from one of thousands of nodes costs
that node's value and a few numbers; all of them are looked through only where a fault is judged.
What a node told of an earlier epoch is nothing: epochs of all jobs are one row of numbers.
"""

from collections.abc import Collection, Mapping
from signal import SIGABRT

from msgspec.structs import replace

from holdfast.driver.core.state.model import Job, Tally
from holdfast.driver.core.state.node import Exited, Node
from holdfast.driver.core.turn import Turn
from holdfast.telemetry.analysis.ends import failed, is_echo, own_signal


def exits_of(nodes: Mapping[str, Node], job: Job) -> tuple[Exited, ...]:
    """Ends of ranks in the epoch, in order of arrival; of a finished job those that were kept."""
    if job.finished or not job.tally.ended:
        return job.exits
    known = (nodes[name] for name in job.places if name in nodes)
    found = [exited for node in known for exited in ended_on(node, job)]
    return tuple(sorted(found, key=lambda exited: exited.at))


def ended_on(node: Node, job: Job) -> tuple[Exited, ...]:
    """The ends of ranks in the epoch that the node told."""
    held = node.held
    return held.exits if held is not None and held.exited == job.epoch else ()


def started(turn: Turn, job: Job) -> bool:
    """Whether each node has told that its ranks run, or that some have ended."""
    if job.tally.running + job.tally.ended < job.layout.nodes:
        return False  # asked at each node's word: no look at all of them before the last
    return not job.vacant and all(_started(turn.nodes[name], job) for name in job.places)


def _started(node: Node, job: Job) -> bool:
    return node.held is not None and job.epoch in (node.held.ran, node.held.exited)


def runs_on(node: Node, job: Job) -> bool:
    """Whether it told that the job's ranks on it have all started, in this epoch."""
    return node.held is not None and node.held.ran == job.epoch


def runs(turn: Turn, job: Job, node: str) -> None:
    """The node's ranks have all started."""
    if (held := turn.nodes[node].held) is None:
        return
    turn.note(node, replace(held, ran=job.epoch))
    turn.job(job.name, tally=replace(job.tally, running=job.tally.running + 1))


def ended(turn: Turn, job: Job, node: str, exits: tuple[Exited, ...]) -> None:
    """More of the node's ranks have ended."""
    if (held := turn.nodes[node].held) is None:
        return
    before = ended_on(turn.nodes[node], job)
    turn.note(node, replace(held, exited=job.epoch, exits=(*before, *exits)))
    turn.job(job.name, tally=with_ends(job.tally, exits))


def with_ends(tally: Tally, exits: Collection[Exited]) -> Tally:
    """The sums with these, too."""
    bad = [exited.status for exited in exits if failed(exited.status)]
    causes = [status for status in bad if not is_echo(status)]
    return replace(
        tally,
        ended=tally.ended + len(exits),
        failed=tally.failed + len(bad),
        causes=tally.causes + len(causes),
        plain=tally.plain + sum(own_signal(status) is not SIGABRT for status in causes),
        saved=tally.saved or any(exited.saved for exited in exits),
    )
