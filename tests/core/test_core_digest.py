"""What a digest counts: what was in its window, each incident once, the dearest first."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.digest import lines
from holdfast.driver.adapters.rest.costs import FleetGoodput, fleet_view
from holdfast.driver.adapters.rest.digests import digest_view
from holdfast.driver.core.state.model import Incident, State
from holdfast.driver.people.digest import digest
from holdfast.driver.people.goodput.fleet import Fleet
from holdfast.driver.people.goodput.pieces import Bucket
from holdfast.protocol.faults import Blame, Kind

WEEK_S = 604_800.0
NOW_S = 2_000_000.0


def incident(number: int, ago_s: float, took_s: float | None = 10.0, **more: object) -> Incident:
    found_s = NOW_S - ago_s
    told: dict[str, object] = {"node": "node-1", "evicted": ("node-1",)} | more
    return Incident(
        id=number,
        opened=number,
        kind=Kind.NODE_LOST,
        blame=Blame.INFRASTRUCTURE,
        found_s=found_s,
        summary="",
        resumed_s=None if took_s is None else found_s + took_s,
        closed_s=None if took_s is None else found_s + took_s,
        **told,  # type: ignore[arg-type]
    )


def of(*known: Incident, since_s: float = WEEK_S) -> State:
    return State(incidents={each.id: each for each in known})


def test_what_is_older_than_the_window_is_not_counted() -> None:
    state = of(incident(1, WEEK_S + 1), incident(2, 60))
    found = digest(state, now=NOW_S, since_s=WEEK_S)
    assert (found.jobs.faults, found.jobs.lost_s) == (1, 10.0)
    assert [each.node for each in found.nodes] == ["node-1"]


def test_what_is_open_is_counted_however_old_and_named() -> None:
    found = digest(of(incident(1, WEEK_S * 2, None)), now=NOW_S, since_s=WEEK_S)
    assert found.open == [1]
    assert found.jobs.faults == 1
    assert found.jobs.lost_s == 0.0


def test_the_dearest_come_first() -> None:
    state = of(
        incident(1, 60, 5.0, node="cheap"),
        incident(2, 60, 50.0, node="dear"),
        incident(3, 60, 1.0, node="cheap"),
    )
    found = digest(state, now=NOW_S, since_s=WEEK_S)
    assert [(each.node, each.incidents, each.lost_s) for each in found.nodes] == [
        ("dear", 1, 50.0),
        ("cheap", 2, 6.0),
    ]


def test_a_digest_whose_time_is_longer_than_memory_says_so() -> None:
    assert digest(of(incident(1, 60)), now=NOW_S, since_s=WEEK_S).whole
    assert not digest(of(incident(7, 60)), now=NOW_S, since_s=WEEK_S).whole
    assert any("forgotten" in line for line in lines(_told(nothing_ran())))


def test_it_says_where_the_time_of_jobs_went() -> None:
    ran = Fleet(jobs=1, wall_s=100.0, buckets_s={Bucket.KEPT: 90.0, Bucket.DETECT: 10.0})
    told = lines(_told(fleet_view(ran, window_s=WEEK_S, most=10)))
    assert "time    100 s, ETTR 0.900" in told
    assert any(line.endswith("90.0 % kept · 10 s detecting") for line in told)
    assert not any(line.startswith("time") for line in lines(_told(nothing_ran())))


def _told(goodput: FleetGoodput) -> dict[str, Any]:
    view = digest_view(of(incident(7, 60)), goodput, now=NOW_S, since_s=WEEK_S)
    return view.model_dump()


def nothing_ran() -> FleetGoodput:
    return fleet_view(Fleet(jobs=0, wall_s=0.0, buckets_s={}), window_s=WEEK_S, most=10)


@given(st.lists(st.tuples(st.floats(0, 2 * WEEK_S), st.floats(0, 1e5)), max_size=20))
def test_kinds_and_nodes_add_up(made: list[tuple[float, float]]) -> None:
    known = [incident(number, *each) for number, each in enumerate(made, 1)]
    found = digest(of(*known), now=NOW_S, since_s=WEEK_S)
    for parts in (found.kinds, found.nodes):
        assert abs(sum(each.lost_s for each in parts) - found.jobs.lost_s) < 1e-6
        assert sum(each.incidents for each in parts) == found.jobs.faults
