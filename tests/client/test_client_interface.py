"""The client knows the driver's whole interface: what is written of it is what the driver has."""

import inspect
from typing import Any

import pytest

from holdfast.client import AsyncClient, Client, models
from holdfast.client.following import Event
from holdfast.driver.adapters.rest.events import entry_view
from holdfast.driver.core.events import Ticked
from holdfast.driver.ports import Entry
from holdfast.lab.client import methods
from holdfast.lab.client.__main__ import ROOT, files, interface, laid_out
from holdfast.lab.client.models import annotation

FIX = "Run: make client"


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return files()


@pytest.mark.parametrize("name", ["models.py", "operations.py"])
def test_the_files_are_what_the_interface_says(written: dict[str, str], name: str) -> None:
    assert (ROOT / name).read_text() == laid_out(name, written[name]), FIX


def test_each_operation_has_one_method_of_both_clients() -> None:
    known = {**methods.NAMES, **methods.BY_HAND}
    assert {each.name for each in interface()} == set(known)
    for name in known.values():
        assert callable(getattr(Client, name, None)), name
        assert callable(getattr(AsyncClient, name, None)), name


def test_both_clients_take_the_same_arguments() -> None:
    for name in [each for each in dir(AsyncClient) if not each.startswith("_")]:
        ours, theirs = getattr(Client, name), getattr(AsyncClient, name)
        taken = [inspect.signature(each).parameters for each in (ours, theirs)]
        assert list(taken[0]) == list(taken[1]), name


def test_an_event_has_what_the_driver_tells() -> None:
    entry = Entry(
        sequence=1, term=1, now=0.0, at="", policy=1, event=Ticked(), effects=(), why="because"
    )
    assert set(entry_view(entry)) == {*Event.__struct_fields__}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (dict[int, list[str]], "dict[int, list[str]]"),
        (float | None, "float | None"),
        (tuple[str, ...], "tuple[str, ...]"),
        (dict[str, Any], "dict[str, Any]"),
    ],
)
def test_types_are_written_as_they_are(kind: Any, text: str) -> None:
    assert annotation(kind) == text


def test_what_a_newer_driver_tells_beside_is_passed_over() -> None:
    import msgspec

    told = {"name": "a", "sequence": 1, "why": "", "colour": "red"}
    assert msgspec.convert(told, models.Done) == models.Done(name="a", sequence=1, why="")
