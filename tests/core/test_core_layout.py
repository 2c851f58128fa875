"""How ranks lie on places, and which layout and version an attempt names."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.core.state.layout import Layout
from holdfast.driver.core.state.versions import Version

NAMES = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6, unique=True)


@st.composite
def layouts(draw: st.DrawFn, *, vacant: bool = True) -> Layout:
    names = draw(NAMES)
    places = [draw(st.sampled_from([name, ""])) if vacant else name for name in names]
    each = draw(st.integers(1, 9))
    return Layout(nodes=len(names), ranks_per_node=each, places=tuple(places))


@given(layouts())
def test_each_rank_has_one_place(layout: Layout) -> None:
    ranks = [rank for place in range(layout.nodes) for rank in layout.ranks_at(place)]
    assert ranks == list(range(layout.world_size))
    for place, node in enumerate(layout.places):
        assert {layout.node_of(rank) for rank in layout.ranks_at(place)} == {node}
        assert not node or layout.ranks_on(node) == layout.ranks_at(place)


@given(layouts(vacant=False))
def test_its_seats_are_the_rank_table(layout: Layout) -> None:
    seats = layout.seats({node: f"{node}.local" for node in layout.places})
    assert [seat.rank for seat in seats] == list(range(layout.world_size))
    for seat in seats:
        own = layout.ranks_on(seat.node)
        assert own[seat.local_rank] == seat.rank
        assert seat.address == f"{seat.node}.local"


@given(layouts(), st.data())
def test_ranks_keep_their_numbers_when_a_node_is_replaced(layout: Layout, data) -> None:
    place = data.draw(st.integers(0, layout.nodes - 1))
    places = (*layout.places[:place], "another", *layout.places[place + 1 :])
    moved = layout.with_places(places)
    assert moved.number == 0
    assert moved.ranks_on("another") == layout.ranks_at(place)
    assert moved.world_size == layout.world_size


def test_before_it_has_nodes_a_layout_has_its_size() -> None:
    layout = Layout(nodes=2, ranks_per_node=4)
    assert (layout.world_size, layout.node_of(5), layout.ranks_on("n0")) == (8, "", ())
    assert (layout.told(1), Layout(nodes=2, ranks_per_node=1).told(1)) == ("ranks 4 to 7", "rank 1")


def test_a_layout_gets_a_number_when_ranks_run_in_it_and_another_on_other_nodes(training) -> None:
    life = training(spare=1)
    assert life.job.layout.number == 1
    life.dies(1, signal=9)
    life.answer()
    assert life.job.layout.number == 1, "in place"
    life.lose("n1")
    assert life.job.layout.number == 0, "nothing has run there yet"
    life.answer()
    assert (life.job.places, life.job.layout.number) == (("n0", "n2"), 2)
    named = [(each.number, each.layout, each.version) for each in life.job.history]
    assert named == [(1, 1, 1), (2, 1, 1), (3, 2, 1)]


def test_a_submission_makes_version_1(training) -> None:
    job = training().job
    assert job.versions == (Version(number=1, plan=job.plan, at_s=job.submitted_s),)
    assert job.version.number == 1
