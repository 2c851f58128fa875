"""Ends of ranks that come again: the same words at the same place of the script.

Called by `root_cause`, which gives an end its signature, and by the ladder. Pure.
The same exception, raised twice at one step and line, is in the code or in its data, and a third
time tells nobody more; a script that cannot even be read, or what it imports, ends its job the
first time, unless it ran before: then somebody writes it anew just now. Of steps that count from
each start that holds while nothing is saved. The same signal may be the node's: another node, or
tests of that one, come first. A signal from outside (SIGKILL) once says nothing of the place; where
it comes again there, and the job did not get on, the cause is what the ranks do there, memory say:
the user's budget pays for what follows. What the outside refused may be there the next time, and
has no signature.
"""

import re
from signal import Signals

from holdfast.driver.core.attempt.ended_by import own_signal, signal_of
from holdfast.driver.core.events import ProgressSeen
from holdfast.driver.core.state.model import Again, Fault, Job, Signature
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame
from holdfast.protocol.messages import RankError, RankStatus

KEPT = 16
"""Ends that a job remembers, the latest ones."""

_SENDERS = {
    "SIGKILL": ": the kernel does that where memory is short (see dmesg)",
    "SIGTERM": ": a time limit does that",
    "SIGXCPU": ": its limit of CPU time is used (ulimit -t)",
    "SIGXFSZ": ": a file is at its limit (ulimit -f)",
    "SIGALRM": ": a timer that it set itself does that",
}

_PASSING = re.compile(
    r"^(\w*(Connection|Timeout|OSError|BrokenPipe|HTTP|URL|SSL)\w*|gaierror|IOError)$"
)
"""Exceptions that tell of the world outside the script: network, files, servers."""
_DEVICE = re.compile(r"\b(CUDA|HIP|NCCL|RCCL) error|cuDNN|CUBLAS", re.IGNORECASE)
"""Words of a device that failed: the place in the script is only where that was noticed."""
_UNREADABLE = frozenset({"SyntaxError", "IndentationError", "TabError"})
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_RAN = re.compile(
    r'^ *File "(?P<file>[^"\n]+)", line \d+, in (?P<name>.*)(\n    (?P<source>.*))?', re.MULTILINE
)
"""A frame that ran, with its source: of a place where Python could not read on nothing is `in`."""
_IMPORT = re.compile(r"(^|[:;]) *(import|from +\S+ +import)\b|\b(import_module|__import__)\b")
"""In a line of source."""
_IMPORTER = "<frozen importlib"
"""The file of Python's own frames of an import: they show no source."""


def signature(status: RankStatus) -> Signature | None:
    """Where and how the rank ended; None for an end that says nothing of its place, and for a
    program whose steps nobody sees.
    """
    how = _how(status)
    if not how or status.step is None:
        return None
    return Signature(
        how=how,
        step=status.step,
        relative=status.saved is not None,
        unread=_unread(status.error),
        outside=signal_of(status) > 0 and own_signal(status) is None,
    )


def _unread(error: RankError | None) -> bool:
    """Whether Python could not read the script itself, of which nothing ran then, or a file that it
    imports. What only is not there may be there for the next start: that is another exception.
    """
    if error is None or error.exception not in _UNREADABLE:
        return False
    ran = list(_RAN.finditer(error.traceback))
    return _imports(ran[-1]) if ran else len(_FRAME.findall(error.traceback)) == 1


def _imports(frame: re.Match[str]) -> bool:
    """Also by a name, not by a word of the file's path."""
    return (
        frame["file"].startswith(_IMPORTER)
        or frame["name"] == "import_module"
        or bool(_IMPORT.search((frame["source"] or "").strip()))
    )


def _how(status: RankStatus) -> str:
    if status.out_of_memory:
        return ""
    if number := signal_of(status):
        return signal_name(number)
    error, code = status.error, f"exit code {status.exit_code or 0}"
    if error is None:
        return code
    if _PASSING.match(error.exception) or _DEVICE.search(error.message) or error.not_startable:
        return ""
    return code + _words(error)


def signal_name(number: int) -> str:
    """`SIGKILL`, or `signal 42` where it has no name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _words(error: RankError) -> str:
    frames = list(_FRAME.finditer(error.traceback))
    where = f" at {frames[-1]['file']}:{frames[-1]['line']}" if frames else ""
    return f"{where}: {_NUMBER.sub('#', error.message)}"


def note(turn: Turn, name: str, fault: Fault) -> None:
    """Count the fault's end, with the node that it came on. Where the script saved steps that it
    counts from its start the next attempt goes on from there: none of its ends was at this place.
    """
    job = turn.jobs[name]
    if job.tally.saved:
        turn.job(name, ends=())
        return
    if fault.signature is None:
        return
    before = _same(job, fault)
    lately = before is not None and _counts(before, turn.now - job.plan.user.window_s)
    nodes = (*(before.nodes if before and lately else ()), fault.node or "")
    others = tuple(each for each in job.ends if each is not before)
    again = Again(signature=fault.signature, nodes=nodes, at_s=turn.now)
    turn.job(name, ends=(*others, again)[-KEPT:])


def _counts(before: Again, since_s: float) -> bool:
    """At one numbered step a rank ends twice only where the job did not get on. Before its first
    step, or so many after its start, the same may befall a restart that comes much later.
    """
    numbered = before.signature.step > 0 and not before.signature.relative
    return numbered or before.at_s > since_s


def passed(turn: Turn, name: str, event: ProgressSeen) -> None:
    """The job got further than ever: the ends at the steps below are behind it. Of steps that count
    from the start of each attempt that says only that there was one.
    """
    first = 0 if event.stepless else 1
    job, reached = turn.jobs[name], first if event.step is None else event.step
    turn.job(name, ends=tuple(each for each in job.ends if each.signature.step >= reached))


def _same(job: Job, fault: Fault) -> Again | None:
    return next((each for each in job.ends if each.signature == fault.signature), None)


def came_again(job: Job, fault: Fault) -> bool:
    """Whether the same end came before."""
    return len(_nodes(job, fault)) > 1


def killed_again(job: Job, fault: Fault) -> bool:
    """Whether a signal from outside came before at this place, with no progress since: what the
    ranks do there brings it about. Of steps that count from each start nobody knows that: the
    script may have gone on from a checkpoint of its own.
    """
    end = fault.signature
    if end is None or not end.outside or (end.relative and end.step):
        return False
    return came_again(job, fault)


def killed(job: Job, fault: Fault) -> str:
    """A sentence for people about a signal that came again and again; "" for other faults."""
    end = fault.signature
    if end is None or not killed_again(job, fault):
        return ""
    where = f"after step {end.step}" if end.step else "before its first step"
    times = len(_nodes(job, fault))
    return f"That came {times} times {where}{_SENDERS.get(end.how, '')}. "


def known(job: Job, fault: Fault) -> bool:
    """Whether the same end came already, before this one is noted."""
    return fault.signature is not None and _same(job, fault) is not None


def _nodes(job: Job, fault: Fault) -> tuple[str, ...]:
    same = _same(job, fault)
    return same.nodes if same is not None else ()


def hopeless(job: Job, fault: Fault, *, elsewhere: bool) -> str:
    """Why another try is of no use, in a sentence; "" where it may be of some.

    `move_on_suspicion`: its place may be tried on another node first.
    """
    nodes = _nodes(job, fault)
    if fault.signature is None or fault.signature.outside:
        return ""
    if fault.signature.unread and job.attempt <= 1 and not job.best_step:
        ran = _RAN.search(fault.traceback)
        why = "Python cannot read what it imports" if ran else "No line of the script ran"
        return f"{fault.summary}. {why}: another restart would not help"
    if len(nodes) < 2:
        return ""
    times = "twice" if len(nodes) == 2 else f"{len(nodes)} times"
    at = f" after step {fault.signature.step}" if fault.signature.step else ""
    told = f"{fault.summary}. It ended in the same way {times}{at}"
    if fault.blame is Blame.USER:
        return f"{told}: another restart would not help"
    if len(set(nodes)) > 1:
        return f"{told}, on {len(set(nodes))} nodes: it is not the node"
    if elsewhere:
        return ""
    if job.layout.nodes == 1:
        return f"{told}, and there is no other node to try"
    if len(nodes) == 2:
        return ""  # its node is tested
    return f"{told}, its node passed its tests, and there is no other one to try"
