"""What is said to the fork server of this machine (`holdfast warm`), and where it listens. Pure.

JSON, one message a packet of a SOCK_SEQPACKET socket, in a folder that is its user's alone. Asked
by the keeper for a node, and by the command line.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

FOLDER = "HOLDFAST_WARM_DIR"
"""Names another folder for the socket; it must be private."""
RUNTIME, TEMPORARY = Path("/run/user"), Path("/tmp")
SOCKET, LOCK, LOG = "warm.sock", "warm.lock", "warm.log"

MARKS_HERE = "HOLDFAST_WARM"
"""A variable of the fork server alone: its place in memory is where a launcher's marks go."""
MARKS_BYTES = 512

MAX_PACKET_BYTES = 1 << 20


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What a process becomes: `module`, as `python -m` runs it, with exactly this environment.

    `title` is its name, of 15 bytes at most; `log` takes what it prints.
    """

    module: str
    title: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    log: str


class Alike(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be as it is in the fork server, and what is set anew.

    `imports`: the environment in which a launcher of the run would import. `surroundings`: see
    `kit.surroundings`. `marks`: variables by which a sweep tells whose a process is.
    """

    imports: dict[str, str]
    surroundings: dict[str, str]
    marks: dict[str, str]
    workdir: str
    umask: int


class Node(Alike, frozen=True, kw_only=True, tag=True):
    """Have a node: its host, below it its executor, below that a launcher that is warm."""

    host: Program
    executor: Program


class Process(Alike, frozen=True, kw_only=True, tag=True):
    """Have a process. Its lifeline comes with the packet, and has the number `lifeline` there."""

    program: Program
    lifeline: int


class Tell(msgspec.Struct, frozen=True, tag=True):
    """Say what you are."""


class End(msgspec.Struct, frozen=True, tag=True):
    """End. The nodes that came from here go on."""


class Taken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The pid of the host, or of the process; it is no child of who asked."""

    pid: int


class NotTaken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Nothing was started: who asked starts its own."""

    why: str


class Told(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What it is, and what became of those that asked, the newest last."""

    pid: int
    python: str
    torch: str
    modules: int
    idle_s: float
    ends_after_s: float
    taken: int
    refused: tuple[str, ...] = ()
    stale: str = ""  # why nobody gets anything of it any more


Asked = Node | Process | Tell | End
Answer = Taken | NotTaken | Told


def folder(environment: Mapping[str, str], uid: int) -> Path:
    """Where its socket is: not by a variable of the session, for cron has none."""
    if given := environment.get(FOLDER):
        return Path(given)
    runtime = RUNTIME / str(uid)
    return runtime / "holdfast" if runtime.is_dir() else TEMPORARY / f"holdfast-{uid}"


def why_not_private(place: Path, uid: int) -> str:
    """Why nothing that lies in this folder can be trusted, or ""."""
    found = os.lstat(place)
    if found.st_uid != uid:
        return f"{place} belongs to another user"
    if found.st_mode & 0o170077 != 0o040000:
        return f"{place} is not a folder of mode 0700"
    return ""
