"""What `holdfast goodput` and `status` say of where the time went, in words."""

from holdfast.cli.client import Problem
from holdfast.cli.goodput import rows
from holdfast.cli.status import _spent
from holdfast.driver.people.goodput.pieces import Bucket
from holdfast.page import spent

TOLD = {
    "wall_s": 100.0,
    "buckets_s": {"kept": 80.0, "repeated": 10.0, "detect": 5.0, "stop": 4.0, "fork": 1.0},
    "incidents": [{"buckets_s": {"detect": 5.0, "stop": 4.0}}, {"buckets_s": {"repeated": 10.0}}],
}


class Asked:
    """A driver that answers with this, or refuses."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def goodput(self, job: str) -> object:
        if isinstance(self.answer, Problem):
            raise self.answer
        return self.answer


def test_each_bucket_has_its_words() -> None:
    assert set(spent.WORDS) == set(spent.BRIEF) == {bucket.value for bucket in Bucket}


def test_a_bar_is_as_long_as_it_is_wide_whatever_it_shows() -> None:
    bar = spent.bar(TOLD["buckets_s"])  # type: ignore[arg-type]
    assert (len(bar), bar.count(spent.FULL), bar.count(spent.AGAIN)) == (spent.BAR, 24, 3)
    thirds = dict.fromkeys(("kept", "wait", "stop"), 1 / 3)
    assert len(spent.bar(thirds, 20)) == 20


def test_a_line_says_what_took_most() -> None:
    said = spent.line(TOLD)
    assert said.endswith(
        "80.0 % kept · 10 s done again · 5.0 s detecting · 4.0 s stopping · 1.0 s starting"
    )


def test_what_is_less_than_all_is_never_told_as_all() -> None:
    assert spent.share(9_999.9, 10_000.0) == "99.9 %"
    assert spent.share(5.0, 5.0) == "100.0 %"


def test_the_end_of_a_run_tells_what_faults_cost_and_nothing_where_none_did() -> None:
    assert spent.lost_to_faults(TOLD) == (
        "time: 80.0 % of 100 s kept training; "
        "faults cost 19 s: 10 s done again, 5.0 s detecting, 4.0 s stopping"
    )
    assert spent.lost_to_faults({**TOLD, "incidents": []}) == ""


def test_a_row_for_what_each_incident_cost_and_for_the_rest_counts_each_second_once() -> None:
    named = {"id": 1, "kind": "hang", "node": "node-1"}
    incidents = [{**named, **each} for each in TOLD["incidents"]]  # type: ignore[dict-item,attr-defined]
    found = list(rows({**TOLD, "job": "speech", "incidents": incidents}))
    assert sum(row["seconds"] for row in found) == TOLD["wall_s"]
    assert [row["bucket"] for row in found if row["id"] is None] == ["kept", "fork"]
    assert {row["job"] for row in found} == {"speech"}


def test_a_status_goes_on_where_the_time_is_not_told() -> None:
    job = {"name": "speech"}
    assert _spent(Asked(TOLD), job)[0].startswith("time    █")  # type: ignore[arg-type]
    assert _spent(Asked(Problem(404, {})), job) == []  # type: ignore[arg-type]
    away = Problem(503, {"detail": "the journal cannot be read"})
    assert _spent(Asked(away), job) == ["time    not known: the journal cannot be read"]  # type: ignore[arg-type]
