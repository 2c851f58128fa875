"""Ranks killed from outside in the middle of a run, started again from the nodes' memory."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import eventually

from holdfast.checkpoint.layout import folder_name, part_name
from holdfast.checkpoint.manifest import decode_part, merge
from holdfast.checkpoint.shards import write_part
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.stores.file import FileStore
from holdfast.protocol.messages import Restore
from holdfast.workload.main import main

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(600)]
HERE = Path(__file__).parent
LAYOUT, RANKS = "2,2,2", 8
STEPS, BATCH, SEQ = 24, 4, 8
RUN_S = 180.0
"""Ten seconds where there are two free cores."""
ARGUMENTS = (
    f"--layers 2 --hidden 16 --heads 2 --seq {SEQ} --global-batch {BATCH} --micro-batch 1 "
    f"--steps {STEPS} --warmup-steps 3 --data"
).split()

Lines = dict[int, list[dict[str, Any]]]
"""Lines of `metrics.jsonl` by step, one a replica."""


class Run:
    """One attempt of the workload: its ranks are one process group, which is gone at the end."""

    def __init__(self, folder: Path, text: Path, *, slots: Path, epoch: int, **more: str) -> None:
        self.folder = folder
        environment = os.environ | {
            "TEST_ARGUMENTS": json.dumps([*ARGUMENTS, str(text)]),
            "TEST_SLOTS": str(slots),
            "HOLDFAST_EPOCH": str(epoch),
            **more,
        }
        command = [sys.executable, str(HERE / "launch.py"), "train", str(folder), LAYOUT]
        folder.mkdir()
        with (folder / "stderr.log").open("wb") as stderr:
            self.process = subprocess.Popen(
                command, env=environment, stderr=stderr, stdout=stderr, start_new_session=True
            )

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def finish(self) -> Lines:
        assert self.process.wait(RUN_S) == 0, (self.folder / "stderr.log").read_text()
        return self.lines()

    def lines(self) -> Lines:
        found: Lines = {}
        for path in sorted(self.folder.glob(f"{LAYOUT}/rank_*/metrics.jsonl")):
            for text in path.read_bytes().splitlines(keepends=True):
                if text.endswith(b"\n"):  # the last one may be torn by the kill
                    line = json.loads(text)
                    found.setdefault(line["step"], []).append(line)
        return found


def newest_common_step(slots: Path) -> int:
    """The newest step that every rank has sealed, as the driver would choose it, with
    its checksums; its shards are whole in a store."""
    store = FileStore(str(slots / "store"))
    folders = [SlotFolder(slots / f"r{rank}") for rank in range(RANKS)]
    sealed = [{seal.step for _, seal in folder.sealed()} for folder in folders]
    step = max(set.intersection(*sealed))
    for folder in folders:
        found = folder.find(step=step, epoch=1)
        assert found
        with found[0].locked(exclusive=False) as fd:
            assert fd is not None
            assert found[0].is_known(fd, found[1])
            write_part(store, *found, fd, go_on=lambda: None)
    names = [f"{folder_name(step, 1)}/{part_name(rank)}" for rank in range(RANKS)]
    written = [decode_part(b"".join(store.get(name))) for name in names]
    assert len({name for part in written for name in part.places}) > 10
    merge("job", written)
    return step


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Exactly as many samples as the whole run draws."""
    path = tmp_path / "text"
    source = Path(__file__).read_bytes() * 2
    path.write_bytes(source[: STEPS * BATCH * SEQ + 1])
    return path


def test_a_run_killed_and_resumed_is_bit_for_bit_the_run_that_was_not(
    tmp_path: Path, text: Path
) -> None:
    with Run(tmp_path / "whole", text, slots=tmp_path / "a", epoch=1) as whole:
        expected = whole.finish()
    slots = tmp_path / "b"
    with Run(tmp_path / "killed", text, slots=slots, epoch=1, TEST_HOLD_AT="20") as killed:
        eventually(lambda: max(killed.lines(), default=0) >= 6, "step 6", RUN_S)
        killed.kill()
    before = killed.lines()
    step = newest_common_step(slots)
    assert 5 <= step < STEPS
    restore = msgspec.json.encode(Restore(source="memory", step=step, epoch=1)).decode()
    with Run(tmp_path / "resumed", text, slots=slots, epoch=2, HOLDFAST_RESTORE=restore) as resumed:
        after = resumed.finish()

    assert sorted(after) == list(range(step + 1, STEPS + 1))
    for history in (before, after):
        for number, lines in history.items():  # the kill may have left one replica's line alone
            assert all(line in expected[number] for line in lines), f"step {number}"
    kept = {number: before[number] for number in range(1, step + 1)} | after
    samples = [sample for lines in kept.values() for line in lines for sample in line["samples"]]
    assert sorted(samples) == list(range(STEPS * BATCH)), "each sample once"


def test_alone_it_learns_more_than_how_frequent_each_byte_is(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.workload.main", "--steps", "60"]
    environment = os.environ | {"HOLDFAST_RANK_DIR": str(tmp_path)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=RUN_S, check=True
    )
    entropy_bits = float(done.stdout.split("unigram entropy ")[1].split()[0])
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 61))
    assert all(float.fromhex(line["loss_hex"]) == line["loss"] for line in lines)
    assert lines[0]["bits_per_byte"] == pytest.approx(8, rel=0.05)
    assert sum(line["bits_per_byte"] for line in lines[-5:]) / 5 < entropy_bits - 0.4
    assert "step    60" in done.stdout


def test_bad_input_ends_with_one_sentence_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path / "none")]) == 2
    expected = f"--data: {tmp_path}/none does not exist. Give files or folders that do.\n"
    assert capsys.readouterr().err == expected
