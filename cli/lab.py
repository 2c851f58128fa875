"""Commands that need an emulated cluster: demo and chaos. Their options are read here alone.

Thin: each loads its own part of the lab when it is called.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import parts
from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import as_json, table
from holdfast.cli.shared import Json, examples, group
from holdfast.kit.files import private_folder

FOLDER_HELP = "A new or empty one, for state and logs. Default: one removed when all went well."
Folder = Annotated[Path | None, typer.Option("--folder", metavar="DIR", help=FOLDER_HELP)]


GIVEN_HELP = "With --cluster kubernetes: the admin's, of a test cluster to use (kind, say)."
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", metavar="FILE", help=GIVEN_HELP)]


class Cluster(StrEnum):
    """Where demo and chaos train."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


def register(app: typer.Typer) -> None:
    app.command(
        "demo",
        epilog=examples(
            "holdfast demo",
            "holdfast demo --fault rank-stopped",
            "holdfast demo --cluster kubernetes",
            "holdfast demo --cluster kubernetes --kubeconfig FILE",
            "holdfast demo --keep",
            "holdfast demo --json",
        ),
    )(demo)
    chaos = group("Do faults to an emulated cluster from outside, and score what follows.")
    shown = examples("holdfast chaos list", "holdfast chaos list --cluster kubernetes")
    chaos.command("list", epilog=shown)(chaos_list)
    chaos.command(
        "run",
        epilog=examples(
            "holdfast chaos run rank-killed node-lost",
            "holdfast chaos run 4",
            "holdfast chaos run all --json",
            "holdfast chaos run pauses quiet",
            "holdfast chaos run rank-stopped rank-spins --runs 30 --into FILE",
            "holdfast chaos run all --cluster kubernetes",
            "holdfast chaos run node-lost --cluster kubernetes --kubeconfig FILE",
        ),
    )(chaos_run)
    chaos.command(
        "report",
        epilog=examples(
            "holdfast chaos report FILE",
            "holdfast chaos report FILE FILE --json",
            "holdfast chaos report FILE --docs docs/faults.md",
        ),
    )(chaos_report)
    app.add_typer(chaos, name="chaos", epilog=examples("holdfast chaos list"))


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
    kubeconfig: Kubeconfig = None,
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
    given = _given(cluster, kubeconfig)
    chosen, part = _stage(cluster, fault, given)
    options = part.Options(
        fault=chosen, steps=steps, keep=keep, as_json=json, folder=_fresh(folder), **given
    )
    return _played(part, options)


def _stage(cluster: Cluster, fault: str | None, given: dict[str, Path]) -> tuple[Any, Any]:
    """The fault, and the part that plays it there. Raises `Stopped`."""
    if cluster is Cluster.LOCAL:
        return _scenario("named", fault or "node-lost"), parts.DEMO.load()
    if fault:
        raise misused(
            "--fault is for the local cluster; kubernetes has one fault.", "Leave --fault out."
        )
    part = (parts.DEMO_ON_GIVEN if given else parts.DEMO_ON_KUBERNETES).load()
    return part.FAULT, part


On = Annotated[Cluster, typer.Option(help="Where it trains: each has faults of its own.")]


def chaos_list(cluster: On = Cluster.LOCAL, json: Json = False) -> None:
    """Every fault that can be done, in a sentence. With --json: one line of JSON a fault."""
    scenarios = _faults(cluster)
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
        typer.Argument(
            metavar="NAME…",
            help="Faults by name or number; `all`; `checkpoint`; `pauses`, `quiet`: what is none.",
        ),
    ],
    seed: Annotated[int, typer.Option(help="Draws victims and moments, of each run others.")] = 1,
    runs: Annotated[int, typer.Option(min=1, max=10_000, help="How often each is done.")] = 1,
    into: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add a line a run; go on where the file ends."),
    ] = None,
    steps: Annotated[
        int, typer.Option(min=30, max=100_000, help="Training steps of each job.")
    ] = 60,
    cluster: On = Cluster.LOCAL,
    kubeconfig: Kubeconfig = None,
    folder: Folder = None,
    json: Json = False,
) -> int:
    """Do faults, each to a job on a fresh cluster; one scored line a fault. 0 where all passed."""
    chosen = _scenario("chosen", names, _faults(cluster))
    given = _given(cluster, kubeconfig)
    on_kubernetes = parts.CHAOS_ON_GIVEN if given else parts.CHAOS_ON_KUBERNETES
    part = (parts.CHAOS if cluster is Cluster.LOCAL else on_kubernetes).load()
    more = {"seed": seed, "steps": steps, "folder": _fresh(folder), **given}
    return _played(part, chosen, as_json=json, runs=runs, into=into, **more)


def chaos_report(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="As `chaos run --into` writes them.")
    ],
    docs: Annotated[
        Path | None,
        typer.Option(metavar="FAULTS.md", help="Write the table there, and check its rows."),
    ] = None,
    json: Json = False,
) -> int:
    """What was blamed for what: one line a fault. 0 where the page of faults agrees with it."""
    return _played(parts.CHAOS_REPORT.load(), files, docs=docs, as_json=json)


def _given(cluster: Cluster, kubeconfig: Path | None) -> dict[str, Path]:
    """What a part is told of a cluster that is given. Raises `Stopped` (2) where none can be."""
    if kubeconfig is None:
        return {}
    if cluster is Cluster.LOCAL:
        raise misused("--kubeconfig is for Kubernetes.", "Add: --cluster kubernetes")
    return {"kubeconfig": kubeconfig}


def _faults(cluster: Cluster) -> Any:
    """All that can be done there."""
    local = cluster is Cluster.LOCAL
    return (parts.FAULTS if local else parts.FAULTS_ON_KUBERNETES).load().SCENARIOS


def _scenario(how: str, names: str | list[str], *among: Any) -> Any:
    """The fault or faults that are meant. Raises `Stopped` (2) for a name that none has."""
    scenarios = parts.FAULTS.load()
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
