"""What is shown, as rows for other programs: of digests, of the worst, of curves and of bursts."""

import csv
import io
import json
from typing import Any

import pytest

from holdfast.cli import burst, curves, digest, nodes, worst
from holdfast.cli.tabular import Format
from holdfast.driver.adapters.rest.examples import ANSWERS

CURVES: dict[str, Any] = {
    "job": "speech",
    "every_s": 1.0,
    "at_s": [0.0, 1.0, 2.0, 3.0],
    "step": [1, 2, 2, 3],
    "loss": [3.0, None, 2.0, 1.5],
    "step_s": [0.5, 0.5, None, 0.5],
    "memory_bytes": [2**20, 2**20, 2**20, None],
    "gpu_memory_bytes": [None, 3 * 2**20, None, None],
    "marks": [
        {"incident": 1, "at_s": 1.0, "until_s": 2.0, "says": "rank 1 died"},
        {"incident": 2, "at_s": 2.5, "until_s": None, "says": "rank 2 died"},
        {"incident": 3, "at_s": 3.0, "until_s": None, "says": "rank 3 died"},
    ],
    "missing": [],
}


def test_each_moment_of_a_curve_has_the_newest_incident_that_it_was_not_past() -> None:
    found = list(curves.rows(CURVES))
    assert [row["incident"] for row in found] == [None, 1, None, 3]
    assert found[1] == {
        "job": "speech",
        "at_s": 1.0,
        "step": 2,
        "loss": None,
        "step_s": 0.5,
        "memory_bytes": 2**20,
        "gpu_memory_bytes": 3 * 2**20,
        "incident": 1,
    }


def test_a_long_curve_is_thinned_on_a_screen_and_its_last_moment_is_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = 2 * curves.TABLE_ROWS + 2
    rows = [{**next(curves.rows(CURVES)), "step": 1000 + at} for at in range(count)]
    curves._show(rows)
    said = capsys.readouterr().out
    assert str(1000 + count - 1) in said
    assert f"one of 3 of {count} moments" in said
    assert sum("MiB" in line for line in said.splitlines()) <= curves.TABLE_ROWS


def test_a_digest_has_a_row_each_kind_each_node_and_the_whole() -> None:
    told = ANSWERS["GET /digest"]
    found = digest.rows(told)
    kinds, listed = told["kinds"], told["nodes"]
    assert [row["of"] for row in found] == ["kind"] * len(kinds) + ["node"] * len(listed) + ["all"]
    assert [row["name"] for row in found[:-1]] == [
        *(each["kind"] for each in kinds),
        *(each["node"] for each in listed),
    ]
    assert found[-1]["lost_s"] == told["lost_s"]
    assert sum(row["lost_s"] for row in found if row["of"] == "kind") == pytest.approx(
        told["lost_s"]
    )


def test_all_that_is_held_against_nodes_and_others_is_one_list() -> None:
    told = ANSWERS["GET /evidence"]
    found = list(worst.rows_of(told))
    lists = {"node": "nodes", "link": "links", "version": "versions"}
    lists |= {"store": "stores", "cluster": "cluster"}
    assert [row["of"] for row in found] == [of for of, name in lists.items() for _ in told[name]]
    assert [row["node"] for row in found if row["of"] == "node"] == [
        each["node"] for each in told["nodes"]
    ]


class Asked:
    """A driver that answers with examples."""

    def worst(self, most: int) -> dict[str, Any]:
        return dict(ANSWERS["GET /evidence"])

    def digest(self, since_s: float) -> dict[str, Any]:
        return dict(ANSWERS["GET /digest"])

    def job(self, name: str) -> dict[str, Any]:
        return {"name": name}

    def curves(self, job: str) -> dict[str, Any]:
        return {**CURVES, "job": job}

    def bursts(self, job: str) -> dict[str, Any]:
        return {"job": job, "items": [{"id": 1, "node": "node-1"}]}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.cli import asking

    monkeypatch.setattr(asking, "source", lambda *_: (Asked(), True))


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    "typed",
    [
        lambda form: worst.show(3, form, None, None, json=False),
        lambda form: digest.digest("7d", form=form),
        lambda form: curves.curves("speech", form=form),
        lambda form: burst.list_bursts("speech", form=form),
    ],
    ids=["worst", "digest", "curves", "bursts"],
)
def test_csv_and_json_have_the_same_rows(typed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    typed(Format.JSON)
    told = json.loads(capsys.readouterr().out)
    typed(Format.CSV)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == len(told) > 0
    assert set(rows[0]) == {name for row in told for name in row}


def test_the_nodes_are_listed_so_without_naming_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    typed: list[Format] = []
    monkeypatch.setattr(nodes, "list_nodes", lambda form, *_: typed.append(form))

    class Context:
        invoked_subcommand = None

    nodes._nodes(Context(), form=Format.CSV)  # type: ignore[arg-type]
    assert typed == [Format.CSV]
