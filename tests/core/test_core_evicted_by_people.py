"""A node that a person evicts ends quarantined, whoever has it, and whatever becomes of that."""

from collections.abc import Callable

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.handlers.parking import leave_alone
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.node import Free, Held, Holding, Lent, Promised, Returning
from holdfast.driver.core.turn import Subject
from holdfast.protocol.faults import Finding, Kind, Weight

EVICT = e.NodeEvictRequested(node="n1", reason="loud")


def _free(life) -> None:
    life.ends_well()
    life.do(e.NodeReleased(node="n1"))


def _promised(life) -> None:
    life.ends_well()
    for node in ("n0", "n1"):
        life.do(e.NodeReleased(node=node))
    life.submit("next")


def _not_startable(life) -> None:
    _promised(life)
    life.answer("next")
    life.dies(2, name="next", unstartable="there is no 'pyhton'", judged=False)


def _crashed(life) -> None:
    life.dies(2, exception="ValueError", judged=False)


def _stopping(life) -> None:
    life.do(e.StopRequested(job="job"))


def _suspending(life) -> None:
    life.do(e.SuspendRequested(job="job"))


def _recovering(life) -> None:
    life.dies(2, exception="ValueError")


def _parked(life) -> None:
    parked = leave_alone(life.state, Subject(job="job"), "a defect", life.now, life.policy)
    life.state = parked.state


def _tested(life) -> None:
    finding = Finding(kind=Kind.KERNEL_FAULT, weight=Weight.CONCLUSIVE, node="n1", summary="XID 79")
    life.do(e.Found(finding=finding))
    life.do(e.NodeReleased(node="n1"))
    life.do(e.NodeDistrusted(node="n1"))
    life.answer()
    life.wait(until_s=life.now + life.policy.requalify_after_s + 1.0)


HOLDINGS: dict[str, tuple[Callable[..., None], type[Holding]]] = {
    "free": (_free, Free),
    "promised": (_promised, Promised),
    "held by a job that trains": (lambda life: None, Held),
    "held by one that is never to start": (_not_startable, Held),
    "held by one that has just crashed": (_crashed, Held),
    "held by one that recovers": (_recovering, Held),
    "held by one that stops": (_stopping, Held),
    "held by one that is being suspended": (_suspending, Held),
    "held by a parked one": (_parked, Held),
    "lent to its tests": (_tested, Lent),
    "returning": (lambda life: life.ends_well(), Returning),
}


@pytest.mark.parametrize(("reach", "holding"), HOLDINGS.values(), ids=HOLDINGS.keys())
def test_what_a_person_evicts_is_quarantined_whoever_has_it(training, reach, holding) -> None:
    life = training(spare=1, node_class={"compute_gflops": 20.0}, spec=b"{}")
    reach(life)
    node = life.state.nodes["n1"]
    assert type(node.holding) is holding
    life.do(EVICT)
    for _ in range(3):
        life.wait(until_s=life.now + 100.0)
        node = life.state.nodes["n1"]
        assert node.quarantine is not None
        assert node.quarantine.by_person


def test_of_a_job_that_is_given_up_just_then_both_are_told(training) -> None:
    life = training(spare=1)
    _not_startable(life)
    why = life.do(EVICT).why
    assert life.state.jobs["next"].phase is Phase.FAILED
    assert "next is given up: " in why
    assert why.endswith("a person wants n1 out: loud; n1 is evicted")


def test_a_persons_word_is_no_evidence_against_a_node(training) -> None:
    life = training()
    life.do(EVICT)
    assert not life.blamed("n1")


@pytest.mark.parametrize("ends", [_stopping, _suspending, _parked])
def test_a_node_that_is_evicted_while_its_job_ends_has_the_grace_of_the_job(training, ends) -> None:
    life = training()
    ends(life)
    epoch = life.job.epoch
    why = life.do(EVICT).why
    assert why.endswith("n1 goes once job has let it go; n1 is evicted")
    assert life.job.epoch == epoch, "nobody is killed before the grace is over"
    assert life.job.places == ("n0", "n1")
    assert not life.incident.open


def test_a_job_that_is_resumed_in_its_grace_leaves_what_people_evicted(training) -> None:
    life = training(spare=1)
    _suspending(life)
    life.do(EVICT)
    life.do(e.ResumeRequested(job="job"))
    for _ in range(3):
        life.answer()
    assert life.phase is Phase.RUNNING
    assert life.job.places == ("n0", "n2")


def test_a_parked_job_that_comes_back_leaves_what_people_evicted(training) -> None:
    life = training(spare=1)
    _parked(life)
    life.do(EVICT)
    life.wait(until_s=life.job.backoff.until_s)
    for _ in range(3):
        life.answer()
    assert life.phase is Phase.RUNNING
    assert life.job.places == ("n0", "n2")
