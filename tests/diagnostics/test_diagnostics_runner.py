"""The runner as real processes: it answers within its time box, whatever its peer does."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec
import pytest
from ports import free_port
from waiting import DEADLINE_S

from holdfast.diagnostics import runner
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult, Rendezvous

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

ANSWER_S = 120.0
"""Importing torch is most of it: seconds here, half a minute where disk and processor are slow."""

Start = Callable[[str, DiagnosticOrder], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the runner of a node; all are ended after the test."""
    children: list[subprocess.Popen[bytes]] = []

    def begin(node: str, order: DiagnosticOrder) -> "subprocess.Popen[bytes]":
        child = subprocess.Popen(
            [sys.executable, "-m", "holdfast.diagnostics.runner", msgspec.json.encode(order)],
            env={**os.environ, "HOLDFAST_NODE": node, "HOLDFAST_IFNAME": ""},
            stdout=subprocess.PIPE,
        )
        children.append(child)
        return child

    yield begin
    for child in children:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def answer(child: "subprocess.Popen[bytes]") -> DiagnosticResult:
    assert child.stdout is not None
    assert select.select([child.stdout], [], [], ANSWER_S)[0], "no answer"
    last = child.stdout.read().splitlines()[-1]
    assert child.wait(DEADLINE_S) == 0
    return msgspec.json.decode(last, type=DiagnosticResult)


def pair(*, time_box_s: float, port: int | None = None) -> DiagnosticOrder:
    port = port or free_port()
    return DiagnosticOrder(
        id="d1",
        test="allreduce",
        round=1,
        members=("node-1", "node-2"),
        rendezvous=Rendezvous(address="127.0.0.1", port=port),
        listen_port=port,
        time_box_s=time_box_s,
        repeats=2,
    )


def test_two_neighbours_measure_their_bandwidth(start: Start) -> None:
    order = pair(time_box_s=ANSWER_S)
    children = [start(node, order) for node in order.members]
    for node, child in zip(order.members, children, strict=True):
        result = answer(child)
        assert (result.id, result.test, result.node, result.round) == ("d1", "allreduce", node, 1)
        assert result.members == order.members
        assert (result.ok, result.unit) == (True, "MB/s"), result
        assert result.value is not None
        assert result.value > 1


def test_a_peer_that_is_frozen_cannot_hold_its_partner_beyond_the_time_box(start: Start) -> None:
    order = pair(time_box_s=2)
    frozen = start("node-2", order)
    os.kill(frozen.pid, signal.SIGSTOP)
    partner = start("node-1", order)
    result = answer(partner)
    assert result.ok is False
    assert result.detail == "timed out after 2.0 s"
    assert frozen.poll() is None


def test_an_address_in_use_is_told_and_is_no_verdict(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        result = answer(start("node-1", pair(time_box_s=ANSWER_S, port=port)))
    assert result.ok is None
    assert result.detail == f"cannot serve on 127.0.0.1:{port}: Address already in use"


def test_a_node_computes_and_tells_its_speed(start: Start) -> None:
    result = answer(start("node-1", DiagnosticOrder(id="d1", test="compute", time_box_s=ANSWER_S)))
    assert (result.ok, result.unit, result.members) == (True, "GFLOP/s", ())
    assert result.value is not None
    assert result.value > 0.1


def test_a_test_that_is_not_known_is_told_and_is_no_verdict(start: Start) -> None:
    result = answer(start("node-1", DiagnosticOrder(id="d1", test="gravity")))
    assert (result.ok, result.detail) == (None, "test 'gravity' is not known here")


def test_a_test_begins_when_all_that_it_needs_is_loaded_and_says_so(start: Start) -> None:
    child = start("node-1", DiagnosticOrder(id="d1", test="compute", time_box_s=ANSWER_S))
    assert child.stdout is not None
    assert child.stdout.readline() == runner.BEGUN
    assert answer(child).ok is True


STUCK = """
import sys, threading
from holdfast.diagnostics import runner
runner.LOADING_S = 0.2
runner.import_module = lambda name: threading.Event().wait()
runner.main(sys.argv[1:])
"""
"""A runner whose torch is never loaded."""


def test_a_test_that_cannot_begin_is_no_verdict_and_names_the_limit_of_loading() -> None:
    order = DiagnosticOrder(id="d1", test="compute", time_box_s=ANSWER_S)
    done = subprocess.run(
        [sys.executable, "-c", STUCK, msgspec.json.encode(order)],
        env={**os.environ, "HOLDFAST_NODE": "node-1"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    result = runner.result_of(done.stdout)
    assert result.ok is None
    assert result.detail == "the test did not begin: loading torch took more than 0.2 s"


SLOW = """
import sys, threading, types
from holdfast.diagnostics import runner
probe = types.ModuleType("any")
probe.run = lambda order, node: threading.Event().wait()
runner.import_module = lambda name: probe
runner.main(sys.argv[1:])
"""
"""A runner whose probe comes to no end."""


@pytest.mark.parametrize(
    ("test", "ok"), [("compute", False), ("memory", None), ("disk_write", None), ("clock", None)]
)
def test_a_busy_machine_or_disk_that_takes_too_long_is_not_called_bad(
    test: str, *, ok: bool | None
) -> None:
    order = DiagnosticOrder(id="d1", test=test, time_box_s=0.1)
    done = subprocess.run(
        [sys.executable, "-c", SLOW, msgspec.json.encode(order)],
        env={**os.environ, "HOLDFAST_NODE": "node-1"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    result = runner.result_of(done.stdout)
    assert (result.ok, result.detail) == (ok, "timed out after 0.1 s")


def test_bad_input_is_named_and_ends_with_the_code_for_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.diagnostics.runner", json.dumps({"id": 1})],
        env={**os.environ, "HOLDFAST_NODE": "node-1"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 2
    assert b"Expected `str`, got `int` - at `$.id`" in done.stderr


def test_one_wrong_bit_in_a_product_is_found() -> None:
    import torch

    from holdfast.diagnostics.probes import compute

    class Faulty(torch.Tensor):
        """Multiplies with one bit of one element flipped, as a bad unit does."""

        def __matmul__(self, other: torch.Tensor) -> torch.Tensor:
            product = torch.matmul(self.as_subclass(torch.Tensor), other.as_subclass(torch.Tensor))
            product.view(torch.int32)[3, 5] ^= 1
            return product

    good = compute.circulant
    assert compute.on_device(torch.device("cpu"), 64, 2).ok is True
    compute.circulant = lambda row: good(row).as_subclass(Faulty)  # type: ignore[assignment]
    try:
        found = compute.on_device(torch.device("cpu"), 64, 2)
    finally:
        compute.circulant = good
    assert (found.ok, found.wrong) == (False, True)
    assert found.detail == "cpu: 1 of 4096 elements are wrong"


def test_the_expected_product_is_that_of_the_definition() -> None:
    import torch

    from holdfast.diagnostics.probes import compute

    first, second = [3, -8, 5, 0, 1], [-2, 7, 8, -8, 4]
    left, right = compute.circulant(first).double(), compute.circulant(second).double()
    expected = compute.circulant(compute.convolution(first, second)).double()
    assert torch.equal(left @ right, expected)
