"""When the core wants to be asked again. Pure; the loop sends a `Ticked` at that time."""

from collections.abc import Iterator

from holdfast.driver.core import trials
from holdfast.driver.core.model import Node, State


def next_deadline(state: State) -> float | None:
    """The earliest deadline in the state, in driver seconds; None where nothing is waited for."""
    return min(_deadlines(state), default=None)


def _deadlines(state: State) -> Iterator[float]:
    for job in state.jobs.values():
        if not job.parked:
            yield from job.timers.values()
        for unfit in job.unfit.values():
            yield unfit.until_s
        if job.barred is not None:
            yield job.barred.until_s
    for node in state.nodes.values():
        yield from _of_node(node)
    following = trials.following(state.nodes, state.brake)
    if following is not None and following.trial_s is not None:
        yield following.trial_s


def _of_node(node: Node) -> Iterator[float]:
    if node.silent_check_s is not None:
        yield node.silent_check_s
    if node.retry_s is not None:
        yield node.retry_s
    if node.rest_until_s:
        yield node.rest_until_s
    for test in (node.trial, node.selftest):
        if test is not None:
            yield test.until_s
