"""Who looks after the children of a laboratory ends them, whenever it is interrupted."""

import os
from threading import Thread

import pytest
from waiting import eventually

from holdfast.kit.supervise import Child, Lifeline
from holdfast.lab.supervised import Supervised


class Noted(Child):
    """A child that is no process."""

    def __init__(self) -> None:
        self.name, self.did = "noted", list[str]()

    def look_after(self, now_s: float) -> None:
        self.did.append("looked after")

    def end(self, within_s: float) -> None:
        self.did.append("ended")


def test_a_ctrl_c_while_it_begins_ends_what_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    child, lifeline, begin = Noted(), Lifeline(), Thread.start

    def interrupted(thread: Thread) -> None:
        begin(thread)
        eventually(lambda: child.did, "it has been looked after")
        raise KeyboardInterrupt

    monkeypatch.setattr(Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Supervised([child], lifeline)
    assert child.did[-1] == "ended"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(lifeline.read_fd)


def test_a_ctrl_c_before_its_thread_is_there_ends_it_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: Thread) -> None:
        raise KeyboardInterrupt

    child = Noted()
    monkeypatch.setattr(Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Supervised([child], Lifeline())
    assert child.did == ["ended"]
