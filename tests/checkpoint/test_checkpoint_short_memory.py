"""Ranks on a node whose memory folder is really small: snapshots go on as long as one fits."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from forked import Forked, forked
from namespaces import own_mounts

from holdfast.protocol.outputs import DEFAULT_RULES

pytestmark = pytest.mark.torch

PROGRAM = """
import ctypes, json, pathlib, subprocess, sys, torch
NEW_MOUNTS = 0x20000  # CLONE_NEWNS, unshare(2)
assert ctypes.CDLL(None).unshare(NEW_MOUNTS) == 0
mount = ["mount", "-t", "tmpfs", "-o", f"size={sys.argv[4]}", "small", sys.argv[1]]
subprocess.run(mount, check=True)

from holdfast.checkpoint.checkpointer import Checkpointer
from holdfast.checkpoint.memory import Memory
from holdfast.checkpoint.settings import Settings
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.protocol.topology import Topology

root, store = pathlib.Path(sys.argv[1]), int(sys.argv[2])
MB = 1_000_000
ranks = {rank: str(root / f"r{rank}") for rank in range(int(sys.argv[3]))}
world = {"world_size": len(ranks), "topology": Topology(dp=len(ranks))}
rest = {"job": "job", "epoch": 1, "store_interval_steps": store, **world}
made = [
    Checkpointer(Settings(rank=rank, slots=pathlib.Path(path), **rest))
    for rank, path in ranks.items()
]
agent = Memory("job", ranks, print)

def save(step, mb):
    return [one.save(step, {"w": torch.full((int(mb * MB / 4),), float(step))}) for one in made]

def offered(rank=0):
    return [one.step for one in agent.look() if one.rank == rank]

def say(**facts):
    print("FACTS " + json.dumps(facts))
"""


Play = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    """Whose mounts nobody else sees."""
    folder, modules = (
        tmp_path_factory.mktemp("memory"),
        ("torch", "holdfast.checkpoint.checkpointer"),
    )
    with forked(folder, *modules, prefix=own_mounts()) as made:
        yield made


@pytest.fixture
def on_a_small_tmpfs(processes: Forked, tmp_path: Path) -> Play:
    """Plays a script where `root` is a tmpfs of this size: what it says, and its log."""

    def play(
        root: Path, size_mb: float, script: str, *, ranks: int = 1, store: int = 0
    ) -> tuple[dict[str, Any], str]:
        root.mkdir(exist_ok=True)
        (path := tmp_path.with_suffix(".py")).write_text(PROGRAM + script)
        size = f"{size_mb * 1e6:.0f}"
        done = processes.run(path, str(root), str(store), str(ranks), size)
        said = [line for line in done.stdout.splitlines() if line.startswith("FACTS ")]
        assert said, done.stdout + done.stderr
        return json.loads(said[-1].removeprefix("FACTS ")), done.stderr

    return play


def test_with_room_for_two_slots_every_save_is_made_and_the_newest_are_there(
    tmp_path: Path, on_a_small_tmpfs: Play
) -> None:
    script = """
agent.early.fill(float)
kept = [(all(save(step, 2)), offered()) for step in range(1, 21)]
say(saved=[one for one, _ in kept], offered=[steps for _, steps in kept], skipped=made[0].skipped)
"""
    said, log = on_a_small_tmpfs(tmp_path, 5, script)
    assert said["saved"] == [True] * 20, log
    assert said["offered"] == [[1], *[[step, step - 1] for step in range(2, 21)]]
    assert said["skipped"] == 0


def test_with_room_for_one_slot_the_newest_snapshot_is_there(
    tmp_path: Path, on_a_small_tmpfs: Play
) -> None:
    script = """
kept = [(all(save(step, 2)), offered()) for step in range(1, 8)]
say(saved=[one for one, _ in kept], offered=[steps for _, steps in kept])
"""
    said, log = on_a_small_tmpfs(tmp_path, 3, script)
    assert said["saved"] == [True] * 7, log
    assert said["offered"] == [[step] for step in range(1, 8)]


def test_what_the_store_waits_for_stays_in_short_memory_until_it_is_written(
    tmp_path: Path, on_a_small_tmpfs: Play
) -> None:
    script = """
before = [(all(save(step, 2)), offered()) for step in range(1, 15)]
SlotFolder(root / "r0").put_uploaded(epoch=1, step=10)
after = [(all(save(step, 2)), offered()) for step in range(15, 18)]
say(saved=[one for one, _ in before + after], at_14=before[-1][1], at_17=after[-1][1])
"""
    said, log = on_a_small_tmpfs(tmp_path, 5, script, store=10)
    assert said["saved"] == [True] * 17, log
    assert said["at_14"] == [14, 10], "step 10 is due for the store and not yet there"
    assert said["at_17"] == [17, 16]


def test_a_state_that_grows_is_saved_as_long_as_it_fits_and_then_nothing_is_lost(
    tmp_path: Path, on_a_small_tmpfs: Play
) -> None:
    script = """
agent.early.fill(float)
sizes = [1 + step / 4 for step in range(1, 41)]
kept = [(all(save(step, mb)), offered()) for step, mb in enumerate(sizes, start=1)]
saved = [step for step, (one, _) in enumerate(kept, start=1) if one]
say(saved=saved, offered=kept[-1][1], in_a_row=agent.skipped(1).in_a_row)
"""
    said, log = on_a_small_tmpfs(tmp_path, 9, script)
    last = said["saved"][-1]
    assert said["saved"] == list(range(1, last + 1)), log
    assert last >= 24, "7 MB fit into 9"
    assert said["offered"][0] == last, "a save that cannot be made destroys nothing"
    assert said["in_a_row"] == 40 - last
    assert f"memory slots: {1 + (last + 1) / 4:.1f} MB wanted in {tmp_path}/r0, " in log
    assert "Give the node's memory folder more room, or save less." in log


def test_a_slot_that_was_emptied_for_another_is_not_offered(
    tmp_path: Path, on_a_small_tmpfs: Play
) -> None:
    script = """
before = [(all(save(step, 2)), offered()) for step in range(1, 5)]
after = [(all(save(5, 4)), offered())]
say(saved=[one for one, _ in before + after], at_4=before[-1][1], at_5=after[-1][1])
"""
    said, log = on_a_small_tmpfs(tmp_path, 9, script)
    assert said["saved"] == [True] * 5, log
    assert said["at_4"] == [4, 3, 2, 1]
    assert said["at_5"] == [5, 4, 3], "one was written over, and one had to make room"


def test_a_memory_that_is_full_ends_no_rank(tmp_path: Path, on_a_small_tmpfs: Play) -> None:
    script = """
full = False
with (root / "of others").open("wb", buffering=0) as file:
    while not full:
        try:
            file.write(bytes(4_096))
        except OSError:
            full = True
began = made[0].restore({"w": torch.zeros(4)})
saved = [save(1, 2)]
(root / "of others").unlink()
say(began=began, saved=[*saved, save(2, 2)], offered=offered())
"""
    said, log = on_a_small_tmpfs(tmp_path, 5, script)
    assert said == {"began": None, "saved": [[False], [True]], "offered": [2]}, log
    for what in ("no slots are made before they are needed", "the agent cannot be told of it"):
        assert f"{what}: the node's memory folder is full" in log
    (skipped,) = [line for line in log.splitlines() if "step 1" in line]
    assert "skipped (1 so far)" in skipped, "one warning for one save"
    assert "snapshots are made again" not in log, "the agent heard of that"
    words = [rule.pattern for rule in DEFAULT_RULES.values()]
    assert not [word for word in words if re.search(word, log)], "that is no fault of the script's"


def test_two_ranks_share_what_there_is(tmp_path: Path, on_a_small_tmpfs: Play) -> None:
    script = """
for one in made:
    one._folder.ask_room(2 * MB + 50_000)
agent.early.fill(float)
rooms = [sum(1 for path in (root / f"r{rank}").glob("slot-*.data")) for rank in (0, 1)]
saved = [save(step, 2) for step in range(1, 12)]
say(rooms=rooms, saved=saved, offered=[offered(0), offered(1)])
"""
    said, log = on_a_small_tmpfs(tmp_path, 12, script, ranks=2)
    assert said["rooms"] == [3, 2], log
    assert said["saved"] == [[True, True]] * 11, log
    assert all(one[0] == 11 for one in said["offered"])


TOGETHER = """
def drift():
    return 0
"""

APART = """
def drift():
    made[0].save(6, {"w": torch.zeros(500_000)})
    made[-1].save(5, {"w": torch.zeros(500_000)})
    return 6
"""
"""A rank had no slot for the step that is due, for the agent was reading its only one."""

TRAINED = f"""
import time
sys.path.insert(0, {str(Path(__file__).parents[1] / "helpers")!r})
from checkpoint_agent import AgentProcess
from waiting import DEADLINE_S
from holdfast.checkpoint.agent_protocol import AgentOrder

for one in made:
    one._folder.ask_room(2 * MB + 50_000)
agent.early.fill(float)
url = f"file://{{root.with_name('store')}}"
process = AgentProcess()
try:
    process.give(AgentOrder(
        id=1, job="job", epoch=1, ranks=tuple(ranks), world_size=len(ranks), slots=ranks,
        store_url=url, store_interval_steps=store,
    ))
    process.until(lambda report: True, "it reports")
    stored, step, until = [], drift(), time.monotonic() + DEADLINE_S / 2
    while len(stored) < 6 and time.monotonic() < until:
        step += 1
        save(step, 2)
        last = process.newest()
        if last.persisted_step not in (None, *stored):
            stored.append(last.persisted_step)
    say(stored=stored, held=offered()[:1], step=step, error=last.store_error)
finally:
    process.close()
"""
"""Training that goes on whatever becomes of its snapshots, until six are in the store."""


@pytest.mark.parametrize(
    ("slots", "ranks", "drift"),
    [
        *((slots, ranks, TOGETHER) for slots in (1, 2, 3) for ranks in (1, 2)),
        *((slots, 2, APART) for slots in (1, 2)),
    ],
    ids=lambda value: {TOGETHER: "together", APART: "apart"}.get(value, f"{value}"),
)
def test_step_after_step_reaches_the_store_from_few_slots(
    tmp_path: Path, on_a_small_tmpfs: Play, slots: int, ranks: int, drift: str
) -> None:
    room_mb = 2.1 * slots * ranks + 0.5
    script = drift + TRAINED
    said, log = on_a_small_tmpfs(tmp_path / "memory", room_mb, script, ranks=ranks, store=5)
    assert len(said["stored"]) == 6, f"{said} {log}"
    assert said["stored"] == sorted(said["stored"])
    assert all(step % 5 == 0 for step in said["stored"])
    whole = {path.parent.name for path in tmp_path.glob("store/*/manifest.json")}
    assert f"step-{said['stored'][-1]:08}-epoch-1" in whole
    assert said["held"], "a snapshot is there beside them"
