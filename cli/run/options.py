"""What `holdfast run` was asked for, checked before anything is started, and the job made of it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.cli.errors import Stopped, misused
from holdfast.cli.run.findable import why_not
from holdfast.kit.files import private_folder
from holdfast.kit.ids import new_id
from holdfast.protocol import collectives, jobrules
from holdfast.protocol.counts import plural
from holdfast.protocol.paths import RunPaths

NAME_CHARACTERS = 40
"""Longest part of a run's name that comes from the script: the whole is at most 63."""

STORE_EVERY = 50
"""Of a job that says nothing else (`protocol.jobspec`, which is dear to import)."""

NODES_PER_CORE, FEWEST_NODES = 4, 16
"""A node is a few processes besides its ranks; 16 are good for a rehearsal."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """One run. `ranks` is for each node, as torchrun's --nproc-per-node."""

    command: tuple[str, ...]
    ranks: int
    nodes: int = 1
    standbys: int = 0
    max_restarts: int = 3
    grace_s: float = 30.0
    first_step_s: float = 600.0
    pause_max_s: float = 600.0
    stuck_max_s: float | None = None
    store_url: str = ""
    store_every: int | None = None
    keep_every: int = 0
    rendezvous: str = ""  # URL of a Redis
    runs: Path = Path("runs")
    workdir: Path = field(default_factory=Path.cwd)
    quiet: bool = False
    begin_from: str = ""  # a store's URL

    @property
    def world_size(self) -> int:
        return self.ranks * self.nodes


def command_of(
    words: Sequence[str], *, module: bool = False, program: bool = False
) -> tuple[str, ...]:
    """The command that `words` mean: a Python script, a module, or any program (`program`: that).

    Raises `Stopped` (2) with a sentence that names what is not there.
    """
    if not words:
        raise misused("no script was given.", "holdfast run -n 4 train.py --lr 3e-4")
    first, *rest = words
    for word in words:
        _check_text(word)
    if module and program:
        raise misused("-m and --no-python exclude each other.", "Leave out one of them.")
    if module:
        _check_module(first)
        return (sys.executable, "-m", first, *rest)
    if first.endswith(".py") and not program:
        _check_script(first)
        return (sys.executable, first, *rest)
    if re.fullmatch(r"python[\d.]*", Path(first).name) and rest and rest[0].endswith(".py"):
        _check_script(rest[0])
    if first.startswith("-"):
        raise misused(
            f"holdfast run has no option {first!r}.", "Options of the script stand after its name."
        )
    if shutil.which(first) is None:
        raise _no_program(first)
    return (first, *rest)


def _check_text(word: str) -> None:
    """Refuse bytes that are no text: what a job runs is told to people and machines as text."""
    try:
        word.encode()
    except UnicodeEncodeError:
        fix = "Rename the file, or leave that word out."
        raise misused(f"{os.fsencode(word)!r} is not UTF-8.".removeprefix("b"), fix) from None


def _no_program(name: str) -> Stopped:
    """Why it cannot be run, as a shell would not run it, and what to type."""
    here = name if "/" in name else f"./{name}"
    if os.path.isdir(name):
        return _is_folder(name)
    if not os.path.isfile(name):
        return misused(f"{name!r} is neither a script nor a program here.", "Check the path.")
    if not os.access(name, os.X_OK):
        fix = f"chmod +x {name}, and type {here}; or give its interpreter first."
        return misused(f"{name!r} is not executable.", fix)
    why = f"{name!r} lies in this folder, and programs are looked for in PATH alone."
    return misused(why, f"Type {here}")


def _is_folder(name: str) -> Stopped:
    return misused(f"{name!r} is a folder, not a script.", f"Name the script in it: {name}/…")


def _check_module(name: str) -> None:
    if name.endswith(".py"):
        raise misused(f"{name!r} is the name of a file, not of a module.", "Leave out -m.")
    if why := why_not(name):
        raise misused(why, f"It was looked for from {Path.cwd()}, with PYTHONPATH.")


def _check_script(name: str) -> None:
    if os.path.isdir(name):  # Path's raise where a name is too long for a file
        raise _is_folder(name)
    if not os.path.isfile(name):
        raise misused(f"there is no script {name!r} in {Path.cwd()}.", "Check the path.")
    if not os.access(name, os.R_OK):
        raise misused(f"the script {name!r} is not readable.", f"Allow it: chmod +r {name}")


def gpus() -> int:
    """How many GPUs nvidia-smi lists; 0 without it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        listed = subprocess.run(
            [program, "--list-gpus"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def check_nodes(options: Options) -> None:
    """Refuse more nodes than this machine can bear. Raises `Stopped` (2)."""
    cores = os.cpu_count() or 1
    most = max(FEWEST_NODES, NODES_PER_CORE * cores)
    if options.nodes + options.standbys > most:
        raise misused(
            f"{options.nodes + options.standbys} nodes are too many for this machine: at most "
            f"{most}, standbys among them, for its {plural(cores, 'core')}.",
            "Give fewer --nodes, and more ranks on each: -n",
        )


def check_waits(options: Options) -> None:
    """Refuse what contradicts itself. Raises `Stopped` (2)."""
    stuck = jobrules.stuck(stuck_max_s=options.stuck_max_s, pause_max_s=options.pause_max_s)
    if stuck is not None:
        raise misused(
            f"--stuck-max {stuck.value} is longer than --pause-max {options.pause_max_s:g}: "
            f"{jobrules.STUCK}.",
            "Raise --pause-max as well.",
        )


def check_kept(options: Options) -> None:
    """Refuse to keep what is never written. Raises `Stopped` (2)."""
    every = options.store_every
    if every is None:
        every = STORE_EVERY
    if jobrules.kept(keep_every_steps=options.keep_every, store_interval_steps=every) is not None:
        raise misused(
            f"--keep-every {options.keep_every} is no multiple of --store-every {every}: not each "
            "such step is written.",
            f"Give a multiple of {every}." if every else "Give --store-every, too.",
        )


def check_store(options: Options) -> None:
    """Refuse a store that does not take, give back and delete a file. Raises `Stopped` (2)."""
    if not options.store_url:
        return
    from holdfast.checkpoint.stores.trial import wrong_with

    if why := wrong_with(options.store_url):
        raise misused(f"--store-url: {why.removeprefix('storeUrl: ')}")


def check_rendezvous(options: Options) -> None:
    """Refuse a place to meet where nobody answers as a Redis does. Raises `Stopped` (2)."""
    if not options.rendezvous:
        return
    from holdfast.rendezvous.trial import wrong_with

    if why := wrong_with(options.rendezvous):
        raise misused(f"--rendezvous: {why}")


def meets_elsewhere(options: Options) -> str:
    """What to say where ranks do not meet in the Redis by themselves; "" where they do."""
    if not options.rendezvous:
        return ""
    from holdfast.executor.command import python_program

    found = shutil.which(options.command[0]) or options.command[0]
    if python_program(found, options.command, sys.executable) is not None:
        return ""
    from holdfast.protocol.commands import ELSEWHERE

    return f"--rendezvous: what is no script of this Python {ELSEWHERE}."


def new_run(options: Options) -> RunPaths:
    """A folder of its own for this run, `NAME-xxxx`; its name is the job's."""
    stem = _stem(options.command)
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:NAME_CHARACTERS].strip("-")
    name = name if name[:1].isalpha() else f"run-{name}".rstrip("-")
    while True:
        root = options.runs.absolute() / new_id(name, length_bytes=2)
        try:
            private_folder(root, exist_ok=False)
        except FileExistsError:
            continue
        except OSError as error:
            raise misused(
                f"cannot make a folder for this run in {options.runs}: {error.strerror}.",
                "Name another one: --runs DIR",
            ) from error
        return RunPaths(root)


def _stem(command: tuple[str, ...]) -> str:
    """What a person would call it: the script's, the module's or the program's own name."""
    first, *rest = command
    if first != sys.executable:
        return Path(first).stem
    return rest[1].rpartition(".")[2] if rest[0] == "-m" else Path(rest[0]).stem


def job_of(
    options: Options, name: str, environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """The `TrainingJob` to submit, as JSON values."""
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "nodes": options.nodes,
            "ranksPerNode": options.ranks,
            "standbys": options.standbys,
            "command": list(options.command),
            "workdir": str(options.workdir),
            "env": _environment(options, environment),
            "checkpoint": _checkpoint(options),
            "communication": {"rendezvous": options.rendezvous},
            "recovery": {"user": {"restarts": options.max_restarts, "windowS": 3600}},
            "timeouts": {
                "graceS": options.grace_s,
                "firstStepS": options.first_step_s,
                "pauseMaxS": options.pause_max_s,
                "stuckMaxS": options.stuck_max_s,
            },
        },
    }


def _checkpoint(options: Options) -> dict[str, Any]:
    """As far as it was said."""
    said = {
        "storeUrl": options.store_url,
        "storeIntervalSteps": options.store_every,
        "keepEverySteps": options.keep_every or None,
        "beginFrom": options.begin_from,
    }
    return {name: value for name, value in said.items() if value not in ("", None)}


def expected_task(options: Options, name: str) -> dict[str, Any]:
    """Of that job, what decides on the launcher from which its ranks are forked, as JSON values."""
    spec = job_of(options, name)["spec"]
    return {
        "command": spec["command"],
        "workdir": spec["workdir"],
        "env": spec["env"],
        "default_env": collectives.environment(),
        "ranks_per_node": spec["ranksPerNode"],
    }


def _environment(options: Options, environment: Mapping[str, str]) -> dict[str, str]:
    """What ranks get beyond what they inherit.

    Output goes through a file, so Python is told not to hold it back; several ranks share the
    cores, so each gets one OpenMP thread unless the user said otherwise (torchrun does the same).
    """
    ours = {"PYTHONUNBUFFERED": "1"}
    if options.world_size > 1:
        ours["OMP_NUM_THREADS"] = "1"
    return {name: value for name, value in ours.items() if name not in environment}
