"""Commands that need more than a driver: demo, chaos, bench. Their options are read here alone.

Thin: each loads its own part of the lab or the benchmarks when it is called, so that `holdfast
--help` and `holdfast run` start without them.
"""

import sys
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import as_json, table
from holdfast.cli.shared import Json, examples
from holdfast.kit.files import private_folder
from holdfast.protocol import exitcodes

FOLDER_HELP = "A new or empty one, for state and logs. Default: one removed when all went well."
Folder = Annotated[Path | None, typer.Option("--folder", metavar="DIR", help=FOLDER_HELP)]


class Cluster(StrEnum):
    """Where demo and chaos train."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


TABLES = {
    Cluster.LOCAL: "holdfast.lab.chaos.scenarios",
    Cluster.KUBERNETES: "holdfast.lab.chaos.kubernetes.scenarios",
}
"""Modules with the faults that are done there."""


def register(app: typer.Typer) -> None:
    app.command(
        "demo",
        epilog=examples(
            "holdfast demo",
            "holdfast demo --fault rank-stopped",
            "holdfast demo --cluster kubernetes",
            "holdfast demo --keep",
            "holdfast demo --json",
        ),
    )(demo)
    chaos = _group("Do faults to an emulated cluster from outside, and score what follows.")
    shown = examples("holdfast chaos list", "holdfast chaos list --cluster kubernetes")
    chaos.command("list", epilog=shown)(chaos_list)
    chaos.command(
        "run",
        epilog=examples(
            "holdfast chaos run rank-killed node-lost",
            "holdfast chaos run 4",
            "holdfast chaos run all --json",
            "holdfast chaos run all --cluster kubernetes",
        ),
    )(chaos_run)
    app.add_typer(chaos, name="chaos", epilog=examples("holdfast chaos list"))
    bench = _group("Measure Holdfast against its peers, turn by turn on this machine.")
    bench.command(
        "recovery",
        epilog=examples("holdfast bench recovery", "holdfast bench recovery --rounds 1 --json"),
    )(bench_recovery)
    bench.command(
        "kubernetes",
        epilog=examples(
            "holdfast bench kubernetes",
            "holdfast bench kubernetes --quick --json",
            "holdfast bench kubernetes --nodes 5000 --gang 4000 --rounds 1",
        ),
    )(bench_kubernetes)
    app.add_typer(bench, name="bench", epilog=examples("holdfast bench recovery --json"))


def _group(says: str) -> typer.Typer:
    return typer.Typer(help=says, no_args_is_help=True, rich_markup_mode=None)


def demo(
    fault: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What goes wrong; `holdfast chaos list` has all. Default: node-lost.",
        ),
    ] = None,
    cluster: Annotated[
        Cluster,
        typer.Option(help="Where it trains. On kubernetes a node's link and its kubelet go."),
    ] = Cluster.LOCAL,
    steps: Annotated[
        int, typer.Option(min=30, max=100_000, help="Training steps; the fault comes at a third.")
    ] = 60,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running until Ctrl-C.")] = False,
    folder: Folder = None,
    json: Json = False,
) -> int:
    """A real training job on an emulated cluster loses a node and gets it back.

    Four nodes and a standby train with tensor, pipeline and data parallelism. A fault is done to
    them from outside; then the same job runs left alone, and the losses are compared bit for bit.
    """
    chosen, part = _stage(cluster, fault)
    options = part.Options(
        fault=chosen, steps=steps, keep=keep, as_json=json, folder=_fresh(folder)
    )
    return _played(part, options)


def _stage(cluster: Cluster, fault: str | None) -> tuple[Any, Any]:
    """The fault, and the part that plays it there. Raises `Stopped`."""
    if cluster is Cluster.LOCAL:
        return _scenario("named", fault or "node-lost"), _cluster_part("holdfast.lab.demo.main")
    if fault:
        raise misused(
            "--fault is for the local cluster; kubernetes has one fault.", "Leave --fault out."
        )
    part = _kubernetes_part("holdfast.lab.demo.kubernetes")
    return part.FAULT, part


On = Annotated[Cluster, typer.Option(help="Where it trains: each has faults of its own.")]


def chaos_list(cluster: On = Cluster.LOCAL, json: Json = False) -> None:
    """Every fault that can be done, in a sentence. With --json: one line of JSON a fault."""
    scenarios = import_module(TABLES[cluster]).SCENARIOS
    if json:
        for each in scenarios:
            as_json({"number": each.number, "fault": each.name, "says": each.says})
        return
    table(
        ("number", "fault", "what is done"),
        ((each.number, each.name, each.says) for each in scenarios),
    )


def chaos_run(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME…", help="Faults by name or number, or `all`."),
    ],
    seed: Annotated[int, typer.Option(help="Draws the victims.")] = 1,
    steps: Annotated[
        int, typer.Option(min=30, max=100_000, help="Training steps of each job.")
    ] = 60,
    cluster: On = Cluster.LOCAL,
    folder: Folder = None,
    json: Json = False,
) -> int:
    """Do faults, each to a job on a fresh cluster; one scored line a fault. 0 where all passed."""
    chosen = _scenario("chosen", names, import_module(TABLES[cluster]).SCENARIOS)
    local = cluster is Cluster.LOCAL
    part = (
        _cluster_part("holdfast.lab.chaos.main")
        if local
        else _kubernetes_part("holdfast.lab.chaos.kubernetes.main")
    )
    return _played(part, chosen, as_json=json, seed=seed, steps=steps, folder=_fresh(folder))


def bench_recovery(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each system.")] = 3,
    json: Json = False,
) -> int:
    """How long a 4-rank script stands still after a fault, under torchrun and under Holdfast."""
    part = _cluster_part("holdfast.bench.main")
    return int(part.run("recovery", rounds=rounds, as_json=json))


def bench_kubernetes(
    nodes: Annotated[
        str, typer.Option(metavar="N,…", help="How many fake nodes, one size after the other.")
    ] = "500,1000,2000",
    gang: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Pods of the job on the most nodes, fewer in proportion on fewer. Default: 3/4.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each size.")] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="100 nodes, 60 pods, one round: does it work here?")
    ] = False,
    json: Json = False,
) -> int:
    """What a job of thousands of pods costs on a real API server whose nodes are fake (kwok).

    Its pods are bound beside a bare create of the same ones; its executors are simulated in one
    process, and connect with real tokens. CPU, memory and writes of the driver; how soon a node's
    condition is decided upon; a killed driver; our reflector beside typed watches.
    """
    if quick:
        nodes, gang, rounds = "100", 60, 1
    part = _kubernetes_part("holdfast.bench.main")
    sizes = import_module("holdfast.bench.kubernetes.sizes")
    try:
        chosen = sizes.chosen(nodes, gang, quick=quick)
    except sizes.BadSizes as bad:
        raise misused(bad.what, bad.fix) from bad
    return int(part.run("kubernetes", rounds=rounds, as_json=json, sizes=chosen))


def _scenario(how: str, names: str | list[str], *among: Any) -> Any:
    """The fault or faults that are meant. Raises `Stopped` (2) for a name that none has."""
    scenarios = import_module("holdfast.lab.chaos.scenarios")
    try:
        return getattr(scenarios, how)(names, *among)
    except scenarios.UnknownFault as unknown:
        raise misused(str(unknown), "All of them: holdfast chaos list") from unknown


def _fresh(folder: Path | None) -> Path | None:
    """A folder without an earlier run in it. Raises `Stopped` (2)."""
    if folder is None:
        return None
    try:
        private_folder(folder)
        used = any(folder.iterdir())
    except OSError as error:
        raise misused(
            f"cannot use {folder}: {error.strerror}.", "Name another one: --folder DIR"
        ) from error
    if used:
        raise misused(f"{folder} is not empty.", "Name a new folder: --folder DIR")
    return folder


def _played(part: Any, *what: Any, **options: Any) -> int:
    """The exit code. Raises `Stopped` with what kept it from its end."""
    try:
        return int(part.run(*what, **options))
    except part.FAILURES as failure:
        raise Stopped(str(failure)) from failure


def _kubernetes_part(module: str) -> Any:
    """A part that trains on Kubernetes. Raises `Stopped` (69) where it cannot here."""
    if find_spec("kubernetes") is None:
        raise Stopped(
            "the Python package kubernetes is not installed, and this command needs it.",
            fix="Install it: pip install 'holdfast[kubernetes,train]'",
            code=exitcodes.UNAVAILABLE,
        )
    return _cluster_part(module)


def _cluster_part(module: str) -> Any:
    """A part that trains on an emulated cluster. Raises `Stopped` (69) where it cannot here."""
    if sys.platform != "linux":
        raise Stopped(
            f"the emulated cluster needs Linux; this is {sys.platform}.",
            code=exitcodes.UNAVAILABLE,
        )
    if find_spec("torch") is None:
        raise Stopped(
            "torch is not installed, and this command trains with it.",
            fix="Install it: pip install 'holdfast[train]'",
            code=exitcodes.UNAVAILABLE,
        )
    return import_module(module)
