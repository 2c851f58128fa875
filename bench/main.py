"""`holdfast bench NAME`: the benchmarks, and how one is run and told.

Called by the command line, which reads the options.
"""

import os
from collections.abc import Callable
from typing import Any

from rich.console import Console

from holdfast.bench import report
from holdfast.bench.figures import Incomplete, Try, figures, ratios
from holdfast.protocol import exitcodes

OURS = "holdfast"

Take = Callable[[Try], None]
Say = Callable[[str], None]
Benchmark = Callable[..., None]
"""Called with the rounds, a function that takes each try, one that takes what is being done, and
its own options. Raises `Incomplete`.
"""


def _restart(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.restart.benchmark import measure

    measure(rounds, take, say, **options)


def _detection(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.detection.benchmark import measure

    measure(rounds, take, say, **options)


def _kubernetes(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.kubernetes.benchmark import measure

    measure(rounds, take, say, **options)


def _busy(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.kubernetes.busy import measure

    measure(rounds, take, say, **options)


def _scale(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.scale.benchmark import measure

    measure(rounds, take, say, **options)


def _telemetry(rounds: int, take: Take, say: Say) -> None:
    from holdfast.bench.telemetry.benchmark import measure

    measure(rounds, take, say)


def _checkpoint(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.checkpoint.benchmark import measure

    measure(rounds, take, say, **options)


def _leaks(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.leaks.benchmark import measure

    measure(rounds, take, say, **options)


def _endurance(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.endurance.benchmark import measure

    measure(rounds, take, say, **options)


def _rendezvous(rounds: int, take: Take, say: Say, **options: Any) -> None:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # else a line for each name not found
    from holdfast.bench.rendezvous.benchmark import measure

    measure(rounds, take, say, **options)


def _trace(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.trace.benchmark import measure

    measure(rounds, take, say, **options)


def _analysis(rounds: int, take: Take, say: Say) -> None:
    from holdfast.bench.analysis.benchmark import measure

    measure(rounds, take, say)


def _page(rounds: int, take: Take, say: Say, **options: Any) -> None:
    from holdfast.bench.page.benchmark import measure

    measure(rounds, take, say, **options)


BENCHMARKS: dict[str, Benchmark] = {
    "restart": _restart,
    "detection": _detection,
    "kubernetes": _kubernetes,
    "busy": _busy,
    "scale": _scale,
    "telemetry": _telemetry,
    "trace": _trace,
    "analysis": _analysis,
    "page": _page,
    "checkpoint": _checkpoint,
    "leaks": _leaks,
    "endurance": _endurance,
    "rendezvous": _rendezvous,
}
"""Each loads its own when it is called: not all need torch, or Kubernetes."""


def run(name: str, *, rounds: int, as_json: bool, **options: Any) -> int:
    """Run the benchmark `name`; the exit code. What was measured before a Ctrl-C, or before it
    could not go on, is still told.
    """
    tries: list[Try] = []
    progress = Console(stderr=True)
    code = exitcodes.OK
    try:
        with progress.status(f"bench {name}") as status:

            def say(what: str) -> None:
                status.update(what)
                if not progress.is_terminal:
                    progress.print(what, soft_wrap=True, markup=False)

            BENCHMARKS[name](rounds, tries.append, say, **options)
    except KeyboardInterrupt:
        progress.print(f"interrupted after {len(tries)} measurements; nothing is left running")
        code = exitcodes.INTERRUPTED
    except Incomplete as reason:
        progress.print(f"ended after {len(tries)} measurements: {reason}", markup=False)
        code = exitcodes.FAILED
    found = figures(tries)
    compared = ratios(found, ours=OURS)
    if as_json:
        print(report.as_json(found, compared))
    elif found:
        report.show(Console(), found, compared)
    return code
