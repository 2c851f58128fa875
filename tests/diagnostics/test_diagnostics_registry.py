"""A new test of nodes is an entry and a probe: two more are registered, and go all the way."""

import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import DEADLINE_S

from holdfast.diagnostics.calibration import Calibration, upper_bound
from holdfast.diagnostics.plan import alone, orders
from holdfast.diagnostics.registry import TESTS, Part, Test, only
from holdfast.diagnostics.thresholds import thresholds
from holdfast.diagnostics.verdict import Verdict, judge, judge_alone
from holdfast.protocol.jobspec import NodeClass
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

DISK = Test(
    name="disk",
    title="disk",
    group=1,
    rounds=3,
    unit="MB/s",
    part=Part.NODE,
    cost=2.0,
    threshold="disk_mb_per_s",
)
RING = Test(name="nvlink", title="NVLink", group=2, rounds=2, unit="GB/s", part=Part.LINK, cost=0.5)
NODES = [f"n{number}" for number in range(4)]
REACHED = {"compute": 100.0, "allreduce": 11.0, "disk": 900.0, "nvlink": 40.0}


@pytest.fixture
def four() -> Iterator[None]:
    """The registry with two tests more than its first two."""
    with only("compute", "allreduce"):
        TESTS.update({test.name: test for test in (DISK, RING)})
        yield


def planned() -> dict[str, tuple[DiagnosticOrder, ...]]:
    addresses = dict.fromkeys(NODES, "127.0.0.1")
    return orders(id="d", suspects=NODES, healthy=[], addresses=addresses, limit_s=60)


def measured(
    tests: dict[str, tuple[DiagnosticOrder, ...]], slow: str = "", on: str = ""
) -> list[DiagnosticResult]:
    """What the nodes tell where `on` fails the test `slow`, with whomever it is."""
    return [
        DiagnosticResult(
            id=order.id,
            test=order.test,
            node=node,
            round=order.round,
            members=order.members,
            ok=True,
            value=REACHED[order.test] / (9 if bad(order, node, slow, on) else 1),
        )
        for node, mine in tests.items()
        for order in mine
    ]


def bad(order: DiagnosticOrder, node: str, slow: str, on: str) -> bool:
    return order.test == slow and on in (order.members or (node,))


def judged(slow: str = "", on: str = "") -> Verdict:
    tests = planned()
    results = measured(tests, slow, on)
    return judge(tests, results, thresholds(results))


@pytest.mark.usefixtures("four")
def test_each_node_is_given_every_test_of_the_registry_those_of_one_first() -> None:
    told = [(order.test, order.round) for order in planned()["n1"]]
    assert told == [
        *(("compute", turn) for turn in range(2)),
        *(("disk", turn) for turn in range(3)),
        *(("allreduce", turn) for turn in range(2)),
        *(("nvlink", turn) for turn in range(4)),
    ]
    assert {order.test for order in alone(id="d", node="n1", limit_s=9)} == {"compute", "disk"}
    ports = {(o.test, o.round, o.members): o.listen_port for m in planned().values() for o in m}
    shared = [port for port in ports.values() if port is not None]
    assert len(set(shared)) == len(shared) == 4 + 8


@pytest.mark.usefixtures("four")
def test_their_costs_share_out_the_limit() -> None:
    boxes = {(order.test, order.round): order.time_box_s for order in planned()["n1"]}
    assert boxes["disk", 0] == 2 * boxes["compute", 0]
    assert boxes["nvlink", 3] == pytest.approx((2 + 4 * 0.5) * boxes["compute", 0])
    assert sum(boxes.values()) <= 60 + 1e-9


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("test", "part", "text"),
    [
        ("disk", "node", "disk n2: 100.0 MB/s, below 450.0"),
        ("nvlink", "link", "n1-n2: 4.4 GB/s, below 20.0"),
    ],
)
def test_whom_a_new_test_fails_is_named_with_its_part(test: str, part: str, text: str) -> None:
    found = judged(test, "n2")
    assert (found.bad, found.undecided) == ({"n2": part}, ())
    assert any(text in line for line in found.evidence)
    assert judged().bad == {}


@pytest.mark.usefixtures("four")
def test_a_node_that_never_ran_one_of_them_is_undecided() -> None:
    tests = planned()
    results = [r for r in measured(tests) if (r.test, r.node) != ("disk", "n3")]
    assert judge(tests, results, thresholds(results)).undecided == ("n3",)


@pytest.mark.usefixtures("four")
def test_alone_a_slow_disk_convicts_where_its_class_says_what_it_reaches() -> None:
    tests = {"n1": alone(id="d", node="n1", limit_s=60)}
    results = measured(tests, "disk", "n1")
    assert judge_alone("n1", tests["n1"], results, {}).bad == {}
    assert judge_alone("n1", tests["n1"], results, {"disk_mb_per_s": 500}).bad == {"n1": "node"}
    assert judge_alone("n1", tests["n1"], results, {"compute_gflops": 50}).undecided == ()


RUNNER = """
import sys, types
from holdfast.diagnostics import registry, runner
from holdfast.diagnostics.probes import Measured
probe = types.ModuleType("disk")
probe.run = lambda order, node: Measured(ok=True, value=900.0, detail=node)
sys.modules["holdfast.diagnostics.probes.disk"] = probe
disk = registry.Test(name="disk", title="", group=1, rounds=2, unit="MB/s", part="node")
registry.TESTS["disk"] = disk
runner.main(sys.argv[1:])
"""


def test_the_runner_finds_its_probe_and_tells_its_unit() -> None:
    order = msgspec.json.encode(DiagnosticOrder(id="d", test="disk", time_box_s=DEADLINE_S))
    told = subprocess.check_output(
        [sys.executable, "-c", RUNNER, order],
        env={**os.environ, "HOLDFAST_NODE": "n1"},
        timeout=DEADLINE_S,
    )
    result = msgspec.json.decode(told.splitlines()[-1], type=DiagnosticResult)
    assert (result.ok, result.value, result.unit, result.detail) == (True, 900, "MB/s", "n1")


def test_a_test_of_one_node_is_never_run_once_only() -> None:
    with pytest.raises(ValueError, match=r"rounds of once: 1\. Run it 2 times or more"):
        Test(name="once", title="", group=1, rounds=1, unit="", part=Part.NODE)


def test_every_threshold_of_the_node_class_is_a_tests_and_the_other_way_round() -> None:
    assert {test.threshold for test in TESTS.values() if test.threshold} == set(
        NodeClass.model_fields
    )
    assert all(name == test.name for name, test in TESTS.items())


def test_what_nobody_has_calibrated_has_no_rates() -> None:
    assert (DISK.sensitivity, DISK.false_alarms) == (None, None)
    for test in filter(lambda test: test.calibration, TESTS.values()):
        assert test.calibration is not None
        assert test.sensitivity is not None
        assert 0.5 < test.sensitivity <= 1
        assert "holdfast bench diagnostics" in test.calibration.command


def test_rates_are_shares_of_counts() -> None:
    counts = Calibration(faulty=40, missed=2, healthy=50, alarms=1, on="a machine", command="it")
    assert (counts.sensitivity, counts.false_alarms) == (0.95, 0.02)


@given(st.integers(10, 400))
def test_where_nothing_is_seen_the_bound_is_the_rule_of_three(of: int) -> None:
    assert upper_bound(0, of) == pytest.approx(3 / of, rel=0.15)


@given(st.integers(1, 60), st.data())
def test_a_bound_lies_above_what_was_seen_and_grows_with_it(of: int, data: st.DataObject) -> None:
    seen = data.draw(st.integers(0, of))
    assert seen / of <= upper_bound(seen, of) <= 1
    assert upper_bound(max(0, seen - 1), of) <= upper_bound(seen, of)
