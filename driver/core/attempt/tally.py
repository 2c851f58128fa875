"""What ranks of a job have told of the attempt under way: each node its own, the job the sums.

Kept by `ranks` and asked by whoever judges ends. Pure. A word from one of thousands of nodes costs
that node's value and a few numbers; all of them are looked through only where a fault is judged.
What a node told of an earlier epoch is nothing: epochs of all jobs are one row of numbers.
"""

from collections.abc import Iterable, Mapping
from signal import SIGABRT, Signals

from msgspec.structs import replace

from holdfast.driver.core.state.model import Job, Tally
from holdfast.driver.core.state.node import Exited, Node
from holdfast.driver.core.turn import Turn
from holdfast.protocol.exitcodes import of_signal
from holdfast.protocol.messages import RankStatus

OWN_SIGNALS = frozenset(
    {
        Signals.SIGILL,
        Signals.SIGTRAP,
        Signals.SIGABRT,
        Signals.SIGBUS,
        Signals.SIGFPE,
        Signals.SIGSEGV,
        Signals.SIGSYS,
    }
)
"""Those that a process brings upon itself; a person or a kernel short of memory sends others."""

_SENT = frozenset({Signals.SIGHUP, Signals.SIGINT, Signals.SIGKILL, Signals.SIGTERM})
"""Those that come from outside."""

# ---------------------------------------------------------------- how a rank ended


def failed(status: RankStatus) -> bool:
    """True where the rank did not end well."""
    return bool(status.signal) or status.exit_code != 0


def is_echo(status: RankStatus) -> bool:
    """True where the death of a peer explains this one."""
    return not status.signal and status.error is not None and status.error.in_collective


def own_signal(status: RankStatus) -> Signals | None:
    """The signal that the rank brought upon itself, also as a shell's exit code; None: no such."""
    number = signal_of(status)
    return next((signal for signal in OWN_SIGNALS if signal == number), None)


def signal_of(status: RankStatus) -> int:
    """The number of the signal that ended it, also as a shell's exit code; 0: none did. A script
    may end with any code: only those count of signals that rank or outside are known to send."""
    number = (status.exit_code or 0) - of_signal(0)
    return status.signal or (number if number in OWN_SIGNALS | _SENT else 0)


# ---------------------------------------------------------------- what each node told, and the sums


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
    turn.job(job.name, tally=_with(job.tally, exits))


def of(exits: Iterable[Exited], running: int = 0) -> Tally:
    """The sums of all of them."""
    return _with(Tally(running=running), tuple(exits))


def _with(tally: Tally, exits: tuple[Exited, ...]) -> Tally:
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
