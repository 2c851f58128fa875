"""`holdfast bench scale`: today's driver, and an earlier commit's beside it, turn by turn.

Called by `bench.main`. Each measurement is a process of its own, which runs one of the scripts
beside this file with one of the trees on its path.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.trees import trees as trees_beside

HERE = Path(__file__).resolve().parent  # in the repository, not in `src` where a link leads there
SCRIPTS = (
    ("decided.py",),
    ("ingested.py", "tp 8, dp N"),
    ("ingested.py", "one group"),
    ("faulted.py",),
    ("connected.py",),
    ("connected.py", "tls"),
)
LIMIT_S = 590.0
"""Of one script: four stages of a job on 12,500 nodes took less on two cores, or did not end."""
TOLD = {
    "cpu_s": ("CPU a node", "us", 1e6),
    "longest_pass_s": ("longest pass", "ms", 1e3),
    "written_bytes": ("written a node", "KB", 1e-3),
    "heartbeat_s": ("CPU a heartbeat", "us", 1e6),
    "tick_s": ("CPU a tick", "ms", 1e3),
    "decided_s": ("until its decision", "ms", 1e3),
    "decided_p99_s": ("until its decision, 99th percentile", "ms", 1e3),
    "read_p99_s": ("until each viewer has read it, 99th percentile", "ms", 1e3),
    "held_bytes": ("memory a node", "KB", 1e-3),
}
A_NODE = {"cpu_s", "written_bytes", "held_bytes"}


def measure(
    rounds: int,
    take: Callable[[Try], None],
    say: Callable[[str], None],
    *,
    sizes: Sequence[int],
    before: str = "",
    scripts: Sequence[tuple[str, ...]] = SCRIPTS,
) -> None:
    """Raises `Incomplete` where `before` is no commit, or a script ends with an error."""
    with trees_beside(before) as trees:
        for turn in range(rounds):
            for nodes in sizes:
                for system, sources in trees.items():
                    for script in scripts:
                        what = " ".join(script).replace(".py", "")
                        say(f"round {turn + 1} of {rounds}: {nodes:,} nodes, {system}, {what}")
                        for found in _run(*script, sources=sources, nodes=nodes, system=system):
                            for each in _tries(system, found):
                                take(each)


def _run(
    script: str, *options: str, sources: Path, nodes: int, system: str
) -> list[dict[str, Any]]:
    """What the script printed. Raises `Incomplete`."""
    if not (sources / "holdfast" / "driver" / "__init__.py").exists():
        raise Incomplete(f"{system}: there is no Holdfast in {sources}, so nothing is measured")
    command = [sys.executable, str(HERE / script), str(nodes), *options]
    try:
        done = subprocess.run(
            command,
            env={"PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        what = f"{script} with {nodes:,} nodes on {system} did not end within {LIMIT_S:.0f} s"
        raise Incomplete(what) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Incomplete(f"{script} with {nodes:,} nodes on {system}: {last}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _tries(system: str, found: dict[str, Any]) -> Iterator[Try]:
    """One for each cost that a stage was told with."""
    nodes = found["nodes"]
    for name, (what, unit, factor) in TOLD.items():
        if name in found:
            value = found[name] * factor / (nodes if name in A_NODE else 1)
            figure = f"{found['stage']}, {nodes:,} nodes: {what}"
            yield Try(system=system, figure=figure, unit=unit, value=value)
