"""`holdfast-diagnose`: the tests of one node on this machine, with no driver and nobody beside it.

One line of JSON on stdout. Exit code 0: nothing is bad; 1: something is; 75: that is not known, for
a test could not be run. What is only slow is bad where it is said what has to be reached: nobody
beside it says what is usual. Ctrl-C ends it with 130; a test that is under way ends with it.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.diagnostics.measured import untested
from holdfast.diagnostics.plan import alone
from holdfast.diagnostics.registry import Test, tests_of
from holdfast.diagnostics.runner import LAST_RESORT_S, LOADING_S, result_of
from holdfast.diagnostics.verdict import Verdict, judge_alone
from holdfast.protocol import exitcodes
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

LIMIT_S = 60.0
MOST = 1e9
"""That can be asked for, as in the spec of a job."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all; the exit code. 2 is for what cannot be meant."""
    given = _parser().parse_args(arguments)
    names = [test.bounded_as for test in _bounded()]
    node_class = {name: least for name in names if (least := getattr(given, name)) is not None}
    plan = alone(id="alone", node=given.node, limit_s=LIMIT_S, thorough=True)
    try:
        results = [_told_of(order, given.node, given.folder) for order in plan]
    except KeyboardInterrupt:
        sys.stderr.write("holdfast-diagnose: interrupted; nothing is left running\n")
        return exitcodes.INTERRUPTED
    verdict = judge_alone(given.node, plan, results, node_class)
    sys.stdout.write(_told(given.node, verdict, results) + "\n")
    return _exit_code(verdict)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="holdfast-diagnose", description=__doc__)
    parser.add_argument("--node", default=platform.node() or "this", help="its name in the answer")
    parser.add_argument("--folder", default=".", help="on the disk that is tested (default: here)")
    for test in _bounded():
        option = f"--{test.bounded_as.replace('_', '-')}"
        unit = test.unit.replace("%", "%%")
        parser.add_argument(option, type=_least, help=f"what has to be reached, in {unit}")
    return parser


def _bounded() -> list[Test]:
    """The tests of which can be said what has to be reached."""
    return [test for test in tests_of(1, thorough=True) if test.bounded_as]


def _least(text: str) -> float:
    """What has to be reached. Raises `ArgumentTypeError`, which ends with exit code 2."""
    try:
        least = float(text)
    except ValueError:
        least = -1.0
    if not 0 <= least <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {MOST:g}.")
    return least


def _told_of(order: DiagnosticOrder, node: str, folder: str) -> DiagnosticResult:
    """What came of it; which test it is goes to stderr, for torch alone may take half a minute."""
    sys.stderr.write(f"{order.test}, time {order.round + 1} …\n")
    return _run(order, node, folder)


def _run(order: DiagnosticOrder, node: str, folder: str) -> DiagnosticResult:
    """In a process of its own, which keeps its time itself."""
    # A group of its own: Ctrl-C is ours to tell of, and `run` ends it where we are ended.
    command = [sys.executable, "-m", "holdfast.diagnostics.runner", _json(order)]
    limit_s = LOADING_S + order.time_box_s + 2 * LAST_RESORT_S
    environment = {**os.environ, "HOLDFAST_NODE": node, "HOLDFAST_SCRATCH": folder}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            timeout=limit_s,
            check=False,
            process_group=0,
        )
        return result_of(done.stdout)
    except subprocess.TimeoutExpired:
        why = f"the runner was ended after {limit_s:.0f} s"
    except msgspec.DecodeError as error:
        why = f"the runner ended without a result: {error}"
    return untested(order, node, why)


def _told(node: str, verdict: Verdict, results: Sequence[DiagnosticResult]) -> str:
    answer: Mapping[str, object] = {
        "node": node,
        "bad": verdict.bad.get(node),
        "known": node not in verdict.undecided,
        "evidence": verdict.evidence,
        "measurements": results,
    }
    return _json(answer)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _exit_code(verdict: Verdict) -> int:
    if verdict.bad:
        return exitcodes.FAILED
    return exitcodes.TRY_AGAIN if verdict.undecided else exitcodes.OK


if __name__ == "__main__":
    sys.exit(main())
