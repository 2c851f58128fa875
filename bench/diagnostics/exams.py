"""Exams of one node on this machine: each round is a fork that runs the product's own runner.

Called by `benchmark`. The forks have torch loaded, as those of an executor's launcher have.
"""

import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import msgspec
import torch  # noqa: F401 - loaded once, before the forks

from holdfast.diagnostics import runner
from holdfast.diagnostics.registry import Test
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult, Rendezvous

BOX_S = 2.0
"""Of a round; `plan` gives 5 s at most. A partner of a node that is stopped waits as long."""

SUBJECT, PARTNER = "subject", "partner"
ROUNDS = 2
"""Two of its own, or two with partners: what `plan` has a node do."""

Change = Callable[[], None]
"""What is done to the process of the node under test."""


def exam(test: Test, change: Change | None) -> list[DiagnosticResult]:
    """What the node under test tells of each round. Raises `TimeoutError` if it tells nothing."""
    return [_round(test, turn, change) for turn in range(ROUNDS)]


def _round(test: Test, turn: int, change: Change | None) -> DiagnosticResult:
    order = _order(test, turn)
    with ExitStack() as stack:
        if order.members:  # the partner serves the store, so that the subject cannot spoil it
            partner = stack.enter_context(_runner(PARTNER, order, None))
        subject = stack.enter_context(_runner(SUBJECT, order, change))
        # A subject that is stopped says nothing; its partner waits for it in vain.
        return _answer(partner if order.members else subject)


def _order(test: Test, turn: int) -> DiagnosticOrder:
    order = DiagnosticOrder(id="bench", test=test.name, round=turn, time_box_s=BOX_S)
    if test.group == 1:
        return order
    where = Rendezvous(address="127.0.0.1", port=_free_port())
    return msgspec.structs.replace(
        order, members=(PARTNER, SUBJECT), rendezvous=where, listen_port=where.port
    )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def _runner(node: str, order: DiagnosticOrder, change: Change | None) -> Iterator[int]:
    """A child that runs the order; its stdout. It is gone afterwards."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        _become(node, order, change, theirs)
    os.close(theirs)
    try:
        yield ours
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours)


def _become(node: str, order: DiagnosticOrder, change: Change | None, stdout: int) -> NoReturn:
    """Be the runner; whatever happens, never go on as a second benchmark."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, who ends us
        sys.stdout = os.fdopen(stdout, "w")
        os.environ.update(HOLDFAST_NODE=node, HOLDFAST_IFNAME="lo")
        if change:
            change()
        runner.main([msgspec.json.encode(order).decode()])
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(1)


def _answer(output: int) -> DiagnosticResult:
    text = b""
    while select.select([output], [], [], BOX_S + runner.LOADING_S)[0]:
        more = os.read(output, 65_536)
        if not more:
            return runner.result_of(text)
        text += more
    raise TimeoutError("a runner did not answer")


@contextmanager
def busy() -> Iterator[None]:
    """A loop beside each core that does nothing else."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            stack.enter_context(_loop())
        yield


@contextmanager
def _loop() -> Iterator[None]:
    parent, child = os.getpid(), os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while os.getppid() == parent:
            sum(range(1_000_000))
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
