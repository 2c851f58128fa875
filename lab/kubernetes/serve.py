"""A control plane that a person has on this machine: up until told to end, kubectl meanwhile.

Called by `holdfast lab kubernetes`. Its folder says which process has it; at the end it is removed.
"""

import json
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from holdfast.keeper.processes import start_ticks
from holdfast.lab.kubernetes import kubectl as client
from holdfast.lab.kubernetes.build import BuildFailed, NotHere, build
from holdfast.lab.kubernetes.plane import ControlPlane, NotReady

FAILURES = (NotHere, BuildFailed, NotReady)
OWNER = "owner.json"
LOOK_S = 0.5
ENDS_WITHIN_S = 30.0


class Misplaced(Exception):
    """The folder is not what the command needs; the message says what to do."""


def up(folder: Path) -> int:
    """Build if need be, start, and stay until Ctrl-C, SIGTERM or `down`.

    Raises `Misplaced` where the folder has something else, and one of FAILURES.
    """
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    signal.signal(signal.SIGINT, lambda *_: over.set())
    _taken(folder)
    build(_say)
    with ControlPlane(folder) as plane:
        _say(f"Kubernetes is up at {plane.url}; Ctrl-C or `down` ends it")
        sys.stdout.write(f"export KUBECONFIG={plane.admin}\n")
        sys.stdout.flush()
        while not over.wait(LOOK_S):
            plane.check()
    shutil.rmtree(folder)
    return 0


def down(folder: Path) -> int:
    """End the control plane of `folder`, and wait until it has ended. Raises `Misplaced`."""
    owner = _owner(folder)
    if owner is None:
        raise Misplaced(f"no control plane runs in {folder}.")
    watched = os.pidfd_open(owner)
    try:
        signal.pidfd_send_signal(watched, signal.SIGTERM)
        if not select.select([watched], [], [], ENDS_WITHIN_S)[0]:
            raise NotReady(f"process {owner} has not ended within {ENDS_WITHIN_S:g} s.")
    finally:
        os.close(watched)
    return 0


def kubectl(folder: Path, arguments: Sequence[str]) -> NoReturn:
    """Become kubectl, as admin of the control plane of `folder`. Raises `Misplaced`, `NotHere`."""
    if _owner(folder) is None:
        raise Misplaced(f"no control plane runs in {folder}.")
    words = client.words(folder.resolve() / "identities" / "admin.yaml", arguments)
    os.execv(words[0], words)


def _taken(folder: Path) -> None:
    """Make the folder ours, without what a killed owner left in it."""
    owner = _owner(folder)
    if owner is not None:
        raise Misplaced(f"process {owner} already runs a control plane in {folder}.")
    if (folder / OWNER).exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise Misplaced(f"{folder} is not empty.")
    me = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}
    (folder / OWNER).write_text(json.dumps(me))


def _owner(folder: Path) -> int | None:
    """The process that runs a control plane there now."""
    try:
        owner = json.loads((folder / OWNER).read_bytes())
    except FileNotFoundError:
        return None
    pid: int = owner["pid"]
    return pid if start_ticks(pid) == owner["start_ticks"] else None


def _say(line: str) -> None:
    sys.stderr.write(f"kubernetes: {line}\n")
