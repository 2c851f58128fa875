"""What a decision about a whole job costs grows with its nodes, and no faster. Work is counted."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from tests.core.conftest import Life

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.turn import Turn

FEW, MANY = 100, 400
SILENT = 4
CAN_BE_LEFT_S = 3600.0


class Work:
    """What is done while something happens: `calls` of functions, and `jobs` written anew."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.calls = self.jobs = 0
        sys.setprofile(self._called)
        try:
            happens()
        finally:
            sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, arg: object) -> None:
        self.calls += event == "call"
        self.jobs += event == "call" and frame.f_code is Turn.put_job.__code__


def a_start(nodes: int, *, came: int) -> Life:
    """A job waits for its nodes; of so many the executor came."""
    life = Life()
    life.do(e.DriverStarted(term=1))
    for k in range(nodes):
        life.do(e.NodeAppeared(node=f"n{k}"))
    life.submit(nodes=nodes)
    for node in life.job.places[:came]:
        life.do(e.NodeAllocated(job="job", node=node))
        life.connect(node, node)
    return life


def nobody_comes(nodes: int, came: int = 0) -> Work:
    life = a_start(nodes, came=came)
    work = Work(lambda: life.tick(after_s=life.policy.connect_s))
    assert life.phase is Phase.PENDING
    return work


def one_comes(nodes: int) -> Work:
    return nobody_comes(nodes, came=1)


def all_are_left(nodes: int) -> Work:
    """Each of its nodes is to be free at once."""
    life = trained(nodes)
    for k in range(nodes):
        life.do(notice(k))
    life.wait(until_s=CAN_BE_LEFT_S)
    for node in life.job.places[1:]:
        life.do(quiet(life, node))
    work = Work(lambda: life.do(quiet(life, life.job.places[0])))
    assert life.job.vacant == nodes
    return work


def none_says_that_it_is_quiet(nodes: int) -> Work:
    """Of a job that a person wants suspended."""
    life = trained(nodes)
    life.do(e.SuspendRequested(job="job"))
    work = Work(lambda: life.tick(after_s=600.0))
    assert life.phase is Phase.SUSPENDED
    return work


def trained(nodes: int) -> Life:
    life = a_start(nodes, came=nodes)
    life.answer()
    assert life.phase is Phase.RUNNING
    return life


def notice(k: int) -> e.NodeMaintainRequested:
    return e.NodeMaintainRequested(node=f"n{k}", reason="kernel", within_s=CAN_BE_LEFT_S)


def quiet(life: Life, node: str) -> e.NodeQuiet:
    return e.NodeQuiet(job="job", epoch=life.job.epoch, node=node)


@pytest.mark.parametrize(
    "happens", [nobody_comes, one_comes, all_are_left, none_says_that_it_is_quiet]
)
def test_a_job_gives_up_all_its_nodes_in_one_go(happens: Callable[[int], Work]) -> None:
    few, many = happens(FEW), happens(MANY)
    assert many.jobs == few.jobs, "each change of a job copies what it has for all its nodes"
    assert many.calls < 1.2 * few.calls * MANY / FEW


def test_one_more_notice_costs_what_the_first_ones_did() -> None:
    life = trained(MANY)
    works = [Work(lambda k=k: life.do(notice(k))) for k in range(MANY)]
    assert works[-1].calls < 1.2 * works[FEW].calls


def waits(nodes: int) -> Life:
    """A job waits for more nodes than there are."""
    life = Life()
    life.do(e.DriverStarted(term=1))
    life.submit(nodes=2 * nodes)
    for k in range(nodes):
        life.do(e.NodeAppeared(node=f"n{k}"))
        life.connect(f"n{k}", f"n{k}")
    return life


def one_more_comes(nodes: int) -> Work:
    life = waits(nodes)
    return Work(lambda: life.do(e.NodeAppeared(node="more")))


def one_is_to_be_free(nodes: int) -> Work:
    """Of a job that has all: whether there is another node for it is asked."""
    life = trained(nodes)
    life.do(notice(0))
    return Work(lambda: life.do(notice(1)))


@pytest.mark.parametrize("happens", [one_more_comes, one_is_to_be_free])
def test_a_look_for_nodes_costs_what_has_changed(happens: Callable[[int], Work]) -> None:
    assert happens(MANY).calls < 1.1 * happens(FEW).calls


def silent_at_once(nodes: int, silent: int, free: int = 0) -> Work:
    """So many of one job's nodes have no connection for too long; so many others are free."""
    life = trained(nodes)
    for k in range(free):
        life.do(e.NodeAppeared(node=f"free{k}"))
    away = life.job.places[:silent]
    for node in away:
        incarnation = life.state.nodes[node].incarnation
        life.do(e.ExecutorDisconnected(node=node, incarnation=incarnation))
    work = Work(lambda: life.tick(after_s=life.policy.reconnect_s))
    assert all(life.state.nodes[node].job is None for node in away)
    return work


def test_of_those_that_are_silent_at_once_each_costs_itself() -> None:
    few, many = (
        silent_at_once(nodes, SILENT).calls - silent_at_once(nodes, 2).calls
        for nodes in (MANY, 2 * MANY)
    )
    assert many < 1.2 * few


def test_of_places_that_are_empty_at_once_none_costs_a_look_at_all_that_are_free() -> None:
    few, many = (
        silent_at_once(MANY, SILENT, free).calls - silent_at_once(MANY, 2, free).calls
        for free in (FEW, MANY)
    )
    assert many < 1.2 * few
