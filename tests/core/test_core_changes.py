"""What a decision may replace of a value is typed as the value is."""

from typing import Any, get_type_hints

import pytest

from holdfast.driver.core.state.changes import IncidentChanges, JobChanges, NodeChanges
from holdfast.driver.core.state.model import Incident, Job
from holdfast.driver.core.state.node import Node

FIXED = {
    Node: {"name"},
    Job: {"name", "versions", "phase", "number", "submitted_s", "since_s", "layout", "vacant"},
    Incident: {"id", "opened", "found_s"},
}
"""Never changed, or by a function of their own."""


@pytest.mark.parametrize(
    ("value", "changes"), [(Node, NodeChanges), (Job, JobChanges), (Incident, IncidentChanges)]
)
def test_every_field_is_there_with_its_type(value: type[Any], changes: type[Any]) -> None:
    fields = {name: kind for name, kind in get_type_hints(value).items() if name[0] != "_"}
    assert get_type_hints(changes) == {
        name: kind for name, kind in fields.items() if name not in FIXED[value]
    }
