"""`holdfast bench NAME`: the list of benchmarks, and how one is run and told.

Called from the command line.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from holdfast.bench import report
from holdfast.bench.figures import Try, figures, ratios
from holdfast.bench.recovery.benchmark import SAYS, measure
from holdfast.protocol import exitcodes

OURS = "holdfast"

Benchmark = Callable[[int, Callable[[Try], None], Callable[[str], None]], None]
"""Called with the rounds, a function that takes each try, and one that takes what is being done."""

BENCHMARKS: dict[str, tuple[str, Benchmark]] = {
    "recovery": (SAYS, measure),
}


def names() -> list[str]:
    """The benchmarks there are."""
    return list(BENCHMARKS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line of `holdfast bench` and run what it asks for."""
    parser = argparse.ArgumentParser(
        prog="holdfast bench",
        description="Measure Holdfast against its peers, turn by turn on this machine. "
        + " ".join(f"{name}: {says}" for name, (says, _) in BENCHMARKS.items()),
        epilog="example: holdfast bench recovery --rounds 3 --json",
    )
    parser.add_argument("name", choices=names())
    parser.add_argument("--rounds", type=int, default=3, help="turns of each system (default 3)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    given = parser.parse_args(arguments)
    if given.rounds < 1:
        parser.error(f"--rounds: {given.rounds} is below 1. Give a positive number.")
    return run(given.name, rounds=given.rounds, as_json=given.json)


def run(name: str, *, rounds: int, as_json: bool) -> int:
    """Run the benchmark `name`; the exit code. What was measured before a Ctrl-C is still told."""
    tries: list[Try] = []
    progress = Console(stderr=True)
    code = exitcodes.OK
    try:
        with progress.status(f"bench {name}") as status:

            def say(what: str) -> None:
                status.update(what)
                if not progress.is_terminal:
                    progress.print(what)

            BENCHMARKS[name][1](rounds, tries.append, say)
    except KeyboardInterrupt:
        progress.print(f"interrupted after {len(tries)} measurements; nothing is left running")
        code = exitcodes.INTERRUPTED
    found = figures(tries)
    compared = ratios(found, ours=OURS)
    if as_json:
        print(report.as_json(found, compared))
    elif found:
        report.show(Console(), found, compared)
    return code


if __name__ == "__main__":
    sys.exit(main())
