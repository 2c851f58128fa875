"""The command `warm`: a process that has imported torch before a run needs it.

Called by the command line. What is imported, compared and forked is the executor's and the keeper's
(`executor.forkserver`, `keeper.warmed`).
"""

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import as_json, say
from holdfast.cli.run import options
from holdfast.cli.shared import Json, examples
from holdfast.executor.adapters.launcher import FORCED
from holdfast.executor.forkserver import BOOT
from holdfast.executor.forkserver.marks import room
from holdfast.executor.launcher.scan import modules_of
from holdfast.keeper.warmed import NotForked, asked
from holdfast.kit.files import private_folder
from holdfast.protocol import exitcodes
from holdfast.protocol.counts import plural
from holdfast.protocol.forkserving import (
    LOG,
    SOCKET,
    Answer,
    End,
    NotTaken,
    Taken,
    Tell,
    Told,
    folder,
    why_not_private,
)
from holdfast.protocol.messages import Task
from holdfast.protocol.rankenv import base_environment

MODULES = (
    *("holdfast.driver.process", "holdfast.driver.adapters.rest.app", "holdfast.keeper.process"),
    *("holdfast.telemetry.hooks", "holdfast.executor.launcher.rendezvous"),
    *("torch", "torch.nn", "torch.distributed", "torch.optim", "torch._dynamo"),
)
"""What nearly every script needs; the last one comes with the first optimizer."""
ENDS_WITHIN_S = 5.0


def register(app: typer.Typer) -> None:
    app.command(
        "warm",
        epilog=examples(
            "holdfast warm -n 4",
            "holdfast warm -n 4 train.py --idle 28800",
            "holdfast warm --status",
            "holdfast warm --stop",
        ),
    )(warm)


def warm(
    script: Annotated[
        str, typer.Argument(metavar="[SCRIPT]", help="Import what this one imports, too.")
    ] = "",
    ranks: Annotated[
        str, typer.Option("-n", "--ranks", metavar="N", help="Ranks a node, as in the run to come.")
    ] = "",
    idle_s: Annotated[
        float,
        typer.Option(
            "--idle",
            metavar="SECONDS",
            min=1,
            max=604_800,
            help="Ends by itself after so long without a run.",
        ),
    ] = 3_600.0,
    status: Annotated[
        bool, typer.Option("--status", help="What it is, and whom it refused.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="End it. Runs that began from it go on.")
    ] = False,
    json: Json = False,
) -> int:
    """Import torch now, in the background, so that the next runs here begin in a second.

    One process for this user, of some hundred MB, that every `holdfast run` on this machine forks
    its ranks from, as long as it is what the run would have started: the same Python, files of
    packages, environment as far as an import reads it, limits, control group. Else the run starts
    its own, and `--status` says why.
    """
    if status and stop:
        raise misused("--status and --stop exclude each other.", "Leave out one of them.")
    place = folder(os.environ, os.getuid())
    if stop:
        return _stop(place, json=json)
    if status:
        return _status(place, json=json)
    return _start(place, _modules(script), _environment(ranks), idle_s, json=json)


def _modules(script: str) -> list[str]:
    if not script:
        return [*MODULES]
    options.command_of([script])
    return list(dict.fromkeys((*MODULES, *modules_of(script=script, workdir=os.getcwd()))))


def _environment(ranks: str) -> dict[str, str]:
    """That of the launchers of such a run."""
    from holdfast.cli.run.torchrun import ranks_of

    each = ranks_of(ranks, options.gpus, "-n") if ranks else options.gpus() or 1
    meant = options.Options(command=(sys.executable, "-"), ranks=each)
    task = msgspec.convert(options.expected_task(meant, "warm"), Task)
    return base_environment(os.environ, task) | FORCED | room()


def _start(
    place: Path, modules: list[str], environment: dict[str, str], idle_s: float, *, json: bool
) -> int:
    if (told := _told(place)) is not None:
        raise Stopped(
            f"there is one already, with pid {told.pid}.",
            fix="End it first: holdfast warm --stop",
            code=exitcodes.TRY_AGAIN,
        )
    try:
        private_folder(place)
        if why := why_not_private(place, os.getuid()):
            raise Stopped(f"{why}.", fix="Remove it, or set HOLDFAST_WARM_DIR to another one.")
        log = (place / LOG).open("wb")
    except OSError as error:
        raise Stopped(f"{place}: {error.strerror}.", fix="Set HOLDFAST_WARM_DIR.") from error
    with log:
        process = subprocess.Popen(
            [sys.executable, "-c", BOOT, str(place), str(idle_s), *modules],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
    answer = _first_word(process, place)
    if not isinstance(answer, Taken):
        why = answer.why if isinstance(answer, NotTaken) else "it ended"
        raise Stopped(f"it could not be made: {why}.", fix=f"Its log: {place / LOG}")
    return _status(place, json=json)


def _first_word(process: subprocess.Popen[bytes], place: Path) -> Answer | None:
    """What it says once it has imported everything; on Ctrl-C there is none."""
    assert process.stdout is not None
    try:
        with process.stdout as said:
            line = said.readline()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if not line:
        process.wait()
        return None
    process.returncode = 0  # it goes on without us
    word: Answer = msgspec.json.decode(line, type=Answer)
    return word


def _told(place: Path) -> Told | None:
    """What one that is there says of itself. Raises `Stopped` where none can be trusted."""
    try:
        answer = asked(place, Tell())
    except NotForked as error:
        if str(error):
            raise Stopped(f"{error}.", fix="End it: holdfast warm --stop") from error
        return None
    assert isinstance(answer, Told)
    return answer


def _status(place: Path, *, json: bool) -> int:
    told = _told(place)
    if json:
        as_json({"there": told is not None, **(msgspec.to_builtins(told) if told else {})})
    elif told is None:
        say("none is there. Start one: holdfast warm")
    else:
        _show(told)
    return exitcodes.OK


def _show(told: Told) -> None:
    what = f"torch {told.torch}" if told.torch else "no torch: it is not installed"
    left_s = max(0.0, told.ends_after_s - told.idle_s)
    say(f"pid {told.pid}: {what}, {plural(told.modules, 'module')}, {told.python}")
    say(f"{plural(told.taken, 'node')} came from it; without another it ends in {left_s:.0f} s")
    if told.stale:
        say(f"no run takes it any more: {told.stale}. End it, and start another: --stop")
    for why in told.refused:
        say(f"not taken: {why}")


def _stop(place: Path, *, json: bool) -> int:
    told = _told(place)
    if told is None:
        with suppress(OSError):
            (place / SOCKET).unlink()
    else:
        _end(place, told.pid)
    if json:
        as_json({"ended": told.pid if told else None})
    else:
        say(f"pid {told.pid} has ended" if told else "none was there")
    return exitcodes.OK


def _end(place: Path, pid: int) -> None:
    handle = os.pidfd_open(pid)
    try:
        with suppress(NotForked):
            asked(place, End())
        if not select.select([handle], [], [], ENDS_WITHIN_S)[0]:
            raise Stopped(f"pid {pid} does not end.", fix=f"kill -9 {pid}")
    finally:
        os.close(handle)
