"""Work in pieces by several threads: all of it, once, however many threads there are."""

import logging
from threading import Thread

import pytest

from holdfast.checkpoint import threads


@pytest.mark.parametrize("number", [1, 3, 50])
def test_each_piece_is_done_once(number: int) -> None:
    done: list[int] = []
    threads.by_threads(20, done.append, threads=number, name="work")
    assert sorted(done) == list(range(20))


def test_where_no_more_threads_are_to_be_had_one_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under RLIMIT_NPROC: a restore is no slower than it has to be, and no error."""

    def refused(self: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refused)
    done: list[int] = []
    threads.by_threads(3, done.append, threads=4, name="work")
    assert done == [0, 1, 2]


@pytest.mark.torch
def test_a_slot_that_no_thread_can_pin_is_copied_to_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    from holdfast.checkpoint import pinning

    class Mapped:
        place = (0, 0)

    def refused(self: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refused)
    with caplog.at_level(logging.WARNING, "holdfast.checkpoint"):
        pinning.pin(Mapped(), torch.device("cuda", 0))
    assert "a slot is not pinned (can't start new thread)" in caplog.text
