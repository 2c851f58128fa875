"""An incident as text, as JSON and as one file; lists for other programs."""

import csv
import io
import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli import incident, tabular
from holdfast.cli.errors import Stopped
from holdfast.cli.tabular import Format
from holdfast.driver.adapters.rest.examples import ANSWERS
from holdfast.page import report
from holdfast.page.waterfall import waterfall
from holdfast.telemetry.analysis.alike_stacks import alike

INCIDENT: dict[str, Any] = ANSWERS["GET /incidents/{number}"]
JOB: dict[str, Any] = ANSWERS["GET /jobs/{job}"]
LINES: list[dict[str, Any]] = ANSWERS["GET /jobs/{job}/story"]["lines"]
NODES: list[dict[str, Any]] = ANSWERS["GET /nodes"]["items"]
NASTY = '<script>alert(1)</script>" onload="x" \x1b[2J & {{ 7*7 }}'


class Read(HTMLParser):
    """What a browser would find: elements with their attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def written(found: dict[str, Any] = INCIDENT, job: dict[str, Any] = JOB, lines: Any = LINES) -> str:
    stacks = alike({int(rank): text for rank, text in found["stacks"].items()})
    return report.of(found, job, lines, stacks, made="2026-03-02 07:00", version="1")


def test_the_file_has_the_story_the_cost_and_the_hypotheses() -> None:
    words = " ".join(Read(written()).words.split())
    for part in (
        "Incident 1: node-4 is lost",
        "node-4 is gone",
        "Steps trained again 6",
        "decided",
        "3.52 s",
        "chosen",
        "dp 2 × pp 2 × tp 2",
    ):
        assert part in words


def spoilt(value: Any) -> Any:
    """Each text in it is another's."""
    if isinstance(value, dict):
        return {name: spoilt(each) for name, each in value.items()}
    if isinstance(value, list):
        return [spoilt(each) for each in value]
    return NASTY if isinstance(value, str) else value


def test_whatever_others_wrote_is_text_there() -> None:
    plain = Read(written({**INCIDENT, "stacks": {"0": "f"}}))
    nasty = spoilt(INCIDENT) | {"stacks": {"0": NASTY}}
    text = written(nasty, spoilt(JOB), [{**spoilt(each), "incident": 1} for each in LINES[:1]])
    found = Read(text)
    assert "<script>alert(1)</script>" in found.words
    assert "{{ 7*7 }}" in found.words
    assert "\x1b" not in text
    allowed = {tag for tag, _ in plain.elements}
    assert {tag for tag, _ in found.elements} <= allowed
    for tag, attributes in found.elements:
        assert tag not in ("script", "iframe", "img", "link", "object")
        assert not any(name.startswith("on") or name in ("src", "href") for name in attributes)


@given(st.dictionaries(st.text(max_size=5), st.floats(0, 1e6), max_size=8))
def test_the_waterfall_is_no_wider_than_all_of_it(stages: dict[str, float]) -> None:
    found = waterfall(stages)
    assert [each.stage for each in found] == list(stages)
    assert all(each.start + each.share <= 1.0001 for each in found)


def test_text_tells_what_was_seen_in_order() -> None:
    lines = list(incident.told(INCIDENT, LINES))
    assert lines[0] == "incident 1: node-4 is lost (over: back at step 207)"
    assert any("decided" in line for line in lines)


def test_an_incident_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(Stopped, match="speech had no incident 9") as stopped:
        incident._chosen([INCIDENT], "speech", 9)
    assert stopped.value.fix == "There is 1."
    with pytest.raises(Stopped, match="speech had no incident"):
        incident._chosen([], "speech", None)
    assert incident._chosen([INCIDENT], "speech", None) is INCIDENT


# ---------------------------------------------------------------- lists


def test_csv_has_a_column_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    tabular.write(NODES, Format.CSV)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["name"] for row in rows] == [node["name"] for node in NODES]
    assert set(rows[0]) == set(NODES[0])
    assert [json.loads(row["ranks"]) for row in rows] == [node["ranks"] for node in NODES]


def test_what_a_spreadsheet_would_run_is_text_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    tabular.write([{"name": "=cmd()", "step": -1}], Format.CSV)
    assert capsys.readouterr().out.splitlines() == ["name,step", "'=cmd(),-1"]


def test_json_is_what_the_driver_told(capsys: pytest.CaptureFixture[str]) -> None:
    tabular.write(NODES, Format.JSON)
    assert json.loads(capsys.readouterr().out) == NODES


def test_parquet_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "nodes.parquet"
    with path.open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        tabular.write(NODES, Format.PARQUET)
    with duckdb.connect() as database:
        found = database.execute(f"SELECT name, strikes FROM '{path}'").fetchall()
    assert found == [(node["name"], node["strikes"]) for node in NODES]


def test_without_duckdb_parquet_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(Stopped, match="DuckDB is not installed"):
        tabular.write(NODES, Format.PARQUET)
