"""What the demo on Kubernetes reads off the audit log, and makes of it, from made events."""

from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from holdfast.lab.demo.summary import Summary
from holdfast.lab.demo.view import result
from holdfast.lab.demo.writers import Writers, with_writers, writers_of

NODE_1, NODE_2 = "system:node:node-1", "system:node:node-2"
NODE_CONTROLLER = "system:serviceaccount:kube-system:node-controller"
PASSED = Summary(
    verdict="passed",
    fault="node-unplugged",
    nodes=4,
    ranks=8,
    steps=60,
    detected_s=1.0,
    recovered_s=2.0,
    steps_lost=1,
    evicted=["node-4"],
    innocent_evicted=0,
    loss_equal_bitwise=True,
    leftovers=0,
    kind="root",
)


def wrote(user: str, node: str = "node-1", **other: Any) -> dict[str, Any]:
    """One event of an audit log, as the API server writes it."""
    event = {
        "verb": "patch",
        "user": {"username": user},
        "objectRef": {"resource": "pods", "subresource": "status", "name": "demo-0-1"},
        "responseStatus": {"code": 200},
        "responseObject": {"spec": {"nodeName": node}},
    }
    return event | other


def test_writes_are_counted_by_who_wrote() -> None:
    events = [wrote(NODE_2, "node-2"), wrote(NODE_1), wrote(NODE_CONTROLLER), wrote(NODE_1)]
    assert writers_of(events) == Writers({NODE_1: 2, NODE_2: 1, NODE_CONTROLLER: 1}, [])


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(wrote("holdfast", verb="get"), id="a read"),
        pytest.param(wrote("holdfast", objectRef={"resource": "pods"}), id="the pod itself"),
        pytest.param(
            wrote("holdfast", objectRef={"resource": "nodes", "subresource": "status"}), id="a node"
        ),
        pytest.param(
            {key: value for key, value in wrote("holdfast").items() if key != "objectRef"},
            id="about no object",
        ),
        pytest.param(
            wrote("holdfast", responseStatus={"code": 403}, responseObject={"kind": "Status"}),
            id="refused",
        ),
    ],
)
def test_what_wrote_no_status_of_a_pod_is_not_counted(event: dict[str, Any]) -> None:
    assert writers_of([event]) == Writers({}, [])


@pytest.mark.parametrize(
    ("user", "node"),
    [
        pytest.param("system:serviceaccount:holdfast:holdfast-driver", "node-1", id="the driver"),
        pytest.param("holdfast:emulated-kubelet", "node-1", id="the watch of all nodes"),
        pytest.param(NODE_2, "node-1", id="a node of another's pod"),
        pytest.param("system:node:node-11", "node-1", id="a longer name"),
        pytest.param("system:node:", "", id="a pod on no node"),
    ],
)
def test_a_status_written_by_anybody_else_spoils_the_verdict(user: str, node: str) -> None:
    writers = writers_of([wrote(NODE_1), wrote(user, node)])
    assert with_writers(PASSED, writers).verdict == f"the status of pods was written by {user}"


def test_a_run_in_which_no_node_wrote_at_all_has_shown_nothing() -> None:
    writers = writers_of([wrote(NODE_CONTROLLER)])
    assert with_writers(PASSED, writers).verdict == "no node wrote the status of a pod"


def test_the_last_line_has_all_of_the_summary_and_the_writers_and_so_has_the_table() -> None:
    made = with_writers(PASSED, writers_of([wrote(NODE_1)]))
    assert (made.verdict, made.evicted, made.pod_status_writers) == (
        "passed",
        ["node-4"],
        {NODE_1: 1},
    )
    console = Console(width=120)
    with console.capture() as shown:
        console.print(result(made))
    assert f"{NODE_1} (1)" in shown.get()
    assert "stock Kubernetes" in shown.get()


def test_where_nobody_shows_who_wrote_that_is_said_and_nothing_is_made_up() -> None:
    made = with_writers(PASSED, None)
    assert (made.verdict, made.pod_status_writers) == ("passed", None)
    console = Console(width=120)
    with console.capture() as shown:
        console.print(result(made))
    assert "not looked at: a cluster that is given does not show its audit log" in shown.get()
    assert "stock Kubernetes" not in shown.get()


def test_an_earlier_failure_is_not_covered_by_who_wrote() -> None:
    failed = with_writers(replace(PASSED, verdict="no luck"), writers_of([wrote("anybody")]))
    assert failed.verdict == "no luck"
