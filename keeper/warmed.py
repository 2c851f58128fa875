"""Processes from the fork server of this machine (`holdfast warm`), where there is one.

Called by `factory` for a node's host, by `cli.pair` for driver and keeper, in place of a start; by
`holdfast warm` itself to ask and to end it. Must not fail one: whatever is wrong, there is none.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.kit.surroundings import surroundings
from holdfast.protocol.forkserving import (
    MAX_PACKET_BYTES,
    SOCKET,
    Answer,
    Asked,
    Node,
    NotTaken,
    Process,
    Program,
    Taken,
    folder,
    why_not_private,
)
from holdfast.protocol.messages import Task
from holdfast.protocol.nodeenv import EXPECTED_TASK
from holdfast.protocol.rankenv import base_environment

ANSWERS_IN_S = 2.0
"""A fork takes some ms. One that is stopped, or busy, is done without."""


class NotForked(Exception):
    """Nothing came of it; the message says why, and is empty where there is no server."""


class Asker:
    """Asks until nothing comes of it: what holds for one holds for the next, and a server that
    stands still is waited for once.
    """

    def __init__(self) -> None:
        self._asks = True

    def host(self, host: Program, executor: Program, marks: Mapping[str, str]) -> int | None:
        """The pid of a host that runs, its executor and a warm launcher below it; None: start one.

        The server keeps why not, and `holdfast warm --status` tells it.
        """
        if (imports := imports_of(executor.environment)) is None:
            return None
        return self._forked(Node, imports, marks, host=host, executor=executor)

    def process(
        self,
        program: Program,
        *,
        imports: Mapping[str, str],
        marks: Mapping[str, str],
        lifeline: int,
    ) -> int | None:
        """The pid of a process of ours that ends with `lifeline`; None: start one."""
        fields = {"program": program, "lifeline": lifeline}
        return self._forked(Process, imports, marks, lifeline, **fields)

    def _forked(
        self,
        kind: type[Node | Process],
        imports: Mapping[str, str],
        marks: Mapping[str, str],
        *fds: int,
        **fields: Any,
    ) -> int | None:
        if not self._asks:
            return None
        try:
            wanted = kind(**fields, **_alike(imports, marks))
            answer = asked(folder(os.environ, os.getuid()), wanted, *fds)
        except (NotForked, OSError):  # OSError: of a folder that is gone, say
            answer = NotTaken(why="")
        self._asks = isinstance(answer, Taken)
        return answer.pid if isinstance(answer, Taken) else None


def imports_of(environment: Mapping[str, str]) -> dict[str, str] | None:
    """The environment in which a launcher of the expected task imports; None: none is expected."""
    try:
        task = msgspec.json.decode(environment.get(EXPECTED_TASK, ""), type=Task)
    except msgspec.DecodeError:  # the executor says what is wrong with it
        return None
    return base_environment(environment, task)


def _alike(imports: Mapping[str, str], marks: Mapping[str, str]) -> dict[str, Any]:
    return {
        "imports": dict(imports),
        "surroundings": surroundings(),
        "marks": dict(marks),
        "workdir": os.getcwd(),
        "umask": _umask(),
    }


def asked(place: Path, question: Asked, *fds: int) -> Answer:
    """What the fork server there says. Raises `NotForked`."""
    uid = os.getuid()
    try:
        why = why_not_private(place, uid)
    except FileNotFoundError:
        raise NotForked from None
    if why:
        raise NotForked(why)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.settimeout(ANSWERS_IN_S)
        try:
            link.connect(str(place / SOCKET))
            socket.send_fds(link, [msgspec.json.encode(question)], fds)
            said = link.recv(MAX_PACKET_BYTES)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotForked from None
        except OSError as error:
            raise NotForked(f"the fork server does not answer: {error}") from error
        if not said:
            raise NotForked("the fork server ended")
    try:
        answer: Answer = msgspec.json.decode(said, type=Answer)
    except msgspec.DecodeError as error:
        raise NotForked(f"the fork server is of another version: {error}") from error
    return answer


def _umask() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
