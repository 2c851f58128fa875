"""The command `bench`: Holdfast measured against its peers. Its options are read here alone.

Thin: each loads its own part of the benchmarks when it is called.
"""

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli import parts
from holdfast.cli.errors import misused
from holdfast.cli.shared import Json, examples, group
from holdfast.kit.logs import set_up_logs


def register(app: typer.Typer) -> None:
    bench = group("Measure Holdfast against its peers, turn by turn on this machine.")
    bench.command(
        "restart",
        epilog=examples(
            "holdfast bench restart",
            "holdfast bench restart --rounds 1 --json",
            "holdfast bench restart --rounds 5 --only launch",
            "holdfast bench restart --nvrx other/.venv/bin/python",
        ),
    )(restart)
    bench.command(
        "detection",
        epilog=examples(
            "holdfast bench detection",
            "holdfast bench detection --fault stopped --rounds 30 --json",
        ),
    )(detection)
    bench.command(
        "kubernetes",
        epilog=examples(
            "holdfast bench kubernetes",
            "holdfast bench kubernetes --quick --json",
            "holdfast bench kubernetes --as-shipped --rounds 1",
            "holdfast bench kubernetes --nodes 5000 --gang 4000 --rounds 1",
        ),
    )(kubernetes)
    bench.command(
        "busy",
        epilog=examples(
            "holdfast bench busy",
            "holdfast bench busy --others 15000",
            "holdfast bench busy --others 500 --rounds 1 --json",
        ),
    )(busy)
    bench.command(
        "scale",
        epilog=examples(
            "holdfast bench scale",
            "holdfast bench scale --nodes 1000,12500 --before HEAD~20 --json",
        ),
    )(scale)
    bench.command("telemetry", epilog=examples("holdfast bench telemetry --json"))(telemetry)
    bench.command(
        "trace",
        epilog=examples(
            "holdfast bench trace",
            "holdfast bench trace --quick --json",
            "holdfast bench trace --only steps",
        ),
    )(trace)
    bench.command("analysis", epilog=examples("holdfast bench analysis --rounds 1"))(analysis)
    bench.command("page", epilog=examples("holdfast bench page --rounds 1 --minutes 0"))(page)
    bench.command(
        "checkpoint",
        epilog=examples(
            "holdfast bench checkpoint",
            "holdfast bench checkpoint --gib 0.1 --rounds 1 --json",
            "holdfast bench checkpoint --device cuda",
        ),
    )(checkpoint)
    bench.command(
        "leaks",
        epilog=examples(
            "holdfast bench leaks",
            "holdfast bench leaks --saves 60 --restarts 6 --json",
        ),
    )(leaks)
    bench.command(
        "endurance",
        epilog=examples(
            "holdfast bench endurance",
            "holdfast bench endurance --every 20 --faults 3 --json",
        ),
    )(endurance)
    bench.command(
        "rendezvous",
        epilog=examples(
            "holdfast bench rendezvous",
            "holdfast bench rendezvous --clients 256 --rounds 3 --json",
        ),
    )(rendezvous)
    bench.command(
        "evidence",
        epilog=examples(
            "holdfast bench evidence --quick",
            "holdfast bench evidence --seeds 1000 --json",
            "holdfast bench evidence --case two-lemons --case bad-link --before HEAD~20",
        ),
    )(evidence)
    bench.command(
        "diagnostics",
        epilog=examples(
            "holdfast bench diagnostics",
            "holdfast bench diagnostics --minutes 20",
            "holdfast bench diagnostics --simulated 100",
        ),
    )(diagnostics)
    app.add_typer(bench, name="bench", epilog=examples("holdfast bench restart --json"))


def restart(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each system.")] = 3,
    nvrx: Annotated[
        str,
        typer.Option(
            metavar="PYTHON",
            help="A Python that has nvidia-resiliency-ext and torch: its ft_launcher plays too.",
        ),
    ] = "",
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="Turns whose names have this in them: `launch`.")
    ] = "",
    json: Json = False,
) -> int:
    """How long a 4-rank script takes to start, as it is, cold and after `holdfast warm`, and how
    long it stands still after a fault, under torchrun and under Holdfast.
    """
    part = parts.BENCH.load()
    return int(part.run("restart", rounds=rounds, as_json=json, nvrx=nvrx, only=only))


class Standing(StrEnum):
    """What holds the ranks of `bench detection` up."""

    STOPPED = "stopped"
    GIL = "gil"
    SPINS = "spins"
    OTHER_COLLECTIVE = "other-collective"
    SKIPPED_COLLECTIVE = "skipped-collective"


def detection(
    fault: Annotated[
        list[Standing] | None,
        typer.Option(help="Only this fault; may be given again. Default: all."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each system and fault.")] = 3,
    json: Json = False,
) -> int:
    """How soon a rank that holds 4 up is named and acted on, beside torchrun as it is and tuned.

    A turn takes about 20 s where somebody acts, and a minute longer under torchrun as it is, whose
    ranks wait for 30 minutes.
    """
    part = parts.BENCH.load()
    faults = [each.value for each in fault or Standing]
    return int(part.run("detection", rounds=rounds, as_json=json, faults=faults))


def kubernetes(
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
    as_shipped: Annotated[
        bool,
        typer.Option("--as-shipped", help="The driver with PostgreSQL, TLS and the Lease."),
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
    set_up_logs("bench")  # on stderr: stdout may be JSON
    part = (parts.BENCH_AS_SHIPPED if as_shipped else parts.BENCH_ON_KUBERNETES).load()
    sizes = parts.BENCH_SIZES.load()
    try:
        chosen = sizes.chosen(nodes, gang, quick=quick)
    except sizes.BadSizes as bad:
        raise misused(bad.what, bad.fix) from bad
    return int(
        part.run("kubernetes", rounds=rounds, as_json=json, sizes=chosen, as_shipped=as_shipped)
    )


def busy(
    others: Annotated[
        int, typer.Option(min=1, help="Pods of others, 50 on each fake node; a multiple of 500.")
    ] = 3_000,
    rounds: Annotated[int, typer.Option(min=1, help="Drivers that begin, one by one.")] = 3,
    json: Json = False,
) -> int:
    """What a fleet costs that is full of others' pods, on a real API server with fake nodes (kwok).

    Six nodes of ten have no room for the pods of a job. How soon a driver knows that, what it needs
    to remember it, and how soon a 2-node job has its nodes, three in each round.
    """
    set_up_logs("bench")  # on stderr: stdout may be JSON
    part = parts.BENCH_ON_KUBERNETES.load()
    sizes = parts.BENCH_OTHERS.load()
    try:
        sizes.nodes_for(others)
    except sizes.BadSizes as bad:
        raise misused(bad.what, bad.fix) from bad
    return int(part.run("busy", rounds=rounds, as_json=json, others_wanted=others))


def scale(
    nodes: Annotated[
        str, typer.Option(metavar="N,…", help="How many nodes, one size after the other.")
    ] = "500,1000,2000",
    before: Annotated[
        str, typer.Option(metavar="COMMIT", help="Measure an earlier commit beside it, in turns.")
    ] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each size.")] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="30 nodes, one round: does it work here?")
    ] = False,
    json: Json = False,
) -> int:
    """What the driver costs a node as the cluster grows: to decide and commit, to take heartbeats.

    A job on all nodes starts, loses all its ranks, starts again and ends, in one process with the
    driver's own loop and journal; nodes are fake. Then heartbeats of 8 ranks, into all detectors.
    Last a driver's own process, to which nodes and 100 viewers connect, without TLS and with it:
    its memory, its CPU, and how soon viewers read what a fault led to.
    """
    if quick:
        nodes, rounds = "30", 1
    part = parts.BENCH_SCALE.load()
    sizes = parts.BENCH_COUNTS.load()
    try:
        chosen = sizes.counts(nodes)
    except sizes.BadSizes as bad:
        raise misused(bad.what, bad.fix) from bad
    return int(part.run("scale", rounds=rounds, as_json=json, sizes=chosen, before=before))


def telemetry(
    rounds: Annotated[int, typer.Option(min=1, help="Processes that are measured.")] = 3,
    json: Json = False,
) -> int:
    """What watching costs a rank: CPU of a collective with hooks and without, in turns."""
    return int(parts.BENCH.load().run("telemetry", rounds=rounds, as_json=json))


def trace(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each part.")] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="Little of each, one round: does it work here?")
    ] = False,
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="Parts whose names have this in them: `steps`.")
    ] = "",
    json: Json = False,
) -> int:
    """What traces cost: a step with them and without, in turns; octets of a rank's hour; packing
    of 12,288 ranks' steps on one core; questions about a day of 32 ranks. Ten minutes.
    """
    part = parts.BENCH_TRACE.load()
    return int(
        part.run("trace", rounds=1 if quick else rounds, as_json=json, quick=quick, only=only)
    )


def analysis(
    rounds: Annotated[int, typer.Option(min=1, help="Ranks that hold the others up.")] = 3,
    json: Json = False,
) -> int:
    """What it costs the driver to say who holds up a job of 12,288 ranks."""
    return int(parts.BENCH_SCALE.load().run("analysis", rounds=rounds, as_json=json))


def page(
    rounds: Annotated[int, typer.Option(min=1, help="Browsers, one after another.")] = 3,
    ranks: Annotated[int, typer.Option(min=64, help="Of the job that is shown.")] = 12_288,
    minutes: Annotated[
        float, typer.Option(min=0.0, max=60.0, help="For which each has an answer a second.")
    ] = 5.0,
    json: Json = False,
) -> int:
    """What pictures of a large job cost a browser: how soon they are there, a frame of a drag, and
    memory. Needs chromium, and playwright.
    """
    options = {"ranks": ranks, "minutes": minutes}
    return int(parts.BENCH_SCALE.load().run("page", rounds=rounds, as_json=json, **options))


class Device(StrEnum):
    """Where the state of `bench checkpoint` lies."""

    CPU = "cpu"
    CUDA = "cuda"


def checkpoint(
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each kind of state.")] = 3,
    gib: Annotated[
        float, typer.Option(min=0.001, max=64.0, help="Size of the state; it is needed 12 times.")
    ] = 1.0,
    device: Annotated[Device, typer.Option(help="Where the state lies.")] = Device.CPU,
    json: Json = False,
) -> int:
    """What a checkpoint costs a rank: to save, to restore, while it is written to the store; beside
    torch.save and torch's distributed checkpoints.
    """
    options = {"gib": gib, "device": device.value}
    return int(parts.BENCH.load().run("checkpoint", rounds=rounds, as_json=json, **options))


def leaks(
    saves: Annotated[int, typer.Option(min=1, help="Snapshots of each rank, at least.")] = 500,
    restarts: Annotated[int, typer.Option(min=1, help="Ranks that are killed, in turn.")] = 50,
    json: Json = False,
) -> int:
    """What a node still has after hundreds of saves and tens of restarts that it had not early on.

    A job on two emulated nodes, with copies on the other one and a store: open files, threads,
    processes and memory of agent, executor, daemon and launcher, and what lies in the nodes'
    memory. Two minutes.
    """
    part = parts.BENCH.load()
    return int(part.run("leaks", rounds=1, as_json=json, saves=saves, restarts=restarts))


def endurance(
    every: Annotated[float, typer.Option(min=5, help="Seconds between faults.")] = 60.0,
    faults: Annotated[int, typer.Option(min=1, help="How many: rank, node, store, in turn.")] = 6,
    json: Json = False,
) -> int:
    """How much longer a job takes that is hurt again and again, beside torchrun, with one script.

    What it has to take: its time alone, at the pace of its other steps, and until each fault was
    found, as the journal has it. Torchrun's ranks alone are hurt, as often: who replaces a node or
    a store is not its. A quarter of an hour.
    """
    part = parts.BENCH.load()
    return int(part.run("endurance", rounds=1, as_json=json, every_s=every, faults=faults))


def rendezvous(
    clients: Annotated[
        str, typer.Option(metavar="N,…", help="How many clients, one number after the other.")
    ] = "256,2048",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each system.")] = 5,
    quick: Annotated[
        bool, typer.Option("--quick", help="64 clients, one round: does it work here?")
    ] = False,
    json: Json = False,
) -> int:
    """How soon many clients know each other's addresses, and how often their groups ask a store.

    Our store on a Redis that is started for it, over standing connections, beside torch's TCPStore
    as gloo asks it (up to 512 clients) and as Holdfast has it asked, and beside bare sockets. What
    a job of 64 to 4,096 ranks asks the store for all its groups is counted, not timed.
    """
    if quick:
        clients, rounds = "64", 1
    part, sizes = parts.BENCH_IN_REDIS.load(), parts.BENCH_COUNTS.load()
    try:
        chosen = sizes.counts(clients, option="--clients", least=2)
    except sizes.BadSizes as bad:
        raise misused(bad.what, bad.fix) from bad
    counts = [64] if quick else [64, 512, 4096]
    return int(part.run("rendezvous", rounds=rounds, as_json=json, clients=chosen, counts=counts))


def evidence(
    seeds: Annotated[int, typer.Option(min=1, help="Lives of each case.")] = 1_000,
    case: Annotated[
        list[str] | None, typer.Option(help="Only this case; may be given again. Default: all.")
    ] = None,
    before: Annotated[
        str, typer.Option(metavar="COMMIT", help="Play an earlier commit's driver beside it.")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="20 lives of each case: does it work here?")
    ] = False,
    json: Json = False,
) -> int:
    """How well the driver finds what is wrong, in simulated worlds of which each has one cause.

    Lemons, links, bad versions, poisoned checkpoints, long evaluations and more, each of which
    stays until it is really gone; jobs of 1 to 512 nodes. Beside the driver two oracles play, which
    see the same and know what the cases look like, one of them also how often each cause strikes.
    Hours of virtual time; nothing real is run.
    """
    part = parts.BENCH_EVIDENCE.load()
    chosen = list(dict.fromkeys(case or part.CASES))
    if unknown := [name for name in chosen if name not in part.CASES]:
        raise misused(
            f"--case {unknown[0]!r}: there is no such case.", f"There are {', '.join(part.CASES)}."
        )
    return int(part.run(cases=chosen, seeds=20 if quick else seeds, before=before, as_json=json))


def diagnostics(
    minutes: Annotated[
        float, typer.Option(min=0.01, max=600, help="How long; each case is tried once at least.")
    ] = 3.0,
    simulated: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=10_000, help="N diagnoses each of made-up nodes; no --minutes."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """How often the tests of nodes find a planted fault, and how often they fail a healthy node.

    Each runs as under an executor, alone and beside a busy loop on each core of this machine. With
    --simulated nothing is measured: what the rules make of results that are made up.
    """
    if simulated is not None:
        return int(parts.BENCH_VERDICTS.load().run(runs=simulated, as_json=json))
    return int(parts.BENCH_DIAGNOSTICS.load().run(minutes=minutes, as_json=json))
