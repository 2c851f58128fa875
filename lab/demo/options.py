"""What `holdfast demo` can be told."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.lab.demo.faults import FAULTS

EPILOG = """\
examples:
  holdfast demo                        a node is killed, a standby takes over
  holdfast demo --fault rank-stopped   one rank hangs
  holdfast demo --keep                 leave job and cluster running, and say where
  holdfast demo --json                 the last line is the result, for machines
"""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the demo. Nodes carry two ranks each (tp 2); pp 2; dp is what is left."""

    fault: str = "node-lost"
    steps: int = 60
    keep: bool = False
    as_json: bool = False
    folder: Path | None = None


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line; a mistake ends in usage, exit code 2."""
    parser = argparse.ArgumentParser(
        prog="holdfast demo",
        description="A real 3D-parallel training job on an emulated cluster of 4 nodes and a "
        "standby. A fault is done to it from outside; then the same job runs left alone, and the "
        "losses are compared bit for bit.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = "; ".join(f"{name}: {fault.says}" for name, fault in FAULTS.items())
    parser.add_argument("--fault", choices=list(FAULTS), default="node-lost", help=names)
    parser.add_argument("--steps", type=_steps, default=60, help="training steps (default 60)")
    parser.add_argument("--keep", action="store_true", help="leave it running until Ctrl-C")
    parser.add_argument("--json", dest="as_json", action="store_true", help="for machines")
    parser.add_argument("--folder", type=Path, help="for state and logs (default: a new one)")
    given = parser.parse_args(arguments)
    return Options(**vars(given))


def _steps(text: str) -> int:
    steps = int(text)
    if not 30 <= steps <= 100_000:
        raise argparse.ArgumentTypeError(f"{steps}: give 30 to 100000, the fault comes at a third")
    return steps
