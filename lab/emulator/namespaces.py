"""Linux namespaces by system call: make, enter, mount. And which of them this user may have.

Used by the emulator's main and its nodes. Python 3.11 has no `os.unshare`, hence ctypes.
"""

import ctypes
import os
import shutil
import subprocess
from enum import StrEnum
from pathlib import Path

NEW_MOUNT = 0x00020000  # CLONE_NEW… of sched.h
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PID = 0x20000000
NEW_NET = 0x40000000

MS_NODEV, MS_NOSUID, MS_NOEXEC = 4, 2, 8  # mount(2)
MS_BIND, MS_REC, MS_PRIVATE = 4_096, 16_384, 1 << 18
MS_RDONLY, MS_REMOUNT = 1, 32
MNT_DETACH = 2

NODE = NEW_NET | NEW_MOUNT | NEW_PID | NEW_IPC
"""What each node has of its own."""


class Kind(StrEnum):
    """What emulated nodes are made of, best first."""

    ROOT = "root"
    USER = "user namespace"
    LOOPBACK = "loopback"


class Missing(Exception):
    """This machine cannot give what was asked; the message says what to install or change."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones. Raises `OSError`."""
    if _libc().unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, f"unshare({flags:#x}): {os.strerror(number)}")


def enter(pid: int, *kinds: str) -> None:
    """Enter these namespaces (`user`, `net`, …) of `pid`. Raises `OSError`."""
    handles = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    for handle in handles:
        if _libc().setns(handle, 0):
            number = ctypes.get_errno()
            raise OSError(number, f"setns to those of {pid}: {os.strerror(number)}")
        os.close(handle)


def mount(source: str, target: Path, kind: str, flags: int = 0, options: str = "") -> None:
    """mount(2). Raises `OSError` naming the target."""
    done = _libc().mount(
        source.encode(), os.fsencode(target), kind.encode(), flags, options.encode()
    )
    if done:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind} on {target}: {os.strerror(number)}")


def unmount(target: Path) -> None:
    """umount2(2), at once even where it is in use (MNT_DETACH). Raises `OSError`."""
    if _libc().umount2(os.fsencode(target), MNT_DETACH):
        number = ctypes.get_errno()
        raise OSError(number, f"unmount {target}: {os.strerror(number)}")


def become_user_root() -> None:
    """Enter a new user namespace in which we are root and own what we make from now on."""
    uid, gid = os.getuid(), os.getgid()
    unshare(NEW_USER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def best_kind() -> tuple[Kind, str]:
    """The best kind of node that can be had here, and why not a better one.

    Raises `Missing` where a tool is not installed. Tried in a child, so that nothing remains.
    """
    for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(tool, path=search_path()) is None:
            raise Missing(f"`{tool}` is not installed. Install the package {package}.")
    wanted = Kind.ROOT if os.geteuid() == 0 else Kind.USER
    refusal = _try(wanted)
    if refusal and wanted is Kind.ROOT:
        wanted, first = Kind.USER, refusal
        refusal = _try(wanted)
        refusal = refusal and f"{first}; {refusal}"
    return (Kind.LOOPBACK, refusal) if refusal else (wanted, "")


def search_path() -> str:
    """PATH with the folders in which `ip` may be for ordinary users."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def enter_new(kind: Kind) -> None:
    """Leave this process's network (and user) namespace for new ones: the switch's."""
    if kind is Kind.USER:
        become_user_root()
    unshare(NEW_NET)


def _try(kind: Kind) -> str:
    """Why nodes of this kind cannot be had, "" where they can."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, _attempt(kind).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as said:
        refusal = said.read()
    os.waitpid(child, 0)
    return refusal


def _attempt(kind: Kind) -> str:
    try:
        enter_new(kind)
        unshare(NODE)
        ip(["link add s0 type veth peer name e0", "link add b0 type bridge"])
    except (OSError, subprocess.CalledProcessError) as error:
        return str(error)
    return ""


def ip(lines: list[str]) -> None:
    """Run `ip` commands in this network namespace, all in one process.

    Raises `CalledProcessError`; its message has what `ip` said.
    """
    done = subprocess.run(
        ["ip", "-batch", "-"],
        check=False,
        input="\n".join(lines),
        text=True,
        capture_output=True,
        env=os.environ | {"PATH": search_path()},
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, f"ip: {done.stderr.strip()}")
