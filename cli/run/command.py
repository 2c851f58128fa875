"""The command `run`: its options, in torchrun's spellings too."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.run import options
from holdfast.cli.shared import examples


def register(app: typer.Typer) -> None:
    app.command(
        "run",
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        epilog=examples(
            "holdfast run -n 4 train.py --lr 3e-4",
            "holdfast run --nproc-per-node 8 -m package.train",
            "holdfast run -n 4 --nodes 2 --standbys 1 train.py",
            "holdfast run -n 2 -- ./binary --its-own-option",
        ),
    )(run)


Words = Annotated[
    list[str],
    typer.Argument(metavar="SCRIPT", help="A .py script or any program, and its arguments."),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        *("-n", "--ranks", "--nproc-per-node", "--nproc_per_node"),
        min=1,
        max=1_024,
        help="Ranks on each node. Default: one a GPU, else 1.",
    ),
]
Nodes = Annotated[
    int, typer.Option("--nodes", "--nnodes", min=1, help="Nodes, all on this machine.")
]
Standbys = Annotated[int, typer.Option(min=0, help="Nodes more, held warm.")]
Module = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a module.")]
MaxRestarts = Annotated[
    int,
    typer.Option(
        *("--max-restarts", "--max_restarts"),
        min=0,
        help="Restarts in an hour after exceptions of the script's own.",
    ),
]
Grace = Annotated[
    float, typer.Option("--grace", min=0, help="Seconds from SIGTERM to SIGKILL on Ctrl-C.")
]
FirstStep = Annotated[
    float,
    typer.Option(
        "--first-step",
        min=1,
        max=86_400,
        help="Seconds that the first step of an optimizer may take: until then only a process "
        "that does not run at all is a hang.",
    ),
]
Runs = Annotated[
    Path, typer.Option(metavar="DIR", help="Where the run's folder (logs, journal) is made.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but faults.")]


def run(
    words: Words,
    ranks: Ranks = None,
    nodes: Nodes = 1,
    standbys: Standbys = 0,
    module: Module = False,
    max_restarts: MaxRestarts = 3,
    grace_s: Grace = 30.0,
    first_step_s: FirstStep = 600.0,
    runs: Runs = Path("runs"),
    quiet: Quiet = False,
) -> int:
    """Run a script as torchrun would, with care: faults are noticed, cured and named.

    The driver is embedded; nothing is configured. The script's output and exit code are its own:
    a line that all ranks print alike is shown once, [rN] marks one of rank N alone, once more than
    one rank has printed. stdin is not passed on: every rank reads an empty one, for what was read
    once is lost to a restarted rank.
    """
    asked = options.Options(
        command=options.command_of(words, module=module),
        ranks=ranks or options.gpus() or 1,
        nodes=nodes,
        standbys=standbys,
        max_restarts=max_restarts,
        grace_s=grace_s,
        first_step_s=first_step_s,
        runs=runs,
        quiet=quiet,
    )
    options.check_nodes(asked)
    from holdfast.cli.run.follow import Run

    return Run(asked, options.new_run(asked)).execute()
