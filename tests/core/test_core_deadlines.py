"""Deadlines that are kept beside a state are those that a look through all of it finds.

Each simulated life checks that after each commit, too.
"""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.batch.deadlines import LEAST_STALE, Deadlines, next_deadline
from holdfast.driver.core.state.model import Brake, Exam, Purpose, State
from holdfast.driver.core.state.node import (
    Against,
    Awaited,
    ExamSetup,
    Free,
    Here,
    Lent,
    Node,
    Quarantined,
    Source,
    Trusted,
)

TIMES = st.one_of(st.none(), st.floats(0, 100))
NAMES = [f"n{at}" for at in range(4)]
EXAMS = {
    f"exam.{at}": Exam(
        id=f"exam.{at}", purpose=Purpose.STANDBY, until_s=float(at), orders={}, suspects=()
    )
    for at in range(1, 4)
}


@st.composite
def nodes(draw: st.DrawFn) -> Node | None:
    if draw(st.booleans()):
        return None
    rest_s = draw(TIMES)
    quarantine = Quarantined(why="", marked=True, setup=ExamSetup(job="job"), exam_s=draw(TIMES))
    rest = {} if rest_s is None else {Source.REST: Against(why="", until_s=rest_s)}
    return Node(
        name=draw(st.sampled_from(NAMES)),
        presence=Here(),
        link=Awaited(incarnation="a", address="", check_s=draw(TIMES)),
        holding=draw(st.sampled_from([Free(), Lent()])),
        against=rest,
        retry_s=draw(TIMES),
        exam=draw(st.sampled_from([None, *EXAMS])),
        trust=draw(st.sampled_from([Trusted(), quarantine])),
    )


@given(st.lists(st.tuples(st.sampled_from(NAMES), nodes(), st.booleans())))
def test_whatever_changes_the_next_deadline_is_known(
    changes: list[tuple[str, Node | None, bool]],
) -> None:
    state = State(exams=EXAMS)
    kept = Deadlines(state)
    for name, node, on in changes:
        others = {other: each for other, each in state.nodes.items() if other != name}
        known = {**others, name: node} if node is not None else others
        state = replace(state, nodes=known, brake=Brake(on=on))
        kept.follow(state, (), (name,))
        assert kept.next_s() == next_deadline(state)
        assert Deadlines(state).next_s() == next_deadline(state)


def test_what_holds_no_longer_is_not_kept_for_ever() -> None:
    state = State(nodes={"n0": Node(name="n0", retry_s=0.0)})
    kept = Deadlines(state)
    for at in range(3 * LEAST_STALE):
        state = State(nodes={"n0": Node(name="n0", retry_s=float(3 * LEAST_STALE - at))})
        kept.follow(state, (), ("n0",))
        assert len(kept._heap) <= LEAST_STALE + 2
    assert kept.next_s() == 1.0
