"""Ends before anything was trained that come again at once and alike: what a job is told to run is
called wrongly, or wants what is not there.

Called by `recovery`, for a job's first attempt. Pure. What the outside refused may be there for the
next start, and what came on one node of several may be that node's: neither is one of these.
"""

import re
from collections.abc import Sequence

from holdfast.driver.core.evidence import words_of_ends
from holdfast.driver.core.faults.root_cause import root
from holdfast.driver.core.state.model import Job
from holdfast.driver.core.state.node import Exited
from holdfast.protocol.exitcodes import USAGE
from holdfast.protocol.faults import Kind
from holdfast.protocol.messages import RankError, RankStatus
from holdfast.telemetry.analysis.ends import failed, is_echo

BEGINS_S = 600.0
"""As long as ranks have for a first step where nothing is said of it (`timeouts.firstStepS`). What
has run for longer may have trained though nobody saw its steps."""

_ABSENT = frozenset({"ModuleNotFoundError", "ImportError"})
_UNKNOWN = frozenset({"NameError", "UnboundLocalError"})
_REFUSAL = re.compile(
    r"^(\S+: )?error: (.*\barguments?\b|ambiguous option)"
    r"|^Error: (No such (option|command)|Missing (option|argument|parameter|command)|Invalid value"
    r"|Got unexpected extra arg|(Option|Argument) ')"
    r"|^[Uu]sage: |--help\b|(unrecognized|unknown|invalid|illegal) option"
)
"""The last line of a program that does not take its arguments: argparse's, click's, getopt's. Not
each error is one: `dpkg: error: dpkg frontend lock was locked by another process` is exit 2 too."""
_CAME_OF = re.compile(
    r"^During handling of the above exception|^The above exception was the direct", re.MULTILINE
)
"""Between two exceptions in one traceback."""
_RAISED = re.compile(r"^Traceback .*\n(?:[ \t].*\n)*(?P<name>[\w.]+)", re.MULTILINE)
_BUILT = re.compile(r"\.(so|pyd)\b|\.dll\b|shared object|DLL load")
"""Of a library that a rank may be building just now (Triton, torch's extensions)."""


def why(job: Job, exits: Sequence[Exited], now: float) -> str:
    """Why its ranks would end so again, in a clause; "" where a restart may help."""
    if job.attempt > 1 or job.best_step or now - job.since_s > BEGINS_S:
        return ""
    causes = [each for each in exits if failed(each.status) and not is_echo(each.status)]
    told = {_why(each.status) for each in causes}
    first = root(exits)
    if first not in causes or len(told) > 1 or not _is_everywhere(job, causes):
        return ""
    return told.pop()


def _is_everywhere(job: Job, causes: Sequence[Exited]) -> bool:
    """Whether it came on as many nodes as tell it from a fault of one."""
    return len({each.node for each in causes}) >= min(2, job.layout.nodes)


def _why(status: RankStatus) -> str:
    error = status.error
    if status.signal or status.step or error is None or error.not_startable:
        return ""
    if _came_of_another(error):
        return ""
    if error.exception in _ABSENT:
        return "" if _may_come(status, error) else "What it imports is not there"
    if error.exception in _UNKNOWN:
        return "It uses a name that it does not have"
    return "Its arguments are refused" if _is_refusal(status) else ""


def _came_of_another(error: RankError) -> bool:
    """Whether it came of an exception that may pass: what a `finally` closes has no name where it
    could not be opened. (Of two modules that are not there the second was tried for the first.)"""
    for before in _CAME_OF.split(error.traceback)[:-1]:
        raised = _RAISED.search(before)  # none: it is cut off
        if raised is None or raised["name"].rpartition(".")[2] not in _ABSENT | _UNKNOWN:
            return True
    return False


def _may_come(status: RankStatus, error: RankError) -> bool:
    """Whether what was not there may be for the next start: a disk or memory failed it, or it is a
    library that another rank builds."""
    said = words_of_ends.of_end(status, Kind.USER_EXCEPTION)
    return said != ("import",) or bool(_BUILT.search(error.message))


def _is_refusal(status: RankStatus) -> bool:
    """By its exit code. Of a program that is not watched from within any fault may have that: there
    its last line says it, too."""
    error = status.error
    if status.exit_code != USAGE or error is None or error.exception:
        return False
    if words_of_ends.elsewhere(error) and not words_of_ends.users(error):
        return False
    return status.step is not None or bool(_REFUSAL.search(error.message))
