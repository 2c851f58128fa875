"""Which nodes of a job have no rank of an older epoch left, and what each told with that.

Each node's word is in its own value, of one epoch; the job counts them, and those that may still
have older ranks: it is asked at each word, of thousands. Told by `ranks`, asked by whoever seats
ranks or waits for the end of older ones. Pure.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from holdfast.driver.core.state.model import Job, Tally
from holdfast.driver.core.state.node import Held, Node, Promised, Quiet
from holdfast.driver.core.turn import Turn


def is_quiet(node: Node, job: Job) -> bool:
    return node.quiet_in(job.epoch) is not None


def is_ending(node: Node) -> bool:
    """Whether its job has to wait until no older rank is left there."""
    return node.held is not None and node.held.ending


def quiet_of(nodes: Mapping[str, Node], job: Job) -> dict[str, Quiet]:
    """What each of its nodes told, in rank order, then what its standbys did."""
    told = ((name, nodes[name].quiet_in(job.epoch)) for name in job.members if name in nodes)
    return {name: quiet for name, quiet in told if quiet is not None}


def killed_of(nodes: Mapping[str, Node], job: Job) -> tuple[int, ...]:
    """Its ranks that had not ended when their grace was over, in their order."""
    return tuple(sorted(rank for quiet in quiet_of(nodes, job).values() for rank in quiet.killed))


def note(turn: Turn, job: Job, node: str, quiet: Quiet) -> None:
    """A node of the job has no older rank left."""
    known = turn.nodes[node]
    if isinstance(known.holding, Held):
        turn.note(node, replace(known.holding, quiet=quiet, ending=False))
    elif isinstance(known.holding, Promised):
        turn.note(node, replace(known.holding, quiet=quiet))
    counts = without_nodes(job.tally, job, [known])
    turn.job(job.name, tally=replace(counts, quiet=counts.quiet + 1))


def forget(turn: Turn, job: Job, node: str) -> None:
    """It has a new executor, which has to say it anew."""
    known = turn.nodes[node]
    if isinstance(known.holding, Promised | Held) and is_quiet(known, job):
        turn.note(node, replace(known.holding, quiet=None))
        turn.job(job.name, tally=replace(job.tally, quiet=job.tally.quiet - 1))


def without_nodes(counts: Tally, job: Job, nodes: Iterable[Node]) -> Tally:
    """The job's counts but for some of its nodes."""
    quiet, ending = counts.quiet, counts.ending
    for node in nodes:
        quiet, ending = quiet - is_quiet(node, job), ending - is_ending(node)
    return replace(counts, quiet=quiet, ending=ending)


def end_all(turn: Turn, job: Job) -> int:
    """Its ranks are to end: how many of its nodes have had some. One that has only just come has
    nothing to end.
    """
    seated = {seat.node for seat in job.seats}
    had = [(name, turn.nodes[name].held) for name in job.nodes if name in seated]
    ending = [(name, held) for name, held in had if held is not None]
    for name, held in ending:
        turn.note(name, replace(held, ending=True))
    return len(ending)
