"""What is below a process, read while processes end."""

import os
from collections.abc import Iterator

import pytest

from holdfast.executor.adapters import proctree
from holdfast.kit.procstat import Stat

ROOT, MIDDLE, CHILD = 10, 11, 12


def looks(monkeypatch: pytest.MonkeyPatch, *parents: dict[int, int]) -> Iterator[dict[int, int]]:
    """What /proc shows, look by look: the parent of each, 1 among them."""
    left = iter(parents)
    now: dict[int, int] = {}

    def listed(path: str) -> list[str]:
        now.clear()
        now.update({1: 0, ROOT: 1} | next(left))
        return [*map(str, now), "self"]

    monkeypatch.setattr(os, "listdir", listed)
    monkeypatch.setattr(proctree.procstat, "stat", lambda pid: Stat("S", now[pid], 0, 0.0, 0))
    return left


def test_who_is_adopted_while_it_is_looked_is_below_its_new_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one between had ended before it was read: its child seemed to hang on nobody."""
    looks(monkeypatch, {CHILD: MIDDLE}, {CHILD: ROOT})
    assert proctree.below(ROOT) == [CHILD]


def test_where_parents_are_hidden_it_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {CHILD: ROOT, 13: 99}
    left = looks(monkeypatch, *[hidden] * (proctree.LOOKS + 1))
    assert proctree.below(ROOT) == [CHILD]
    assert len([*left]) == 1


def test_one_look_is_enough_where_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    left = looks(monkeypatch, {MIDDLE: ROOT, CHILD: MIDDLE}, {})
    assert proctree.below(ROOT) == [MIDDLE, CHILD]
    assert len([*left]) == 1
