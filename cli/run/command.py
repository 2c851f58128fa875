"""The command `run`: its options, in torchrun's spellings too."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from holdfast.cli.output import warn
from holdfast.cli.run import beginning, options, torchrun
from holdfast.cli.shared import examples, text
from holdfast.cli.usage import as_typed


def register(app: typer.Typer) -> None:
    app.command(
        "run",
        cls=_Command,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        epilog=examples(
            "holdfast run -n 4 train.py --lr 3e-4",
            "holdfast run --nproc-per-node 8 -m package.train",
            "holdfast run -n 4 --nodes 2 --standbys 1 train.py",
            "holdfast run -n 4 --store-url s3://bucket/checkpoints train.py",
            "holdfast run -n 4 --begin-from last train.py",
            "holdfast run -n 2 -- ./binary --its-own-option",
        ),
    )(run)


class _Command(TyperCommand):
    """Knows torchrun's options, and all of ours with _ for -."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        named = [(parameter, [*parameter.opts]) for parameter in self.params]
        ours = {name for _, names in named for name in names} | {"--help"}
        with_value = {
            name
            for parameter, names in named
            if not getattr(parameter, "is_flag", True)
            for name in names
        }
        kept, theirs = torchrun.parted(args, ours, with_value)
        context.meta[__name__] = theirs, args
        return super().parse_args(context, kept)


Words = Annotated[
    list[str],
    typer.Argument(metavar="SCRIPT", help="A .py script or any program, and its arguments."),
]
RANKS = ("-n", "--ranks", "--nproc-per-node")
Ranks = Annotated[
    str,
    typer.Option(
        *RANKS,
        metavar="N",
        help="Ranks on each node, or gpu, cpu, auto. Default: one a GPU, else 1.",
    ),
]
NODES = ("--nodes", "--nnodes")
Nodes = Annotated[str, typer.Option(*NODES, metavar="N", help="Nodes, all on this machine.")]
Standbys = Annotated[int, typer.Option(min=0, metavar="N", help="Nodes more, held warm.")]
Module = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a module.")]
MaxRestarts = Annotated[
    int,
    typer.Option(
        "--max-restarts",
        min=0,
        metavar="N",
        help="Restarts in an hour after faults of the ranks' own: exceptions, exit codes, signals; "
        "also where one is killed from outside where it was before, without a step more.",
    ),
]
SECONDS = "SECONDS"
Grace = Annotated[
    float,
    typer.Option(
        "--grace",
        min=0,
        max=3_600,
        metavar=SECONDS,
        help="From SIGTERM to SIGKILL on Ctrl-C, to save.",
    ),
]
FirstStep = Annotated[
    float,
    typer.Option(
        "--first-step",
        min=1,
        max=86_400,
        metavar=SECONDS,
        help="What the first step of an optimizer may take: until then only a process that does "
        "not run at all is a hang.",
    ),
]
PauseMax = Annotated[
    float,
    typer.Option(
        "--pause-max",
        min=1,
        max=86_400,
        metavar=SECONDS,
        help="How long a rank may work on something else without a step: evaluate, save, upload. "
        "One that does nothing at all is a hang long before, see --stuck-max.",
    ),
]
StuckMax = Annotated[
    float | None,
    typer.Option(
        "--stuck-max",
        min=1,
        max=86_400,
        metavar=SECONDS,
        help="How long a rank may be stuck, nothing of it moving, before it is a hang: an idle "
        "child process, an answer that does not come. Default: 15, at most --pause-max.",
    ),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store-url",
        metavar="URL",
        help="Where checkpoints go, each run's into a folder of its own there: file:///folder, "
        "hdfs://namenode:9870/folder, s3://bucket/folder. Default: into the run's folder.",
        callback=text,
    ),
]
StoreEvery = Annotated[
    int | None,
    typer.Option(
        "--store-every",
        min=0,
        max=10_000_000,
        metavar="N",
        help="Steps between checkpoints to the store; 0 writes none. Default: 50.",
    ),
]
KeepEvery = Annotated[
    int,
    typer.Option(
        "--keep-every",
        min=0,
        max=10_000_000,
        metavar="N",
        help="Keep for ever checkpoints of each N-th step, beside the newest two; 0 keeps none. "
        "Copies on another node (peerIntervalSteps) and what an upload may take (uploadMbPerS, "
        "uploadCpus, uploadIdle) are fields of a job file: see docs/checkpoints.md, and submit.",
    ),
]
Runs = Annotated[
    Path, typer.Option(metavar="DIR", help="Where the run's folder (logs, journal) is made.")
]
Rendezvous = Annotated[
    str | None,
    typer.Option(
        "--rendezvous",
        metavar="URL",
        help="Redis where ranks meet, e.g. redis://host:6379/0; it outlives the first node. "
        "Default: a TCPStore on that node.",
        callback=text,
    ),
]
BeginFrom = Annotated[
    str | None,
    typer.Option(
        "--begin-from",
        metavar="URL",
        help="Go on from what an earlier run or job saved with holdfast.checkpoint: a store's URL "
        "or folder, a run's name, or `last`.",
    ),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but faults.")]


def run(
    context: typer.Context,
    words: Words,
    ranks: Ranks = "",
    nodes: Nodes = "1",
    standbys: Standbys = 0,
    module: Module = False,
    max_restarts: MaxRestarts = 3,
    grace_s: Grace = 30.0,
    first_step_s: FirstStep = 600.0,
    pause_max_s: PauseMax = 600.0,
    stuck_max_s: StuckMax = None,
    store_url: StoreUrl = None,
    store_every: StoreEvery = None,
    keep_every: KeepEvery = 0,
    rendezvous: Rendezvous = None,
    begin_from: BeginFrom = None,
    runs: Runs = Path("runs"),
    quiet: Quiet = False,
) -> int:
    """Run a script as torchrun would, with care: faults are noticed, cured and named.

    The driver is embedded; nothing is configured. The script's output and exit code are its own:
    a line that all ranks print alike is shown once, [rN] marks one of rank N alone, once more than
    one rank has printed. stdin is not passed on: every rank reads an empty one, for what was read
    once is lost to a restarted rank. torchrun's options are taken; of one that means nothing here a
    line says so.
    """
    theirs, typed = context.meta[__name__]
    count, fixed = torchrun.nodes_of(nodes, as_typed(NODES, typed))
    torchrun.check_one_host(theirs, nodes)
    folder = dict(theirs).get("log-dir")
    no_python = ("no-python", "") in theirs
    each = options.gpus() or 1
    if ranks:
        each = torchrun.ranks_of(ranks, options.gpus, as_typed(RANKS, typed))
    folder_of_runs = runs if folder is None else Path(folder)
    begun = beginning.of(begin_from, folder_of_runs) if begin_from is not None else None
    asked = options.Options(
        command=options.command_of(words, module=module, program=no_python),
        ranks=each,
        nodes=count,
        standbys=standbys,
        max_restarts=max_restarts,
        grace_s=grace_s,
        first_step_s=first_step_s,
        pause_max_s=pause_max_s,
        stuck_max_s=stuck_max_s,
        store_url=store_url or "",
        store_every=store_every,
        keep_every=keep_every,
        rendezvous=rendezvous or "",
        runs=folder_of_runs,
        quiet=quiet,
        begin_from=begun.url if begun else "",
    )
    options.check_nodes(asked)
    options.check_waits(asked)
    options.check_kept(asked)
    options.check_store(asked)
    options.check_rendezvous(asked)
    from_where = begun.told(asked.world_size) if begun else ""
    for line in (torchrun.ignored(theirs), fixed, from_where, options.meets_elsewhere(asked)):
        if line and not quiet:
            warn(line)
    from holdfast.cli.run.follow import Run

    return Run(asked, options.new_run(asked)).execute()
