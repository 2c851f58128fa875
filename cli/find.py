"""Where the driver is, or where a run's state lies: options, then HOLDFAST_STATE, then ./runs.

Called by every command that asks about jobs. Must not start anything or write anywhere.
"""

import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.client import Client
from holdfast.cli.errors import Stopped, not_reachable, not_readable
from holdfast.keeper.state import socket_path
from holdfast.kit.files import listens_at
from holdfast.kit.tls import ca_in
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""What a driver binds to that listens everywhere, and where it is found then."""

BACK_S = 5.0
"""How long a driver that is away is waited for; one that was killed is back after about 1 s."""
LOOK_S = 0.05

RUNS = Path("runs")
"""Folder of `holdfast run`'s runs, below where it was typed."""


@dataclass(frozen=True)
class Target:
    """What was asked for: `--driver`, `--state`, or neither; and about which job."""

    url: str | None = None
    state: Path | None = None
    job: str | None = None

    @property
    def is_guessed(self) -> bool:
        """Whether the folder is looked for among the runs below ./runs."""
        return not (self.url or self.state or os.environ.get("HOLDFAST_STATE"))


def client(target: Target) -> Client:
    """A client of the driver that is meant. Raises `Stopped` (69 or 78) where there is none."""
    root = state_folder(target, alive=True)
    if target.url:
        ca = _ca(root)
        return Client(target.url, _token(root, target.url, ca), ca=ca)
    if root is None:
        raise _nobody_here()
    url = awaited(root)
    if url is None:
        raise _without_driver(root, target)
    return Client(url, _token(root), ca=_ca(root))


def _nobody_here() -> Stopped:
    """Where no folder was named and nothing is alive: what was meant may be a run that is over."""
    over = next(iter(runs()), None)
    if over is None:
        fix = "Start one: holdfast driver --state DIR (or name it: --state DIR, --driver URL)"
        return not_reachable("no driver is running here, and there is no run under ./runs.", fix)
    fix = f"{_became(over.name)} (a driver elsewhere: --state DIR, --driver URL)"
    return not_reachable(f"no run under ./runs is alive: the newest, {over.name}, is over.", fix)


def _without_driver(root: Path, target: Target) -> Stopped:
    if _is_run(root):
        meant = root.name if target.is_guessed else f"--state {root}"
        return not_reachable(f"the run {root.name} is over.", _became(meant))
    again = "Start it again" if RunPaths(root).journal.exists() else "Start one"
    return not_reachable(
        f"no driver is running on {root}.", f"{again}: holdfast driver --state {root}"
    )


def _is_run(root: Path) -> bool:
    """Whether `holdfast run` made it: its driver and nodes end with it, and are not started again
    by hand."""
    paths = RunPaths(root)
    return paths.journal.exists() and paths.driver_log.exists()


def _became(meant: str) -> str:
    return f"What became of it: holdfast status {meant}"


def state_folder(target: Target, *, alive: bool) -> Path | None:
    """The state folder that is meant: of the run that has the job's name, else a guess; with
    `alive`, only a run that lives is guessed.
    """
    if target.state is not None:
        return target.state
    if given := os.environ.get("HOLDFAST_STATE"):
        return Path(given)
    if target.url:
        return None
    found = runs()
    if named := [root for root in found if root.name == target.job]:
        return named[0]
    live = (root for root in found if lives(root))
    return next(live, None) or (None if alive else next(iter(found), None))


def address(root: Path) -> str | None:
    """The address of the driver that runs on `root`, whoever runs it; None if none does.

    Raises `Stopped` (78) where this user may not look.
    """
    try:
        told = json.loads(RunPaths(root).address.read_bytes())
        with suppress(PermissionError):  # it is another user's, and alive
            os.kill(int(told["pid"]), 0)
        return _reached(str(told["http"]))
    except PermissionError as error:
        raise not_readable(RunPaths(root).address, error) from error
    except (OSError, ValueError, KeyError):
        return None


def lives(root: Path) -> bool:
    """Whether anything of it runs: its driver, or its nodes, whose driver is started again."""
    return address(root) is not None or _has_nodes(root)


def awaited(root: Path) -> str | None:
    """As `address`. A driver that is away while its nodes live comes back: it is waited for.

    Raises `Stopped` (69) where it does not come in time.
    """
    deadline_s, pause = time.monotonic() + BACK_S, threading.Event()
    while (url := address(root)) is None and _has_nodes(root):
        if time.monotonic() > deadline_s:
            raise not_reachable(
                f"the driver on {root} is away and is being started again; "
                "its nodes and their ranks run on meanwhile.",
                f"Ask again in a moment. Its log: {RunPaths(root).driver_log}",
            )
        pause.wait(LOOK_S)
    return url


def _has_nodes(root: Path) -> bool:
    """Whether a keeper of this machine looks after nodes of that driver."""
    return listens_at(socket_path(root))


def here_alone(target: Target) -> bool:
    """Whether the nodes of the driver at this state folder are surely of this machine, with its
    folders. One that listens at all addresses may have nodes elsewhere, as in containers.
    """
    root = state_folder(target, alive=True)
    try:
        told = json.loads(RunPaths(root).address.read_bytes()) if root else {}
        return not any(all_of in str(told["http"]) for all_of in ALL_ADDRESSES)
    except (OSError, ValueError, KeyError):
        return True  # no driver, or not ours: whoever asks it next says so


def _reached(url: str) -> str:
    """Where a driver of this machine is reached: nobody connects to "all addresses"."""
    for all_of, one in ALL_ADDRESSES.items():
        url = url.replace(f"//{all_of}:", f"//{one}:")
    return url


def runs(folder: Path = RUNS) -> list[Path]:
    """Runs below `folder` that have a journal that this user may read, newest first."""
    found = (RunPaths(run).journal for run in folder.glob("*") if not run.is_symlink())
    journals = [journal for journal in found if os.access(journal, os.R_OK)]
    newest = sorted(journals, key=lambda journal: journal.stat().st_mtime, reverse=True)
    return [journal.parent for journal in newest]


def _ca(root: Path | None) -> str:
    """PEM of the CA in HOLDFAST_CA, else in the state folder, else "": this machine's own.

    Raises `Stopped` where there is none in the file.
    """
    given = os.environ.get("HOLDFAST_CA")
    path = Path(given) if given else root and RunPaths(root).ca
    if path is None:
        return ""
    try:
        return ca_in(path)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not given:
            return ""
        raise not_readable(path, error) from error
    except ValueError as error:
        raise Stopped(
            f"{path} is not the certificate of a CA in PEM.",
            fix="Set HOLDFAST_CA to a copy of ca.crt in the driver's folder.",
            code=exitcodes.CONFIGURATION,
        ) from error


def _token(root: Path | None, url: str = "", ca: str = "") -> str:
    """Of the environment, else of the state folder. Raises `Stopped` where there is none."""
    if given := os.environ.get("HOLDFAST_TOKEN"):
        return given
    if root is None:
        Client(url, "", ca=ca).get("/healthz")  # needs no token: is anybody there?
        raise Stopped(
            f"no token for the driver at {url}: neither --state nor HOLDFAST_STATE names its "
            "folder, whose tokens/user would be read.",
            fix="Set HOLDFAST_TOKEN (on Kubernetes to what `kubectl create token NAME` prints), "
            "or name its state folder with --state DIR.",
            code=exitcodes.CONFIGURATION,
        )
    try:
        return RunPaths(root).user_token.read_text().strip()
    except OSError as error:
        raise not_readable(RunPaths(root).user_token, error) from error
