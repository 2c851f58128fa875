"""What a decision may replace of a value is typed as the value is."""

import ast
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from holdfast.driver import core
from holdfast.driver.core.events import NodeQuiet
from holdfast.driver.core.state.changes import IncidentChanges, JobChanges
from holdfast.driver.core.state.model import Fault, Incident, Job
from holdfast.driver.core.state.node import Node, Quiet
from holdfast.driver.watch.model import NodeSeen, SeenChanges
from holdfast.protocol.faults import Finding

CORE = Path(core.__file__).parent

FIXED = {
    Job: {"name", "versions", "phase", "number", "submitted_s", "since_s", "layout", "vacant"},
    Incident: {"id", "opened", "found_s"}
    | {"kind", "summary", "again_s", "stalled_s", "node", "rank", "faults", "latest", "rollbacks"},
    NodeSeen: {"node"},
}
"""Never changed, or by a function of their own."""


@pytest.mark.parametrize(
    ("value", "changes"), [(Job, JobChanges), (Incident, IncidentChanges), (NodeSeen, SeenChanges)]
)
def test_every_field_is_there_with_its_type(value: type[Any], changes: type[Any]) -> None:
    fields = {name: kind for name, kind in get_type_hints(value).items() if name[0] != "_"}
    assert get_type_hints(changes) == {
        name: kind for name, kind in fields.items() if name not in FIXED[value]
    }


@pytest.mark.parametrize(("told", "kept"), [(NodeQuiet, Quiet), (Finding, Fault)])
def test_what_is_taken_over_by_name_is_of_one_type(told: type[Any], kept: type[Any]) -> None:
    ours, theirs = get_type_hints(kept), get_type_hints(told)
    shared = {name: kind for name, kind in ours.items() if name in theirs and name[0] != "_"}
    assert shared == {name: theirs[name] for name in shared}
    assert kept is not Quiet or shared.keys() == {name for name in ours if name[0] != "_"}


def replaced(tree: ast.AST) -> set[str]:
    """Fields that are named where a value is replaced."""
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call))
    of_replace = (each for each in calls if ast.unparse(each.func) == "replace")
    return {word.arg for each in of_replace for word in each.keywords if word.arg}


def test_a_field_of_a_node_is_replaced_by_its_function_alone() -> None:
    """Which checks the way: nothing but `Turn` makes a node of another."""
    found = {path.name: replaced(ast.parse(path.read_text())) for path in CORE.rglob("*.py")}
    own = {name for name in get_type_hints(Node) if name[0] != "_"} - {"name"}
    assert found["turn.py"] >= own
    del found["turn.py"]
    assert {name for name, fields in found.items() if fields & own} == set()
