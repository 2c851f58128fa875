"""Whom a fact is of that a person types: a job of this name, else a node."""

from typing import Any

import pytest

from holdfast.cli import fact
from holdfast.cli.client import Problem
from holdfast.cli.main import main
from holdfast.protocol import exitcodes


class Driver:
    """Answers for the paths that it knows, with a status for each other."""

    def __init__(self, known: str, **statuses: int) -> None:
        self.known, self.statuses = known, statuses
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        kind = path.split("/")[-3]
        if kind != self.known:
            raise Problem(self.statuses.get(kind, 404), {"detail": f"there is no {kind}"})
        self.sent.append((path, body))
        return {"name": "node-7", "why": "a person clears node-7: x; the tests of node-7 are due"}


def typed(driver: Driver, patch: pytest.MonkeyPatch, *words: str) -> int:
    patch.setattr(fact, "client", lambda *_: driver)
    return main(["fact", "node-7", "cable replaced", *words])


def test_it_is_of_a_node_where_no_job_has_the_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = Driver("nodes")
    assert typed(driver, monkeypatch, "--clears") == 0
    ((path, body),) = driver.sent
    assert path.endswith("/nodes/node-7/facts")
    assert body == {"words": "cable replaced", "says": "clears"}
    assert capsys.readouterr().out == "the tests of node-7 are due\n"


def test_a_version_is_of_a_job_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(Driver("nodes"), monkeypatch, "--version", "2") == exitcodes.USAGE
    said = capsys.readouterr().err
    assert "--version: 2 is of 'node-7', which is no job" in said
    assert "Leave it out for a node, or name a job" in said
    driver = Driver("jobs")
    assert typed(driver, monkeypatch, "--version", "2") == 0
    assert driver.sent[0][1] == {"words": "cable replaced", "says": "context", "version": 2}


def test_a_version_that_a_job_does_not_have_is_said_to_be_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "version: 'speech-7b' has no version 3. Name one that it has: 1, 2."

    class Known(Driver):
        def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            field, _, rest = why.partition(": ")
            mistake = {"field": field, "value": "speech-7b", "why": rest, "fix": ""}
            raise Problem(404, {"detail": why, "errors": [mistake]})

    assert typed(Known("jobs"), monkeypatch, "--version", "3") == exitcodes.FAILED
    assert why in capsys.readouterr().err


def typed_of_link(driver: Driver, patch: pytest.MonkeyPatch, *words: str, link: str = "a:b") -> int:
    patch.setattr(fact, "client", lambda *_: driver)
    return main(["fact", "--link", link, *words])


def test_a_link_is_of_the_node_that_it_leads_from(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver("nodes")
    assert typed_of_link(driver, monkeypatch, "cable replaced", "--clears") == 0
    ((path, body),) = driver.sent
    assert path.endswith("/nodes/a/facts")
    assert body == {"words": "cable replaced", "says": "clears", "to": "b"}


@pytest.mark.parametrize(
    ("link", "words"),
    [("a", ["x"]), ("a:", ["x"]), ("a:b:c", ["x"]), ("a:a", ["x"]), ("a:b", ["node-7", "x"]),
     ("a:b", ["x", "--version", "2"])],
)  # fmt: skip
def test_what_is_no_link_is_a_mistake(
    link: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver("nodes")
    assert typed_of_link(driver, monkeypatch, *words, link=link) == exitcodes.USAGE
    assert driver.sent == []


@pytest.mark.parametrize(
    ("words", "missing"),
    [([], "NODE|JOB is"), (["node-7"], "WORDS are"), (["--link", "a:b"], "WORDS are")],
)
def test_without_words_there_is_no_fact(
    words: list[str],
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(fact, "client", lambda *_: Driver("nodes"))
    assert main(["fact", *words]) == exitcodes.USAGE
    assert f"{missing} missing." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ({}, exitcodes.FAILED),
        ({"jobs": 403, "nodes": 403}, exitcodes.CONFIGURATION),
        ({"jobs": 422}, exitcodes.USAGE),
        ({"nodes": 503}, exitcodes.TRY_AGAIN),
    ],
)
def test_where_it_is_of_nobody_that_is_told(
    statuses: dict[str, int], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typed(Driver("", **statuses), monkeypatch) == code


def test_of_nobody_it_says_where_the_names_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(Driver(""), monkeypatch)
    assert "`holdfast jobs` and `holdfast nodes` list what there is." in capsys.readouterr().err
