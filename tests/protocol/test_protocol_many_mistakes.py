"""A document with tens of thousands of mistakes: a hundred are told, and all take linear work."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.protocol import mistakes
from holdfast.protocol.jobcheck import check
from holdfast.protocol.mistakes import MOST_TOLD, BadDocument

COUNT = 1_000


def job(**spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
    return {**head, "metadata": {"name": "speech"}, "spec": {"command": ["train"], **spec}}


MANY: dict[str, Callable[[int], dict[str, Any]]] = {
    "unknown keys": lambda n: job(**{f"key{k}": 1 for k in range(n)}),
    "unknown keys outside": lambda n: {**job(), **{f"key{k}": 1 for k in range(n)}},
    "bad values": lambda n: job(command=[1] * n),
    "bad names": lambda n: job(env={f"a b{k}": "x" for k in range(n)}),
    "unusable texts": lambda n: job(command=["\0"] * n),
    "unusable names": lambda n: job(env={f"\0{k}": "x" for k in range(n)}),
    "unknown keys in a list": lambda n: job(logRules=[{"pattern": "a", "x": k} for k in range(n)]),
}


def refused(document: Any) -> BadDocument:
    with pytest.raises(BadDocument) as caught:
        check(document)
    return caught.value


def calls(document: Any) -> int:
    """Of functions, Python's and C's: the same in each run, however busy the machine is."""
    count = 0

    def note(_frame: object, what: str, _argument: object) -> None:
        nonlocal count
        count += what in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        refused(document)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("kind", MANY)
def test_a_hundred_are_told_and_the_others_counted(kind: str) -> None:
    bad = refused(MANY[kind](COUNT))
    assert len(bad.mistakes) == MOST_TOLD
    assert COUNT - MOST_TOLD <= bad.more <= 2 * COUNT
    assert bad.sentences[-1] == f"and {bad.more:,} more"
    assert str(bad).endswith(f"; and {bad.more:,} more")


@pytest.mark.parametrize("kind", MANY)
def test_twice_as_many_take_twice_the_work(kind: str) -> None:
    document = MANY[kind]
    refused(document(10))  # what is done once
    assert calls(document(4 * COUNT)) < 2.5 * calls(document(2 * COUNT))


def test_only_what_is_told_is_put_into_words(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(name: str, *_: Any, **__: Any) -> list[str]:
        compared.append(name)
        return []

    monkeypatch.setattr(mistakes.alike, "near", compare)
    refused(MANY["unknown keys"](COUNT))
    assert len(compared) == MOST_TOLD


def test_few_are_told_whole() -> None:
    bad = refused(MANY["unknown keys"](MOST_TOLD))
    assert (len(bad.mistakes), bad.more) == (MOST_TOLD, 0)
    assert "more" not in str(bad).rpartition(";")[2]


def test_many_names_in_one_mistake_are_cut() -> None:
    (mistake,) = refused(job(env={f"HOLDFAST_{k}": "x" for k in range(COUNT)})).mistakes
    assert "and 980 more are set by Holdfast" in mistake.why


def test_what_is_nested_too_deeply_is_a_sentence() -> None:
    deep: list[Any] = []
    for _ in range(400):
        deep = [deep]
    (mistake,) = refused(job(env=deep)).mistakes
    assert str(mistake).startswith("document: it cannot be read: ")
    assert mistake.value == ""
