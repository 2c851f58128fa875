"""Work in pieces by several threads: all of it, once, however many threads there are."""

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
