"""What ranks wrote last is told as their job leaves a node whose folders go with it."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.executor.lastlines import LeftHere, tail
from holdfast.protocol import messages as m
from holdfast.protocol import nodeenv
from holdfast.protocol.lastlines import LEAST_BYTES, MOST_BYTES, share_bytes


@pytest.mark.parametrize(
    ("keeps", "ranks", "each"),
    [
        pytest.param(0, 8, 0, id="a-driver-that-keeps-nothing"),
        pytest.param(1 << 24, 1, MOST_BYTES, id="one-rank"),
        pytest.param(1 << 24, 1_024, 8_192, id="a-thousand"),
        pytest.param(1 << 24, 1_000_000, LEAST_BYTES, id="very-many"),
    ],
)
def test_ranks_share_what_is_kept_of_their_job(keeps: int, ranks: int, each: int) -> None:
    assert share_bytes(keeps, ranks) == each


def test_a_tail_begins_with_a_whole_line_and_says_what_is_missing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(1_000)))
    said, first, *_, last = tail(log, 500).splitlines()
    missing = int(said.split()[2])
    assert log.read_bytes()[missing:].startswith(first + b"\n")
    assert (first[:5], last) == (b"line ", b"line 999")
    assert len(tail(log, 500)) <= 500
    assert tail(log, 1 << 20) == log.read_bytes()
    assert tail(tmp_path / "none", 500) == b""


def test_a_tail_of_one_long_line_is_its_end(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\x00" * 5_000 + b"end")
    assert tail(tmp_path / "log", 600).endswith(b"\x00end")
    assert len(tail(tmp_path / "log", 600)) <= 600


def test_it_is_told_once_and_not_while_the_job_stays(tmp_path: Path) -> None:
    left = LeftHere()
    left.keeps_bytes = 1 << 20
    seat = m.Seat(rank=3, local_rank=0, node="n", address="a")
    task = m.Task(command=("x",), workdir="/", log_root=str(tmp_path))
    left.started(
        m.Desired(
            node="n", generation=1, term=1, epoch=4, job="a", attempt=2, task=task,
            seats=(seat,), world_size=8,
        )
    )  # fmt: skip
    assert list(left.told("a")) == []
    assert list(left.told(None)) == [m.LastLines(job="a", attempt=2, rank=3)]
    assert list(left.told(None)) == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_pod_tells_its_ranks_last_lines_before_it_says_that_it_is_free(
    own_node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await own_node.end()
    monkeypatch.setenv(nodeenv.SHOW_OUTPUT, "yes")
    own_node.driver.keeps_bytes = 1 << 20
    await own_node.start()
    script = "import sys; print('early'); print('late'); sys.exit('why')"
    await own_node.launch(own_node.python(script, ranks_per_node=2), ranks=2)
    await own_node.exited(2)
    assert own_node.driver.last_lines == []
    await own_node.want(None, job=None)
    await own_node.driver.eventually(lambda o: o.job is None and o.quiet)
    told = sorted(own_node.driver.last_lines, key=lambda last: last.rank)
    assert [(last.rank, last.stdout, last.stderr) for last in told] == [
        (rank, b"early\nlate\n", b"why\n") for rank in (0, 1)
    ]
