"""Places are filled in the order of a look along all free nodes, which nobody takes."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.conftest import Life

from holdfast.driver.core import events as e
from holdfast.driver.core.job import candidates
from holdfast.driver.core.job.candidates import Nearest, fitting, nearest
from holdfast.driver.core.job.move_on_suspicion import LEFT
from holdfast.driver.core.state.fact import About, Act, Bearing, Fact, OfNode, OfVersion
from holdfast.driver.core.state.model import Tried
from holdfast.driver.core.turn import Turn

OWN, FREE = 3, 8
NAMES = [f"n{k}" for k in range(OWN + FREE)]
names = st.sampled_from(NAMES)
racks = st.lists(st.sampled_from("abc"), min_size=OWN + FREE, max_size=OWN + FREE)


def was_left(node: str, at_s: float) -> Fact:
    """That the job left the node without proof against it."""
    return Fact(
        subject=OfVersion(job="job", number=1),
        what=LEFT,
        bearing=Bearing.CONTEXT,
        at_s=at_s,
        about=About(job="job", node=OfNode(name=node)),
        done=Act.MOVE_COLD,
    )


@given(
    racks=racks,
    tried=st.sets(names),
    moved=st.sets(names, max_size=3),
    apart=st.lists(st.lists(names, min_size=2, max_size=2, unique=True).map(sorted), max_size=3),
)
def test_the_next_one_is_the_first_of_the_nearest(
    *, racks: list[str], tried: set[str], moved: set[str], apart: list[list[str]]
) -> None:
    life = Life()
    life.do(e.DriverStarted(term=1))
    for name, rack in zip(NAMES, racks, strict=True):
        life.do(e.NodeAppeared(node=name, rack=rack))
    life.submit(nodes=OWN + FREE)
    places = (*NAMES[:OWN], *FREE * [""])
    turn = Turn(life.state, life.now, life.policy)
    turn.put_job(
        replace(
            turn.places("job", places),
            tried={name: Tried(at=k) for k, name in enumerate(sorted(tried))},
            facts=tuple(was_left(node, life.now) for node in sorted(moved)),
        )
    )
    for two in apart:
        candidates.note_pair(turn, two, "tests", Bearing.CONVICTS, About())
    left = fitting(turn, turn.jobs["job"], NAMES[OWN:])
    may = Nearest(turn, turn.jobs["job"], left)
    for place in range(OWN, OWN + FREE):
        job = turn.jobs["job"]
        node = may.first(job)
        assert node == nearest(turn, job, left)[0]
        assert node is not None
        places = (*places[:place], node, *places[place + 1 :])
        turn.places("job", places)
        may.seated(node)
        left.remove(node)
    assert may.first(turn.jobs["job"]) is None
    assert may.taken == list(places[OWN:])
