"""A node's host from the fork server of this machine (`holdfast warm`), where there is one.

Called by `factory` in place of a start. Must not fail one: whatever is wrong, there is none.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.kit.logs import LazyLogger
from holdfast.kit.surroundings import surroundings
from holdfast.protocol.forkserving import (
    MAX_PACKET_BYTES,
    SOCKET,
    Answer,
    Asked,
    Node,
    NotTaken,
    Start,
    Taken,
    folder,
    why_not_private,
)
from holdfast.protocol.messages import Task
from holdfast.protocol.nodeenv import EXPECTED_TASK
from holdfast.protocol.rankenv import base_environment

ANSWERS_IN_S = 2.0
"""A fork takes some ms. One that is stopped, or busy, is done without."""

log = LazyLogger()


class NoServer(Exception):
    """None can be asked; the message says why, and is empty where none was to be expected."""


def host(host: Start, executor: Start, marks: Mapping[str, str]) -> int | None:
    """The pid of a host that runs, its executor and a warm launcher below it; None: start one."""
    text = executor.environment.get(EXPECTED_TASK)
    if not text:
        return None
    task = msgspec.json.decode(text, type=Task)
    node = Node(
        host=host,
        executor=executor,
        imports=base_environment(executor.environment, task),
        surroundings=surroundings(),
        marks=dict(marks),
        workdir=os.getcwd(),
        umask=_umask(),
    )
    try:
        answer = asked(folder(os.environ, os.getuid()), node)
    except NoServer as error:
        if str(error):
            log.warning("no warm launcher", why=str(error))
        return None
    if isinstance(answer, Taken):
        log.info("a node came from the fork server", host=answer.pid)
        return answer.pid
    assert isinstance(answer, NotTaken)
    log.info("the warm launcher is not taken", why=answer.why)
    return None


def asked(place: Path, question: Asked) -> Answer:
    """What the fork server there says. Raises `NoServer`."""
    uid = os.getuid()
    try:
        why = why_not_private(place, uid)
    except FileNotFoundError:
        raise NoServer from None
    if why:
        raise NoServer(why)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.settimeout(ANSWERS_IN_S)
        try:
            link.connect(str(place / SOCKET))
            link.send(msgspec.json.encode(question))
            said = link.recv(MAX_PACKET_BYTES)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NoServer from None
        except OSError as error:
            raise NoServer(f"the fork server does not answer: {error}") from error
        if not said:
            raise NoServer("the fork server ended")
    answer: Answer = msgspec.json.decode(said, type=Answer)
    return answer


def _umask() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
