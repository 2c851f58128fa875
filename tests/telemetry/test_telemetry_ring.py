"""The ring under a real writer that is killed at any moment, and files that are no ring."""

import errno
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import eventually

from holdfast.protocol.messages import BadLoss
from holdfast.telemetry import schema
from holdfast.telemetry.recorder import Recorder
from holdfast.telemetry.ring import RingError, RingReader, RingWriter
from holdfast.telemetry.schema import VERSION

BEFORE_LOSSES = 4
"""Whose words for losses would be read as nought, that is: all were numbers."""

WRITER = """
import os, sys
from collections.abc import Callable
from pathlib import Path
from holdfast.telemetry.schema import VERSION
from holdfast.telemetry.ring import RingWriter
# One writer after another in one process tree: each is killed by the test while it writes.
parent = os.getpid()
for line in sys.stdin:
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("ended", flush=True)
        continue
    ring = RingWriter(Path(line.strip()), rank=3, epoch=7)
    ring.word(2, 1)
    n = 0
    while os.getppid() == parent:
        n += 1
        # Every field of a record says the same number: a mixture shows.
        ring.state(n, n, float(n), 0)
        ring.group(0, n, 1, n % 2**32, n, n, 0, 0, n, n, n, n, n, n, n, n)
        ring.collective(0, n, n % 16, n)
"""


def numbers_agree(reader: RingReader) -> bool:
    seen = reader.read()
    assert (seen.tokens, seen.loss) == (seen.step, float(seen.step) if seen.step else 0.0)
    group = seen.groups[0] if seen.groups else None
    if group is not None and group.enqueued:
        assert {group.members, group.step, group.fingerprint} == {group.enqueued}
        assert group.marks == ((group.enqueued, group.enqueued),)
    for recent in reader.recent():
        assert len(recent.collectives) <= schema.RECENT
        for each in recent.collectives:
            assert each == (each.fingerprint, schema.KINDS[each.number % 16], each.number)
    return seen.step > 0


def test_a_reader_never_sees_a_mixture_though_writers_die_hundreds_of_times(
    tmp_path: Path,
) -> None:
    rng = random.Random(1)
    writers = subprocess.Popen(
        [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writers.stdin is not None
    assert writers.stdout is not None
    whole = torn = 0
    try:
        for turn in range(200):
            path = tmp_path / f"{turn}.ring"
            writers.stdin.write(f"{path}\n")
            writers.stdin.flush()
            pid = int(writers.stdout.readline())
            while not path.exists():
                os.sched_yield()
            reader = RingReader(path)
            while not numbers_agree(reader):
                os.sched_yield()
            for _ in range(rng.randrange(40)):
                whole += numbers_agree(reader)
            os.kill(pid, signal.SIGKILL)
            assert writers.stdout.readline() == "ended\n"
            before = reader.read()
            torn += reader.torn
            assert reader.read() == before, "a dead writer's ring stands still"
            numbers_agree(reader)
            reader.close()
    finally:
        writers.kill()
        writers.wait()
        writers.stdin.close()
        writers.stdout.close()
    assert whole > 1_000


def test_a_record_left_half_written_keeps_its_last_whole_value_and_is_counted(
    tmp_path: Path,
) -> None:
    writer = RingWriter(tmp_path / "r.ring", rank=0, epoch=1)
    reader = RingReader(tmp_path / "r.ring")
    writer.state(5, 50, 1.5, 0)
    assert (reader.read().step, reader.torn) == (5, 0)
    writer._words[schema.STATE_AT // 8] += 1  # the writer died after its first store
    schema.STATE.pack_into(writer._map, schema.STATE_AT, 3, 6, 60, 9.0, 0, 0, 0, 0, 0, 0)
    assert (reader.read().step, reader.torn) == (5, 1)


def test_what_the_writer_stores_is_what_the_reader_reads(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "r.ring", rank=5, epoch=2)
    recorder = Recorder(ring)
    world = recorder.new_group([0, 1, 2, 3, 4, 5])
    twin = recorder.new_group([5, 4, 3, 2, 1, 0])
    peer = recorder.peer(4)
    assert world is not None
    assert twin is not None
    assert peer is not None
    world.enqueue(1, 77)
    with recorder.phase("forward"):
        seen = RingReader(tmp_path / "r.ring").read()
    assert seen.phase == "forward"
    peer.sent()
    peer.received()
    recorder.reported(9, 0.25, 1_000)
    seen = RingReader(tmp_path / "r.ring").read()
    assert (seen.rank, seen.epoch, seen.pid, seen.hooks) == (5, 2, os.getpid(), True)
    assert (seen.step, seen.loss, seen.tokens, seen.phase) == (9, 0.25, 1_000, "")
    first, second = seen.groups
    assert (first.kind, first.enqueued, first.fingerprint) == ("all_reduce", 1, 77)
    assert first.ranks == second.ranks == (0, 1, 2, 3, 4, 5)
    assert first.members != second.members, "groups of the same ranks are told apart"
    assert first.marks == ((9, 1),)
    assert (seen.peers[0].peer, seen.peers[0].sends, seen.peers[0].receives) == (4, 1, 1)
    assert seen.wall_s["forward"] > 0
    assert seen.partial == ()


def test_the_stages_of_its_start_are_told_and_stand_once_it_has_done_a_step(tmp_path: Path) -> None:
    recorder = Recorder(RingWriter(tmp_path / "r.ring", rank=0, epoch=1))
    reader = RingReader(tmp_path / "r.ring")
    assert reader.starts_s() == {}
    recorder.is_past("group")
    with recorder.pause(schema.LOADING):
        assert list(reader.starts_s()) == ["group"]
    recorder.stepped()
    starts_s = reader.starts_s()
    assert list(starts_s) == list(schema.STARTS)
    assert sorted(starts_s.values()) == list(starts_s.values())
    assert 0 <= time.monotonic() - starts_s["step"] < 60
    recorder.stepped()
    recorder.is_past("group")
    with recorder.pause(schema.LOADING):
        pass
    assert reader.starts_s() == starts_s


@pytest.mark.parametrize(
    ("told", "seen"),
    [(0.0, "0.0"), (math.nan, "nan"), (-math.nan, "nan"), (-math.inf, "-inf"), (None, "None")],
)
def test_a_loss_that_is_no_number_is_another_than_none(
    tmp_path: Path, told: float | None, seen: str
) -> None:
    RingWriter(tmp_path / "r.ring", rank=0, epoch=1).state(3, 0, told, 0)
    assert str(RingReader(tmp_path / "r.ring").read().loss) == seen


NONE = math.nan
LOSSES = {
    "only numbers": ([(1, 2.0), (2, 1.5)], None),
    "none is told": ([(1, None), (2, None)], None),
    "no number from the beginning on": (
        [(1, NONE), (2, math.inf)],
        BadLoss(told=2, since=1, last=2),
    ),
    "no number since, and not seen step by step": (
        [(1, 2.0), (2, 2.0), (9, NONE), (10, -math.inf), (11, NONE)],
        BadLoss(told=3, since=9, last=11, good=2, goods=2),
    ),
    "a step that tells none says nothing": (
        [(1, 2.0), (2, NONE), (3, None), (4, NONE), (5, None)],
        BadLoss(told=2, since=2, last=4, good=1, goods=1),
    ),
    "a number in between, as a scaler goes on": ([(1, 2.0), (2, NONE), (3, 2.0)], None),
    "it begins anew after that": (
        [(1, 2.0), (2, NONE), (3, 2.0), (4, NONE)],
        BadLoss(told=1, since=4, last=4, good=3, goods=2),
    ),
    "two losses of each step, one of them none": (
        [(n, loss) for n in range(1, 40) for loss in (NONE, 2.0)],
        None,
    ),
    "two losses of each step, both none": (
        [(1, 2.0), (1, 3.0), (2, NONE), (2, NONE)],
        BadLoss(told=2, since=2, last=2, good=1, goods=2),
    ),
}


@pytest.mark.parametrize("case", LOSSES)
def test_since_when_the_loss_is_no_number_is_kept_however_seldom_one_reads(
    tmp_path: Path, case: str
) -> None:
    told, expected = LOSSES[case]
    recorder = Recorder(RingWriter(tmp_path / "r.ring", rank=0, epoch=1))
    for step, loss in told:
        recorder.reported(step, loss, None)
    assert RingReader(tmp_path / "r.ring").read().bad_loss == expected


def test_what_does_not_fit_is_said_and_breaks_nothing(tmp_path: Path) -> None:
    recorder = Recorder(RingWriter(tmp_path / "r.ring", rank=0, epoch=1))
    groups = [recorder.new_group([0, n + 1]) for n in range(schema.GROUP_SLOTS + 1)]
    peers = [recorder.peer(n) for n in range(schema.PEER_SLOTS + 1)]
    for n in range(schema.PHASE_SLOTS + 1):
        with recorder.phase(f"phase {n}"):
            pass
    assert groups[-1] is None
    assert peers[-1] is None
    partial = RingReader(tmp_path / "r.ring").read().partial
    assert {"groups full", "peers full", "phases full"} <= set(partial)


def test_a_group_too_large_for_the_ring_is_watched_without_its_members(tmp_path: Path) -> None:
    recorder = Recorder(RingWriter(tmp_path / "r.ring", rank=0, epoch=1))
    group = recorder.new_group(range(schema.MEMBER_SLOTS + 1))
    assert group is not None
    group.enqueue(1, 0)
    seen = RingReader(tmp_path / "r.ring").read()
    assert (seen.groups[0].ranks, seen.groups[0].enqueued) == ((), 1)
    assert "members full" in seen.partial


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(lambda data: data[:20], "less than a header", id="shorter than a header"),
        pytest.param(lambda data: data[:4096], "cut short, 4096 of", id="cut short"),
        pytest.param(lambda data: b"x" * len(data), "not a ring", id="something else"),
        pytest.param(
            lambda data: data[:8] + bytes([VERSION + 1]) + data[9:],
            f"a newer Holdfast, ring version {VERSION + 1}",
            id="newer",
        ),
        pytest.param(lambda data: data[:8] + b"\x00" + data[9:], "an older Holdfast", id="older"),
        pytest.param(
            lambda data: data[:8] + bytes([BEFORE_LOSSES]) + data[9:],
            f"an older Holdfast, ring version {BEFORE_LOSSES}; this one reads version {VERSION}",
            id="before it told of losses",
        ),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, change: object, says: str) -> None:
    RingWriter(tmp_path / "r.ring", rank=0, epoch=1)
    data = (tmp_path / "r.ring").read_bytes()
    (tmp_path / "bad.ring").write_bytes(change(data))  # type: ignore[operator]
    with pytest.raises(RingError, match=says):
        RingReader(tmp_path / "bad.ring")


def test_marks_give_two_ranks_a_step_in_common(tmp_path: Path) -> None:
    marks = []
    for rank, last in ((0, 1000), (1, 1003)):
        recorder = Recorder(RingWriter(tmp_path / f"{rank}.ring", rank=rank, epoch=1))
        group = recorder.new_group([0, 1])
        assert group is not None
        for step in range(1, last + 1):
            group.enqueue(1, 0)
            recorder.reported(step, None, None)
        marks.append(dict(RingReader(tmp_path / f"{rank}.ring").read().groups[0].marks))
    common = marks[0].keys() & marks[1].keys()
    assert common
    assert all(marks[0][step] == marks[1][step] == step for step in common)


OWN = ("step numbers",)
"""Missing where steps are counted from the start of the process."""


@pytest.mark.parametrize(
    ("acts", "step", "partial"),
    [
        pytest.param("step step", 2, OWN, id="nobody numbers them"),
        pytest.param("starts_at=50", 0, OWN, id="restored, no step yet"),
        pytest.param("starts_at=50 step step", 52, (), id="restored"),
        pytest.param("step step saves=2 step", 3, (), id="saves seldom"),
        pytest.param("starts_at=0 step saves=2 step", 3, (), id="the optimizer left one out"),
        pytest.param("step step saves=1 step step saves=2 step", 5, OWN, id="two optimizers"),
        pytest.param("starts_at=0 step step saves=1", 2, OWN, id="at once, with two optimizers"),
        pytest.param("starts_at=0 step saves=0", 1, OWN, id="from 0, or several a step"),
        pytest.param("starts_at=0 step saves=0 step saves=1 step", 2, (), id="from 0"),
        pytest.param("step saves=0 step step saves=2", 2, (), id="from 0, nothing restored"),
        pytest.param("step saves=0 step saves=1 step step saves=2", 3, OWN, id="then several"),
        pytest.param("step saves=1 step step step saves=2 step saves=3", 5, OWN, id="slower once"),
        pytest.param("step step step saves=0 step step step saves=1", 6, OWN, id="an epoch each"),
        pytest.param("starts_at=0 saves=1 saves=2", 0, OWN, id="no optimizer"),
        pytest.param("starts_at=0 reported=9 saves=3 step", 9, (), id="the script says it"),
    ],
)
def test_steps_have_the_numbers_that_the_checkpointer_knows(
    tmp_path: Path, acts: str, step: int, partial: tuple[str, ...]
) -> None:
    recorder = Recorder(RingWriter(tmp_path / "r.ring", rank=0, epoch=1))
    does: dict[str, Callable[[int], None]] = {
        "step": lambda _: recorder.stepped(),
        "starts_at": recorder.starts_at,
        "saves": recorder.saves,
        "reported": lambda number: recorder.reported(number, None, None),
    }
    for act in acts.split():
        name, _, number = act.partition("=")
        does[name](int(number or 0))
    seen = RingReader(tmp_path / "r.ring").read()
    assert (seen.step, seen.partial) == (step, partial)


def test_a_rank_without_room_for_its_ring_says_so_and_goes_on(tmp_path):
    (tmp_path / "full").touch()
    full = {**os.environ, "HOLDFAST_RING": str(tmp_path / "full" / "ring"), "RANK": "0"}
    words = [sys.executable, "-c", "from holdfast.telemetry import hooks; hooks.install()"]
    done = subprocess.run(words, env=full, capture_output=True, text=True, check=True)
    said = "holdfast: nobody watches this rank for hangs until there is room: "
    assert done.stderr.startswith(said)
    assert "File exists" in done.stderr


def test_a_ring_has_its_file_once_there_is_room_with_what_was_stored_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_of: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "r.ring"
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", is_full)
        with pytest.raises(OSError, match="No space left"):
            RingWriter(path, rank=3, epoch=7)
        ring = RingWriter(path, rank=3, epoch=7, patient=True)
        ring.state(5, 0, 0.5, 0)
        assert not ring.settle()
        assert ring.lacks is not None
        assert [*tmp_path.iterdir()] == [], "what was begun of it is gone"
    assert ring.settle()
    assert ring.lacks is None
    reader = RingReader(path)
    seen = reader.read()
    assert (seen.step, seen.loss) == (5, 0.5)
    ring.state(6, 0, 0.25, 0)
    assert reader.read().step == 6, "it stores into the file from now on"


def test_a_rank_looks_for_room_for_its_ring_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.telemetry.recorder.SETTLE_PULSES", 1)
    (tmp_path / "full").touch()
    path = tmp_path / "full" / "r.ring"
    recorder = Recorder(RingWriter(path, rank=0, epoch=1, patient=True))
    recorder.start()
    try:
        recorder.stepped()
        (tmp_path / "full").unlink()
        eventually(path.exists, "the ring has its file")
        assert RingReader(path).read().step == 1
    finally:
        recorder.stop()
