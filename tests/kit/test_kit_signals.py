"""Signals that are taken for a while do afterwards what they did before."""

import signal
from collections.abc import Iterator

import pytest

from holdfast.kit.signals import taken

KINDS = (signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """Who was called; the second of both is ignored."""
    calls: list[str] = []
    found = [signal.getsignal(kind) for kind in KINDS]
    signal.signal(KINDS[0], lambda *_: calls.append("before"))
    signal.signal(KINDS[1], signal.SIG_IGN)
    yield calls
    for kind, was in zip(KINDS, found, strict=True):
        signal.signal(kind, was)


def raised() -> None:
    for kind in KINDS:
        signal.raise_signal(kind)


def test_they_are_taken_only_meanwhile_and_never_where_they_are_ignored(heard: list[str]) -> None:
    with taken(lambda *_: heard.append("meanwhile"), KINDS):
        raised()
    raised()
    assert heard == ["meanwhile", "before"]


def test_they_are_given_back_by_who_fails(heard: list[str]) -> None:
    with pytest.raises(ValueError, match="bad"), taken(lambda *_: None, KINDS):
        raise ValueError("bad")
    raised()
    assert heard == ["before"]
