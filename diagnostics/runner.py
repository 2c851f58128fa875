"""Runs one test of this node: `python -m holdfast.diagnostics.runner ORDER_JSON`.

Started by the executor, or forked from its warm launcher. It says `BEGUN` on stdout once all that
the test needs is loaded, and from then on the order's time box counts. Its last line there is the
`DiagnosticResult` as JSON: within the time box, also while a peer hangs, or within `LOADING_S`
where the test could not begin. Must not leave anything behind.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock, Timer

import msgspec

from holdfast.diagnostics.measured import Measured, answered
from holdfast.diagnostics.registry import TESTS
from holdfast.diagnostics.settings import from_environment, use_interface
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

BEGUN = b"begun\n"
"""The line that says that the test begins now."""
LOADING_S = 60.0
"""Longest that loading torch may take: cold on a busy machine it took up to 20 s."""
LAST_RESORT_S = 5.0
"""Beyond a limit of ours, until the kernel ends a process that cannot keep it."""


class Answer:
    """Prints the result once: the probe's, or the clock's when the time is over."""

    def __init__(self, order: DiagnosticOrder, node: str) -> None:
        self._order = order
        self._node = node
        self._lock = Lock()

    def give(self, found: Measured) -> None:
        """Print and end the process at once, whatever its other threads are waiting for."""
        result = answered(self._order, self._node, found)
        with self._lock:
            sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
            sys.stdout.buffer.flush()
            os._exit(0)

    def begun(self) -> None:
        """All is loaded: the time box counts from here."""
        with self._lock:
            sys.stdout.buffer.write(BEGUN)
            sys.stdout.buffer.flush()

    def out_of_time(self) -> None:
        failed = TESTS[self._order.test].late_fails
        detail = f"timed out after {self._order.time_box_s:.1f} s"
        self.give(Measured(ok=False if failed else None, detail=detail))

    def not_begun(self) -> None:
        detail = f"the test did not begin: loading torch took more than {LOADING_S:g} s"
        self.give(Measured(ok=None, detail=detail))


def result_of(said: bytes) -> DiagnosticResult:
    """From all that a runner has said. Raises `msgspec.DecodeError` where it gave no result."""
    return msgspec.json.decode(said.strip().rpartition(b"\n")[2], type=DiagnosticResult)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the order in the one argument. Ends the process; 2 is for bad input."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        order = msgspec.json.decode(given[0] if given else "", type=DiagnosticOrder)
        settings = from_environment()
    except (msgspec.DecodeError, ValueError) as error:
        sys.stderr.write(f"diagnostics.runner ORDER_JSON: {error}\n")
        sys.exit(2)
    if order.rendezvous:
        use_interface(settings.ifname, order.rendezvous.address)
    answer = Answer(order, settings.node)
    answer.give(_probe(order, settings.node, answer))


def _probe(order: DiagnosticOrder, node: str, answer: Answer) -> Measured:
    if order.test not in TESTS:
        return Measured(ok=None, detail=f"test {order.test!r} is not known here")
    loading = _limit(LOADING_S, answer.not_begun)
    try:
        probe = import_module(f"holdfast.diagnostics.probes.{order.test}")
    except ImportError as error:
        return Measured(ok=None, detail=f"cannot be run here: {error}")
    loading.cancel()
    answer.begun()
    _limit(order.time_box_s, answer.out_of_time)
    found = probe.run(order, node)
    if not isinstance(found, Measured):
        raise TypeError(f"{order.test}: {found!r} is not a measurement")
    return found


def _limit(limit_s: float, over: Callable[[], None]) -> Timer:
    """Have `over` called then. A thread that holds Python's lock for ever would keep us from it:
    the kernel ends us then."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limit_s + LAST_RESORT_S)
    timer = Timer(limit_s, over)
    timer.daemon = True
    timer.start()
    return timer


if __name__ == "__main__":
    main()
