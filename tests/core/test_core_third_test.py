"""A third test of nodes, with a threshold, is in every exam as soon as it is registered."""

import pytest

from holdfast.diagnostics.registry import TESTS, Part, Test
from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

DISK = Test(
    name="disk", title="disk", group=1, rounds=2, unit="MB/s", part=Part.NODE,
    threshold="disk_mb_per_s",
)  # fmt: skip
REACHED = {"compute": 50.0, "allreduce": 11.0, "disk": 900.0}


@pytest.fixture(autouse=True)
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TESTS, "disk", DISK)


def result(node: str, order: DiagnosticOrder, slow: str) -> DiagnosticResult:
    reached = REACHED[order.test] / (9 if (order.test, node) == ("disk", slow) else 1)
    return DiagnosticResult(
        id=order.id, test=order.test, node=node, round=order.round, members=order.members,
        ok=True, value=reached, unit=TESTS[order.test].unit,
    )  # fmt: skip


def ends(life, exam, *, slow: str = "") -> None:
    """All nodes of the exam ran what they were told; the disk of one is slow."""
    for node, orders in exam.orders.items():
        told = tuple(result(node, order, slow) for order in orders)
        life.do(e.DiagnosticEnded(node=node, id=exam.id, results=told))


def exam_of(life, node: str):
    return life.state.exams.get(life.state.nodes[node].exam or "")


def hangs(life, *, silent: str = "") -> None:
    """The job stands still, and n1 is suspected: a diagnosis of all its nodes."""
    suspects = {"kind": Kind.HANG, "weight": Weight.SUSPECT, "job": "job", "node": "n1"}
    life.do(e.Found(finding=Finding(epoch=life.job.epoch, **suspects)))
    life.wait(until_s=life.now + life.policy.stacks_s)
    life.answer(silent=[silent])
    assert life.phase is Phase.DIAGNOSING


@pytest.mark.parametrize(("slow", "evicted"), [("", []), ("n1", ["n1"])])
def test_a_diagnosis_plans_it_and_a_slow_disk_is_convicted(training, slow, evicted) -> None:
    life = training(nodes=4, spare=1)
    hangs(life)
    exam = life.state.exams[life.job.exam]
    for orders in exam.orders.values():
        assert [order.test for order in orders].count("disk") == DISK.rounds
    ends(life, exam, slow=slow)
    assert life.evicted == evicted
    assert not slow or "disk n1: 100.0 MB/s" in " ".join(
        each.text for each in life.incident.evidence
    )


@pytest.mark.parametrize(("named", "evicted"), [({}, []), ({"disk_mb_per_s": 500.0}, ["n2"])])
def test_a_standby_tests_its_disk_by_the_least_value_of_its_node_class(
    training, named, evicted
) -> None:
    life = training(standbys=1, spare=1, node_class=named)
    assert {order.test for order in life.told("n2").diagnostics} == {"compute", "disk"}
    while (exam := exam_of(life, "n2")) is not None:
        ends(life, exam, slow="n2")
    assert life.evicted == evicted


def test_two_nodes_wait_for_their_standby_which_says_which_of_them_it_is(training) -> None:
    life = training(standbys=1)
    while (exam := exam_of(life, "n2")) is not None:
        ends(life, exam)
    hangs(life, silent="n2")
    assert life.job.exam is None, "it has been told to be quiet, as they were"
    life.answer()
    assert set(life.state.exams[life.job.exam].orders) == {"n0", "n1", "n2"}
