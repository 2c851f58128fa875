"""A name is suggested where it resembles what was typed, not where it shares letters with it."""

import pytest

from holdfast.kit import alike

FIELDS = ("logRules", "nodes", "maxRestarts", "timeouts", "topology", "stuckMaxS", "action")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bogus", []),
        ("x", []),
        ("", []),
        ("nodez", ["nodes"]),
        ("odes", ["nodes"]),
        ("actoin", ["action"]),
        ("log_rules", ["logRules"]),
        ("stuck-max-s", ["stuckMaxS"]),
        ("LOGRULES", ["logRules"]),
        ("restarts", ["maxRestarts"]),
    ],
)
def test_only_what_resembles_the_name_is_near(typed: str, meant: list[str]) -> None:
    assert alike.near(typed, FIELDS) == meant


def test_the_most_alike_come_first_and_once() -> None:
    assert alike.near("nod", ["nodes", "node", "node", "nodded"], most=2) == ["node", "nodes"]
