"""Starts, asks and ends the fork server of this machine.

Called by the command `warm`. What is imported, compared and forked is the executor's and the
keeper's (`executor.forkserver`, `keeper.warmed`).
"""

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.cli.errors import Stopped
from holdfast.cli.output import as_json, say
from holdfast.cli.run import options
from holdfast.cli.run.torchrun import ranks_of
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
    *("holdfast.keeper.host", "holdfast.executor.process"),
    *("holdfast.telemetry.hooks", "holdfast.executor.launcher.rendezvous"),
    *("torch", "torch.nn", "torch.distributed", "torch.optim", "torch._dynamo"),
)
"""What nearly every script needs; the last one comes with the first optimizer."""
ENDS_WITHIN_S = 5.0


def _place() -> Path:
    return folder(os.environ, os.getuid())


def _modules(script: str) -> list[str]:
    if not script:
        return [*MODULES]
    options.command_of([script])
    return list(dict.fromkeys((*MODULES, *modules_of(script=script, workdir=os.getcwd()))))


def _environment(ranks: str) -> dict[str, str]:
    """That of the launchers of such a run."""
    each = ranks_of(ranks, options.gpus, "-n") if ranks else options.gpus() or 1
    meant = options.Options(command=(sys.executable, "-"), ranks=each)
    task = msgspec.convert(options.expected_task(meant, "warm"), Task)
    return base_environment(os.environ, task) | FORCED | room()


def start(script: str, ranks: str, idle_s: float, *, json: bool) -> int:
    """Have one, that has imported all it is to import; an exit code. Raises `Stopped`."""
    place, modules, environment = _place(), _modules(script), _environment(ranks)
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
    return status(json=json)


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


def status(*, json: bool) -> int:
    """Say what is there; an exit code."""
    told = _told(_place())
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


def stop(*, json: bool) -> int:
    """End it, where one is there; an exit code. Raises `Stopped` where it does not end."""
    place = _place()
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
