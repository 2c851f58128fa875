"""The parts of the laboratory and the benchmarks that commands load, each under its name here.

Called by `cli.lab`, `cli.bench` and `cli.kubernetes` once such a command is called. The product
runs without them: the command line may not import them, and nothing waits until they are.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from holdfast.cli.errors import Stopped
from holdfast.protocol import exitcodes

EXTRAS = {
    "cryptography": "tls",
    "kubernetes": "kubernetes",
    "psycopg": "postgres",
    "duckdb": "trace",
    "redis": "redis",
    "torch": "train",
}
"""Libraries, and which extra of ours brings each."""


class Part(NamedTuple):
    """A module, and the libraries without which it can do nothing; then it needs Linux as well."""

    module: str
    needs: tuple[str, ...] = ()

    def load(self) -> Any:
        """The module. Raises `Stopped` (69) where it cannot work here."""
        if self.needs and sys.platform != "linux":
            what = f"the emulated cluster needs Linux; this is {sys.platform}."
            raise Stopped(what, code=exitcodes.UNAVAILABLE)
        for library in self.needs:
            if find_spec(library) is None:
                extras = ",".join(EXTRAS[each] for each in self.needs)
                raise Stopped(
                    f"the library {library} is not installed, and this command needs it.",
                    fix=f"Install it: pip install 'holdfast[{extras}]'",
                    code=exitcodes.UNAVAILABLE,
                )
        return import_module(self.module)


TRAINS = ("torch",)
ON_KUBERNETES = ("kubernetes", "torch")
ON_GIVEN = (*ON_KUBERNETES, "cryptography")

DEMO = Part("holdfast.lab.demo.main", TRAINS)
DEMO_ON_KUBERNETES = Part("holdfast.lab.demo.kubernetes", ON_KUBERNETES)
DEMO_ON_GIVEN = Part("holdfast.lab.demo.kubernetes", ON_GIVEN)

FAULTS = Part("holdfast.lab.chaos.scenarios")
FAULTS_ON_KUBERNETES = Part("holdfast.lab.chaos.kubernetes.scenarios")
CHAOS_REPORT = Part("holdfast.lab.chaos.report")
CHAOS = Part("holdfast.lab.chaos.main", TRAINS)
CHAOS_ON_KUBERNETES = Part("holdfast.lab.chaos.kubernetes.main", ON_KUBERNETES)
CHAOS_ON_GIVEN = Part("holdfast.lab.chaos.kubernetes.main", ON_GIVEN)

BENCH = Part("holdfast.bench.main", TRAINS)
BENCH_IN_REDIS = Part("holdfast.bench.main", ("torch", "redis"))
BENCH_ON_KUBERNETES = Part("holdfast.bench.main", ON_KUBERNETES)
BENCH_AS_SHIPPED = Part("holdfast.bench.main", (*ON_GIVEN, "psycopg"))
BENCH_OTHERS = Part("holdfast.bench.kubernetes.others", ON_KUBERNETES)
BENCH_TRACE = Part("holdfast.bench.main", ("torch", "duckdb"))
BENCH_SCALE = Part("holdfast.bench.main")
BENCH_EVIDENCE = Part("holdfast.bench.evidence.benchmark")
BENCH_DIAGNOSTICS = Part("holdfast.bench.diagnostics.benchmark", TRAINS)
BENCH_VERDICTS = Part("holdfast.bench.diagnostics.simulated")
BENCH_COUNTS = Part("holdfast.bench.counts")
BENCH_SIZES = Part("holdfast.bench.kubernetes.sizes")

CONTROL_PLANE = Part("holdfast.lab.kubernetes.serve")
