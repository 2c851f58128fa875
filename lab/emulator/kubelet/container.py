"""One container: a process with PIDs, mounts and shared memory of its own inside a node.

Used by the runtime, whose child it becomes. Its root is the machine's own file system, for there
are no images here; what is private is /proc, /run, /dev/shm and its volumes, and what programs of
Holdfast need is seen through every volume above it. Must leave nothing in that root: a mount point
that is not there can only be had below /run.
"""

import contextlib
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import holdfast
from holdfast.keeper import processes
from holdfast.lab.emulator import namespaces
from holdfast.lab.emulator.kubelet.orders import Mount, Start

OWN = namespaces.NEW_MOUNT | namespaces.NEW_PID | namespaces.NEW_IPC
QUIET = namespaces.MS_NODEV | namespaces.MS_NOSUID
SHARED_MEMORY_MIB = 64
"""Of a container that mounts nothing at /dev/shm, as container runtimes have it."""

PID, WHY = "pid", "why"
"""How lines begin that forked children say to the runtime."""

OURS = Path(holdfast.__path__[0]).resolve().parents[1]
PROGRAMS = (Path(sys.base_prefix), Path(sys.prefix), OURS)
"""Where Python, its libraries and Holdfast are: a checkout in /tmp, too, runs pods with a /tmp."""


class CannotStart(Exception):
    """The container could not be started; the message says why."""


def launch(order: Start, shown: list[Mount], group: Path | None) -> int:
    """Start it; the pid of its init in the caller's PID namespace. Raises `CannotStart`.

    The caller has to be a subreaper: whoever made the namespaces is gone when this returns.
    `shown`: what of the node it sees in the machine's place, so far as both have it. `group`: its
    memory cgroup.
    """
    log = Path(order.log)
    log.parent.mkdir(parents=True, exist_ok=True)
    hears, says = os.pipe2(os.O_CLOEXEC)
    outer = os.fork()
    if outer == 0:
        _never_returning(lambda: _make(order, shown, group, says), says)
    os.close(says)
    with os.fdopen(hears) as said:
        pid, refusal = told(said.read())
    os.waitpid(outer, 0)
    if refusal or not pid:
        with contextlib.suppress(ChildProcessError):
            if pid:
                os.waitpid(pid, 0)
        raise CannotStart(refusal or "its namespaces could not be made")
    return pid


def told(said: str) -> tuple[int, str]:
    """Pid of the container's init and why it cannot run, 0 and "" where that was not said.

    Each is a line of its own: an init may have failed before whoever forked it has told its pid.
    """
    lines = dict(line.split(" ", 1) for line in said.splitlines())
    return int(lines.get(PID, 0)), lines.get(WHY, "")


def execute(init: int, argv: list[str], environment: dict[str, str]) -> int:
    """Run a command inside the container with this init; the pid of a child with its exit code."""
    outer = os.fork()
    if outer == 0:
        _never_returning(lambda: _join(init, argv, environment), os.open(os.devnull, os.O_WRONLY))
    return outer


def _join(init: int, argv: list[str], environment: dict[str, str]) -> None:
    namespaces.enter(init, "pid", "mnt", "ipc")
    inner = os.fork()
    if inner == 0:
        processes.die_with_parent()
        reset_signals()
        os.execvpe(argv[0], argv, environment)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 0xFF)


def _make(order: Start, shown: list[Mount], group: Path | None, says: int) -> None:
    namespaces.unshare(OWN)
    init = os.fork()
    if init:
        os.write(says, f"{PID} {init}\n".encode())
        os._exit(0)
    if group is not None:
        (group / "cgroup.procs").write_text("0")
    _become(order, shown)


def _become(order: Start, shown: list[Mount]) -> None:
    os.setsid()
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in (1, 2):
        os.dup2(log, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with contextlib.suppress(OSError):  # below that of whoever started the node, without the right
        Path("/proc/self/oom_score_adj").write_text(str(order.oom_score_adj), encoding="ascii")
    _mount_own(order.mounts, shown)
    if order.cwd:
        os.chdir(order.cwd)
    reset_signals()
    try:
        os.execvpe(order.argv[0], order.argv, order.environment)
    except OSError as error:
        raise CannotStart(f"command: {order.argv[0]!r} cannot be run: {error.strerror}") from error


def _mount_own(mounts: list[Mount], shown: list[Mount]) -> None:
    """Private mounts, the outer before the inner ones."""
    bind = namespaces.MS_BIND | namespaces.MS_REC
    namespaces.mount("none", Path("/"), "", namespaces.MS_REC | namespaces.MS_PRIVATE)
    namespaces.mount("proc", Path("/proc"), "proc", QUIET | namespaces.MS_NOEXEC)
    namespaces.mount("holdfast", Path("/run"), "tmpfs", QUIET, "mode=755")
    namespaces.mount(
        "holdfast", Path("/dev/shm"), "tmpfs", QUIET, f"size={SHARED_MEMORY_MIB}m,mode=1777"
    )
    for mount in shown:
        if Path(mount.source).exists() and Path(mount.target).exists():
            namespaces.mount(mount.source, Path(mount.target), "", bind)
    ordered = sorted(mounts, key=lambda mount: mount.target)
    opened = [os.open(mount.source, os.O_PATH) for mount in ordered]  # one may cover the others
    programs = [(path, os.open(path, os.O_PATH)) for path in PROGRAMS]
    for mount, source in zip(ordered, opened, strict=True):
        target = _mount_point(mount.target, folder=stat.S_ISDIR(os.fstat(source).st_mode))
        namespaces.mount(f"/proc/self/fd/{source}", target, "", bind)
        for path, program in programs:
            if target in path.parents:
                path.mkdir(parents=True, exist_ok=True)
                namespaces.mount(f"/proc/self/fd/{program}", path, "", bind)
        if mount.read_only:
            flags = namespaces.MS_BIND | namespaces.MS_REMOUNT | namespaces.MS_RDONLY | QUIET
            namespaces.mount("none", target, "", flags)


def _mount_point(path: str, *, folder: bool) -> Path:
    """Where to mount, made below /run where it is not there. Raises `CannotStart`."""
    target = Path(path).resolve()
    if target.exists():
        return target
    if not target.is_relative_to("/run"):
        raise CannotStart(
            f"mountPath: {path} is not on this machine, whose root an emulated node has. "
            "Mount below /run, or at a folder that is there."
        )
    if folder:
        target.mkdir(parents=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    return target


def reset_signals() -> None:
    """Signals as a new process expects them: Python ignores some, the runtime handles some."""
    for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _never_returning(run: Callable[[], None], says: int) -> None:
    """Call `run` in a forked child; whatever it raises is said, and the child ends."""
    try:
        signal.set_wakeup_fd(-1)
        run()
    except BaseException as error:  # noqa: BLE001 - a forked child must never go on as its parent
        why = " ".join((str(error) or repr(error)).split())
        os.write(says, f"{WHY} {why}\n".encode())
    os._exit(127)
