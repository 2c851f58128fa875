"""`holdfast bench NAME`: the benchmarks, and how one is run and told.

Called by the command line, which reads the options.
"""

from collections.abc import Callable

from rich.console import Console

from holdfast.bench import report
from holdfast.bench.figures import Try, figures, ratios
from holdfast.bench.recovery.benchmark import measure
from holdfast.protocol import exitcodes

OURS = "holdfast"

Benchmark = Callable[[int, Callable[[Try], None], Callable[[str], None]], None]
"""Called with the rounds, a function that takes each try, and one that takes what is being done."""

BENCHMARKS: dict[str, Benchmark] = {"recovery": measure}


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

            BENCHMARKS[name](rounds, tries.append, say)
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
