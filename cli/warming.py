"""Starts, asks and ends the fork server of this machine.

Called by the command `warm`. What is imported, compared and forked is the executor's and the
keeper's (`executor.forkserver`, `keeper.warmed`).
"""

import fcntl
import os
import select
import signal
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
    LOCK,
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

THREADS_DIFFER = (
    " (ranks have it from -n, unless you set it: begin this one with the -n of your runs)"
)


def _place() -> Path:
    return folder(os.environ, os.getuid()).absolute()  # the server's working directory is /


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
        _check(place)
        log = (place / LOG).open("wb")
    except OSError as error:
        fix = "Name another one: HOLDFAST_WARM_DIR."
        why = f"{place}: {error.strerror}."
        raise Stopped(why, fix=fix, code=exitcodes.CONFIGURATION) from error
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
        _check(place)
        answer = asked(place, Tell())
    except FileNotFoundError:
        return None
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
        say(_why_none(_place()))
    else:
        _show(told)
    return exitcodes.OK


def _why_none(place: Path) -> str:
    try:
        pid = _holder(place)
    except (FileNotFoundError, ValueError):
        pid = None
    if pid is not None:
        return f"pid {pid} does not answer yet: it still imports, or hangs (--stop ends it)"
    return "none is there. Start one: holdfast warm"


def _show(told: Told) -> None:
    what = f"torch {told.torch}" if told.torch else "no torch: it is not installed"
    left_s = max(0.0, told.ends_after_s - told.idle_s)
    say(f"pid {told.pid}: {what}, {plural(told.modules, 'module')}, {told.python}")
    say(f"{plural(told.taken, 'node')} came from it; without another it ends in {left_s:.0f} s")
    if told.stale:
        say(f"no run takes it any more: {told.stale}. End it, and start another: --stop")
    for why in told.refused:
        say(f"not taken: {why}{THREADS_DIFFER if 'OMP_NUM_THREADS' in why else ''}")


def stop(*, json: bool) -> int:
    """End it, where one is there, also one that hangs or still imports; an exit code."""
    place = _place()
    try:
        pid = _holder(place)
    except FileNotFoundError:
        pid = None
    if pid is not None:
        _end(place, pid)
    with suppress(OSError):
        (place / SOCKET).unlink()
    if json:
        as_json({"ended": pid})
    else:
        say("none was there" if pid is None else f"pid {pid} has ended")
    return exitcodes.OK


def _holder(place: Path) -> int | None:
    """The pid of whoever holds the lock; None where nobody does. Raises `Stopped`, `OSError`."""
    _check(place)
    with (place / LOCK).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = int(lock.read())
            if not _has_open(pid, os.fstat(lock.fileno())):
                fix = "End it from where it was started."
                raise Stopped(
                    f"it is of another container, with pid {pid} there.", fix=fix
                ) from None
            return pid
    return None


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Whether it is our process: that of another container, which shares this folder, has a number
    that here may be anybody's.
    """
    try:
        with os.scandir(f"/proc/{pid}/fd") as descriptors:
            return any(_is(descriptor, file) for descriptor in descriptors)
    except OSError:
        return False


def _is(descriptor: os.DirEntry[str], file: os.stat_result) -> bool:
    with suppress(OSError):
        return os.path.samestat(descriptor.stat(), file)
    return False


def _end(place: Path, pid: int) -> None:
    """Ask it to; one that does not is killed: it has nothing that it could lose."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with suppress(NotForked):
        asked(place, End())
    if not select.select([handle], [], [], ENDS_WITHIN_S)[0]:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [], ENDS_WITHIN_S)
    os.close(handle)


def _check(place: Path) -> None:
    """Raises `Stopped` where nothing there can be trusted, `FileNotFoundError` where it is not."""
    if why := why_not_private(place, os.getuid()):
        fix = "Name another one: HOLDFAST_WARM_DIR."
        raise Stopped(f"{why}.", fix=fix, code=exitcodes.CONFIGURATION)
