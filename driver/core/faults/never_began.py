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
from holdfast.protocol.messages import RankStatus
from holdfast.telemetry.analysis.ends import failed, is_echo

BEGINS_S = 600.0
"""As long as ranks have for a first step where nothing is said of it (`timeouts.firstStepS`). What
has run for longer may have trained though nobody saw its steps."""

_ABSENT = frozenset({"ModuleNotFoundError", "ImportError"})
_UNKNOWN = frozenset({"NameError", "UnboundLocalError"})
_REFUSAL = re.compile(
    r"^(\S+: )?[Ee]rror: |^[Uu]sage: |--help\b|(unrecognized|unknown|invalid|illegal) option"
)
"""The last line of a program that does not take its arguments: argparse's, click's, getopt's."""


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
    if error.exception in _ABSENT:
        return "What it imports is not there"
    if error.exception in _UNKNOWN:
        return "It uses a name that it does not have"
    return "Its arguments are refused" if _is_refusal(status) else ""


def _is_refusal(status: RankStatus) -> bool:
    """By its exit code. Of a program that is not watched from within any fault may have that: there
    its last line says it, too."""
    error = status.error
    if status.exit_code != USAGE or error is None or error.exception:
        return False
    if words_of_ends.elsewhere(error) and not words_of_ends.users(error):
        return False
    return status.step is not None or bool(_REFUSAL.search(error.message))
