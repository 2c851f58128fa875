"""What `holdfast goodput` and `status` say of where the time went, in words."""

import pytest

from holdfast.cli.client import Problem
from holdfast.cli.errors import Stopped
from holdfast.cli.goodput import seconds
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


@pytest.mark.parametrize(
    ("written", "took_s"), [("45m", 2_700), ("12h", 43_200), ("1.5d", 129_600)]
)
def test_a_time_is_a_number_and_a_unit(written: str, took_s: float) -> None:
    assert seconds(written) == took_s


@pytest.mark.parametrize(
    "written", ["", "30", "d", "-1d", "0h", "93d", "nand", "1 d", "1w", "9" * 400 + "d"]
)
def test_another_one_is_refused_with_how_it_is_written(written: str) -> None:
    with pytest.raises(Stopped, match="--since") as refused:
        seconds(written)
    assert "92d" in refused.value.fix


def test_a_status_goes_on_where_the_time_is_not_told() -> None:
    job = {"name": "speech"}
    assert _spent(Asked(TOLD), job)[0].startswith("time    █")  # type: ignore[arg-type]
    assert _spent(Asked(Problem(404, {})), job) == []  # type: ignore[arg-type]
    away = Problem(503, {"detail": "the journal cannot be read"})
    assert _spent(Asked(away), job) == ["time    not known: the journal cannot be read"]  # type: ignore[arg-type]
