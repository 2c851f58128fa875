"""One start of a job is an attempt in all that people see: an epoch is a pass over their data."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import typer

from holdfast.cli.main import app
from holdfast.driver.adapters.kubernetes import crd
from holdfast.driver.adapters.rest.app import make_app
from holdfast.driver.adapters.rest.events import entry_view
from holdfast.driver.core import events as e
from holdfast.driver.ports import Entry
from holdfast.driver.settings import Settings
from holdfast.kit.clock import SystemClock
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Snapshot, Stored

ROOT = Path(__file__).parents[2]
PARTS = sorted(path.resolve() for path in (ROOT / "src" / "holdfast").iterdir() if path.is_dir())
NAMES = {
    "HOLDFAST_EPOCH",
    "Observed.epoch",  # the member of a message
    "epoch",  # likewise, and a group of the next pattern
    r"(?P<job>[\w.-]{1,200})\.e(?P<epoch>\d{1,9})\.r(?P<rank>\d{1,9})\.ring",
    "-epoch-",  # of folders in the store
    r"step-(\d{8,})-epoch-(\d+)",
    "fence-epoch-",
    r"fence-epoch-(\d+)",
    "epoch-grows",  # rules of the simulator
    "job-epoch-grows",
    "one-table-an-epoch",
    "one-epoch-at-a-time",
    "no-order-of-an-older-epoch",
    r"the (rendezvous of attempt|store of epoch) \d+ listens on \S+",  # also in older journals
}
"""What is called so inside, and may be: nobody is told any of it as a sentence."""
EXPLAINED = re.compile(r"^- \*\*epoch\*\*: ", re.MULTILINE)
FOLDER = re.compile(r"(step-(\d+|…)|fence)-epoch-(\d+|N)")


def literals(source: str) -> Iterator[str]:
    """Every string of a module but those that stand alone, which are docstrings."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in alone:
            match node.value:
                case str(text):
                    yield text
                case bytes(data):
                    yield data.decode("latin-1")


def insiders(texts: Iterator[str]) -> list[str]:
    return [text for text in texts if "epoch" in text.lower() and text not in NAMES]


def members(value: Any) -> Iterator[str]:
    """The names of all members, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner)


def commands(command: click.Command, path: tuple[str, ...] = ("holdfast",)) -> Iterator[str]:
    """What --help says, of it and of all below it."""
    with click.Context(command, info_name=" ".join(path)) as context:
        yield command.get_help(context)
        for name, inner in getattr(command, "commands", {}).items():
            yield from commands(inner, (*path, name))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_no_text_of_ours_says_epoch(part: Path) -> None:
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in part.rglob("*.py")
        if (wrong := insiders(literals(path.read_text())))
    }
    assert found == {}


@pytest.mark.parametrize(
    "planted",
    ['say(f"{name} starts epoch {n}")', 'WHY = "of an older " "Epoch"', 'x = b"epoch 2"'],
)
def test_a_text_that_does_is_found(planted: str) -> None:
    assert insiders(literals(planted))


def test_all_parts_are_read() -> None:
    assert {"cli", "driver", "executor", "checkpoint", "daemon", "lab"} <= {p.name for p in PARTS}
    read = [path.read_text() for part in PARTS for path in part.rglob("*.py")]
    said = {text for source in read for text in literals(source)}
    assert NAMES - said == set(), "what nobody says any more is to be taken off the list"


def test_neither_does_any_help() -> None:
    shown = list(commands(typer.main.get_command(app)))
    assert len(shown) > 20
    assert [text for text in shown if "epoch" in text.lower()] == []


def test_neither_does_the_interface() -> None:
    settings = Settings(state=Path("nowhere"), _cli_parse_args=[])
    unasked = SimpleNamespace(settings=settings, clock=SystemClock())
    described = json.dumps(make_app(unasked).openapi())  # type: ignore[arg-type]
    assert "attempt" in described
    assert re.findall(r".{,60}epoch.{,60}", described, re.IGNORECASE) == []


def test_neither_does_the_custom_resource() -> None:
    assert "attempt:" in crd.text()
    assert re.findall(r".*epoch.*", crd.text(), re.IGNORECASE) == []


@pytest.mark.parametrize(
    "event",
    [
        e.NodeQuiet(
            job="speech",
            epoch=7,
            node="n1",
            snapshots=(Snapshot(rank=0, step=5, epoch=6),),
            stored=(Stored(step=5, epoch=6),),
        ),
        e.Found(
            finding=Finding(
                kind=Kind.HANG, weight=Weight.SUSPECT, job="speech", epoch=7, summary=""
            )
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_neither_does_an_entry_of_the_journal_as_it_is_streamed(event: e.Event) -> None:
    entry = Entry(
        sequence=3, term=1, now=1.0, at="", policy=1, event=event, why="", effects=(), jobs=(),
        incident=None,
    )  # fmt: skip
    shown = list(members(entry_view(entry)))
    assert {"sequence", "event", "job"} <= set(shown)
    assert "epoch" not in shown


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_neither_does_a_page(page: Path) -> None:
    """But for names of folders in the store, and where the glossary explains the word."""
    text = EXPLAINED.sub("", FOLDER.sub("", page.read_text()))
    assert re.findall(r".*epoch.*", text, re.IGNORECASE) == []
