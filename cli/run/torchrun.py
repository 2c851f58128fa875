"""torchrun's command line: what of it means something here, what does not, and what cannot be done.

Used by the command `run`. The options of torchrun 2.9; ours that it has too are not among them.
"""

import os
import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from holdfast.cli.errors import misused

FLAGS = frozenset({"standalone", "no-python"})
VALUES = frozenset(
    "rdzv-backend rdzv-endpoint rdzv-id rdzv-conf monitor-interval start-method role log-dir tee "
    "redirects node-rank master-addr master-port local-addr event-log-handler logs-specs "
    "local-ranks-filter signals-to-handle numa-binding".split()
)
SHORT = {"-t": "tee", "-r": "redirects"}
SAID_ANYWAY = frozenset({"standalone", "no-python", "log-dir", "node-rank"})
"""Of these nothing has to be said: they are done, or are so by themselves."""
LOCAL = frozenset({"", "localhost", "127.0.0.1", "::1", "0.0.0.0"})
FEWEST, MOST = 1, 1_024

Given = tuple[tuple[str, str], ...]
"""Options of torchrun by their name, without dashes, and their value."""


class Parted(NamedTuple):
    """A command line, ours and torchrun's."""

    ours: list[str]
    theirs: Given


def parted(words: Sequence[str], ours: Collection[str], with_value: Collection[str]) -> Parted:
    """Take torchrun's options out of those that stand before the script.

    `ours`: all our options; `with_value`: those of them that a value follows. Raises `Stopped` (2).
    """
    kept: list[str] = []
    taken: list[tuple[str, str]] = []
    left = list(words)
    while left and left[0].startswith("-") and left[0] not in ("-", "--"):
        typed = left.pop(0)
        option, has_value, value = typed.partition("=")
        name = SHORT.get(option) or option.removeprefix("--").replace("_", "-")
        if name in FLAGS and not has_value:
            taken.append((name, ""))
        elif name in VALUES and (option in SHORT or option.startswith("--")):
            if not has_value and not left:
                raise misused(f"{option} needs a value.", "As torchrun's: see torchrun --help")
            taken.append((name, value if has_value else left.pop(0)))
        else:
            dashed = f"--{name}" if option.startswith("--") else option
            known = dashed in ours
            kept.append(f"{dashed}{has_value}{value}" if known else typed)
            if not known and option[:2] not in ours:
                break
            if dashed in with_value and not has_value and left:
                kept.append(left.pop(0))
    return Parted([*kept, *left], tuple(taken))


def ranks_of(text: str, gpus: Callable[[], int], option: str = "-n") -> int:
    """How many ranks a node is to have: a number, or torchrun's gpu, cpu and auto. `option`: as it
    was typed.

    Raises `Stopped` (2).
    """
    if text in ("gpu", "auto", "cpu"):
        found = 0 if text == "cpu" else gpus()
        if text == "gpu" and not found:
            fix = f"Give a number: {option} 4"
            raise misused(f"{option} gpu: nvidia-smi lists no GPU here.", fix)
        return found or os.cpu_count() or 1
    return _number(option, text, "Give a number, or gpu, cpu or auto.", most=MOST)


def nodes_of(text: str, option: str = "--nodes") -> tuple[int, str]:
    """How many nodes, and what to say of it. Of MIN:MAX the fewest. `option`: as it was typed.

    Raises `Stopped` (2).
    """
    low, is_range, high = text.partition(":")
    fix = f"Give a number: {option} 2"
    nodes = _number(option, low, fix)
    if not is_range:
        return nodes, ""
    if _number(option, high, fix) < nodes:
        raise misused(f"{option}: {text!r} has more at least than at most.", fix)
    kept = "a job keeps its size here. For a node in reserve: --standbys 1"
    return nodes, f"{option} {text}: it runs on {nodes}, for {kept}"


def _number(option: str, text: str, fix: str, *, most: int | None = None) -> int:
    """`most`: None where the machine says how many it can bear."""
    if not re.fullmatch(r"-?[0-9]{1,100}", text):
        raise misused(f"{option}: {text!r} is no number.", fix)
    if most is not None and not FEWEST <= int(text) <= most:
        raise misused(f"{option}: {text} is not between {FEWEST} and {most}.", fix)
    if int(text) < FEWEST:
        raise misused(f"{option}: {text} is less than {FEWEST}.", fix)
    return int(text)


def check_one_host(given: Given, nodes: str) -> None:
    """Refuse what is meant for one of several machines; `nodes` as `nodes_of` takes it: who may
    have more than one and meets elsewhere has several. Raises `Stopped` (2)."""
    said = dict(given)
    several = int(nodes.rpartition(":")[2]) > 1
    signs = [
        f"--{name} {value}"
        for name, value in given
        if (name == "node-rank" and value.strip() not in ("", "0"))
        or (several and name in ("master-addr", "rdzv-endpoint") and not _is_local(value))
    ]
    if signs:
        raise misused(
            f"{signs[0]} means one of several machines, and holdfast run has only this one.",
            "For several machines: a driver and holdfast submit, see docs/kubernetes.md. For a "
            f"rehearsal here leave out --{', --'.join(said)}.",
        )


def _is_local(address: str) -> bool:
    if address.startswith("["):
        return address[1:].partition("]")[0] in LOCAL
    host = address if address.count(":") > 1 else address.partition(":")[0]
    return host in LOCAL


def ignored(given: Given) -> str:
    """One line on what has no meaning here; "" where there is nothing to say."""
    names = dict.fromkeys(f"--{name}" for name, _ in given if name not in SAID_ANYWAY)
    if not names:
        return ""
    return (
        f"{', '.join(names)}: not needed. Ranks meet at an address that Holdfast chooses, faults "
        "are noticed at once, and output is both shown and kept."
    )
