"""A person asks how nodes are: they are tested in stages, and nobody is evicted for it."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from suspects import STORING, hang, results

from holdfast.driver.batch.deadlines import Deadlines, next_deadline
from holdfast.driver.core import events as e
from holdfast.driver.core.testing import calibrating
from holdfast.driver.core.testing.asked import ALL_LEFT, KEPT_S, found
from holdfast.driver.core.testing.unknown import EARLY, good, unknown
from holdfast.driver.formats.encode import decode, encode
from holdfast.driver.people.admission import refuse


@pytest.fixture
def six(life):
    for number in range(6):
        life.node(f"n{number}")
    life.do(e.DiagnoseRequested(by="ada"))
    life.number = life.state.sequence
    return life


def exam(life):
    return found(life.state.exams.values(), life.number)


def answer(life, *, bad=(), but=()) -> None:
    """Those under test tell what they found."""
    under_way = exam(life)
    for member in under_way.orders:
        if member not in but:
            told = results(under_way, member, bad=bad)
            life.do(e.DiagnosticEnded(node=member, id=under_way.id, results=told))


def test_all_are_good_after_one_stage_and_free_again(six) -> None:
    assert six.told("n3").diagnostics
    answer(six)
    verdict = exam(six).asked.verdict
    assert (verdict.bad, verdict.undecided, verdict.again) == ({}, (), {})
    assert any(why.endswith("are over: nothing is bad") for why in six.whys)
    assert all(node.exam is None for node in six.state.nodes.values())
    assert six.told("n3").diagnostics == ()


@pytest.mark.parametrize("bad", [("n2",), ("n2", "n3"), ("n0", "n5"), ("n1", "n3")])
def test_who_fails_is_bad_after_a_second_stage_beside_others_and_nobody_is_evicted(
    six, bad
) -> None:
    answer(six, bad=bad)
    assert exam(six).asked.verdict is None
    assert set(bad) <= set(exam(six).orders)
    while exam(six).asked.verdict is None:
        answer(six, bad=bad)
    assert set(exam(six).asked.verdict.bad) == set(bad)
    assert six.evicted == []


def test_a_result_that_lies_convicts_nobody(six) -> None:
    answer(six, bad=("n4",))
    answer(six)
    assert exam(six).asked.verdict.bad == {}


def test_who_is_silent_until_the_end_of_the_time_is_bad_and_its_partners_are_not(six) -> None:
    while exam(six).asked.verdict is None:
        answer(six, bad=("n4",), but=("n4",))
        six.wait(until_s=six.now + 61)
    assert exam(six).asked.verdict.bad == {"n4": "node"}


def test_a_job_that_needs_a_node_has_it_and_its_partners_are_not_blamed(six) -> None:
    six.submit(nodes=2)
    taken = six.job.places
    six.tick()
    assert not set(taken) & {n for n, node in six.state.nodes.items() if node.exam}
    answer(six, bad=taken, but=taken)
    while exam(six).asked.verdict is None:
        answer(six)
    assert exam(six).asked.verdict.bad == {}


def test_who_asked_ends_it_and_what_came_of_it_is_kept_for_a_while(six) -> None:
    six.do(e.DiagnoseEndRequested(diagnosis=six.number, by="ada"))
    assert exam(six).asked.why == "ada ended it"
    assert set(unknown(exam(six).asked).values()) == {EARLY}
    assert all(node.exam is None for node in six.state.nodes.values())
    assert (exam(six).orders, exam(six).results) == ({}, {})
    six.state = decode(encode(six.state))
    assert next_deadline(six.state) == Deadlines(six.state).next_s() == six.now + KEPT_S
    six.now += KEPT_S
    six.tick()
    assert exam(six) is None


@pytest.mark.parametrize("helped", [True, False])
def test_where_all_in_question_have_left_it_ends_and_says_so(life, helped) -> None:
    for number in range(3 if helped else 1):
        life.node(f"n{number}")
    life.do(e.DiagnoseRequested(nodes=("n0",)))
    life.number = life.state.sequence
    life.do(e.ExecutorConnected(node="n0", incarnation="another", address="n0"))
    assert next_deadline(life.state) == Deadlines(life.state).next_s() == life.now
    life.tick()
    assert exam(life).asked.why == ALL_LEFT
    assert exam(life).asked.stages == ()
    assert all(node.exam is None for node in life.state.nodes.values())


def test_of_one_node_others_help(life) -> None:
    for number in range(6):
        life.node(f"n{number}")
    life.do(e.DiagnoseRequested(nodes=("n5",)))
    (only,) = life.state.exams.values()
    assert len(only.orders) == 4  # one more makes the circle even
    assert only.asked.nodes == ("n5",)


def test_what_cannot_be_asked_is_said_in_a_sentence(six, training) -> None:
    said = str(refuse(six.state, e.DiagnoseRequested(nodes=("n9",))))
    assert said.startswith("nodes: there is no 'n9'.")
    said = str(refuse(six.state, e.DiagnoseRequested(nodes=("n1",))))
    assert "it takes part in tests" in said
    assert "none can be tested now" in str(refuse(six.state, e.DiagnoseRequested()))
    assert "there is no 99" in str(refuse(six.state, e.DiagnoseEndRequested(diagnosis=99)))
    trains = training(nodes=2)
    said = str(refuse(trains.state, e.DiagnoseRequested(nodes=("n0",))))
    assert "ranks run there" in said


def test_a_hung_job_has_its_helpers_from_those_in_test_at_once(training) -> None:
    life = training(nodes=2, spare=3, task=STORING)
    life.do(e.DiagnoseRequested())
    life.number = life.state.sequence
    hang(life, "n1")
    tests = life.state.exams[life.job.exam]
    assert len(tests.orders) == 3
    (helper,) = set(tests.orders) - set(life.job.places)
    answer(life, but=(helper,))
    assert exam(life).asked.verdict.bad == {}
    assert helper not in exam(life).asked.stages[0].orders


def test_a_second_diagnosis_takes_no_node_from_the_first(six) -> None:
    first = six.number
    six.node("n6")
    six.do(e.DiagnoseRequested(nodes=("n6",), by="bob"))
    assert set(exam(six).orders) == {f"n{number}" for number in range(6)}
    six.number = six.state.sequence
    assert first != six.number
    assert set(exam(six).orders) == {"n6"}


def test_nodes_of_jobs_with_ranks_are_left_out_with_the_reason(training) -> None:
    life = training(nodes=2, spare=3)
    life.do(e.DiagnoseRequested())
    asked = next(each.asked for each in life.state.exams.values() if each.asked)
    assert set(asked.left_out) == set(life.job.places)
    assert not set(asked.nodes) & set(life.job.places)


def test_what_healthy_nodes_reach_by_the_way_is_kept_until_a_person_has_it_measured(six) -> None:
    answer(six)
    by_the_way = six.state.figures["compute"]
    assert (by_the_way.asked, by_the_way.nodes, by_the_way.median) == (False, 6, 50.0)
    six.do(e.CalibrateRequested(diagnosis=six.number, by="ada"))
    figure = decode(encode(six.state)).figures["compute"]
    assert (figure.asked, figure.bound, figure.drift) == (True, 37.5, None)
    six.do(e.DiagnoseRequested(by="ada"))
    six.number = six.state.sequence
    for member in exam(six).orders:
        told = tuple(replace(each, value=45.0) for each in results(exam(six), member))
        six.do(e.DiagnosticEnded(node=member, id=exam(six).id, results=told))
    six.do(e.CalibrateRequested(diagnosis=six.number, by="ada"))
    assert six.state.figures["compute"].drift == pytest.approx(-0.1)
    assert "datagrams" not in six.state.figures  # what passes there is no matter of fellows


def test_who_reaches_less_than_was_measured_is_bad_though_nobody_is_better(six) -> None:
    answer(six)
    six.do(e.CalibrateRequested(diagnosis=six.number, by="ada"))
    assert verdict_where_slow_are(six, ("n3",), asked=("n3",)).bad == {"n3": "compute"}


@pytest.mark.parametrize("sound", [True, False])
def test_of_two_slow_ones_it_is_known_where_others_pass(six, sound) -> None:
    answer(six)
    six.do(e.CalibrateRequested(diagnosis=six.number, by="ada"))
    slow = ("n0", "n1") if sound else tuple(six.state.nodes)
    verdict = verdict_where_slow_are(six, slow, asked=("n0", "n1"))
    assert verdict.bad == ({"n0": "compute", "n1": "compute"} if sound else {})
    assert set(unknown(exam(six).asked)) == (set() if sound else {"n0", "n1"})


def verdict_where_slow_are(life, slow, *, asked):
    life.do(e.DiagnoseRequested(nodes=asked))
    life.number = life.state.sequence
    while exam(life).asked.verdict is None:
        under_way = exam(life)
        for member in under_way.orders:
            told = results(under_way, member)
            if member in slow:
                told = tuple(each if each.members else replace(each, value=20.0) for each in told)
            life.do(e.DiagnosticEnded(node=member, id=under_way.id, results=told))
    return exam(life).asked.verdict


def test_what_was_to_be_reached_stays_with_it_however_that_changes_later(six) -> None:
    answer(six)
    six.do(e.CalibrateRequested(diagnosis=six.number, by="ada"))
    six.do(e.DiagnoseRequested(by="ada"))
    six.number = six.state.sequence
    known = exam(six).asked.known
    assert known.bounds["compute"] == 37.5
    answer(six)
    six.do(e.CalibrateRequested(diagnosis=six.number, by="ada"))
    six.state = replace(six.state, figures={})
    assert decode(encode(six.state)).exams == six.state.exams
    assert exam(six).asked.known == known


def test_of_a_diagnosis_in_which_a_node_is_bad_nothing_is_kept(six) -> None:
    while exam(six).asked.verdict is None:
        answer(six, bad=("n4",))
    said = str(refuse(six.state, e.CalibrateRequested(diagnosis=six.number)))
    assert "of n4 is bad, and nothing is kept" in said


def test_of_what_nothing_can_be_learned_is_said_in_a_sentence(six) -> None:
    said = str(refuse(six.state, e.CalibrateRequested(diagnosis=six.number)))
    assert "is not over" in said
    assert "there is no 99" in str(refuse(six.state, e.CalibrateRequested(diagnosis=99)))
    six.do(e.DiagnoseEndRequested(diagnosis=six.number, by="ada"))
    said = str(refuse(six.state, e.CalibrateRequested(diagnosis=six.number)))
    assert "0 of its nodes are good, and 3 are needed" in said


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e308, -5.0, 0.0])
def test_what_is_no_sane_number_is_nobodys_measure(six, value) -> None:
    """Also where all tell it: a node may tell whatever it likes, and the driver goes on."""
    for lying in ({"n2"}, set(six.state.nodes)):
        six.do(e.DiagnoseRequested(by="ada"))
        six.number = six.number if exam(six).asked.verdict is None else six.state.sequence
        while exam(six).asked.verdict is None:
            under_way = exam(six)
            for member in under_way.orders:
                told = tuple(
                    replace(each, value=value if lying & {*each.members, member} else 50.0)
                    for each in results(under_way, member)
                )
                six.do(e.DiagnosticEnded(node=member, id=under_way.id, results=told))
        assert set(exam(six).asked.verdict.bad) <= lying
        if refuse(six.state, e.CalibrateRequested(diagnosis=six.number)) is None:
            six.do(e.CalibrateRequested(diagnosis=six.number, by="ada"))


@pytest.mark.parametrize(
    "unsettled",
    [
        pytest.param({"undecided": ("n1",)}, id="its results differ"),
        pytest.param({"again": {"n1": "compute"}}, id="it failed once"),
    ],
)
def test_of_whom_it_is_not_known_is_not_good_and_nothing_is_learned_by_the_way(
    six, unsettled
) -> None:
    answer(six)
    asked = exam(six).asked
    verdict = replace(asked.verdict, **unsettled)
    of = replace(asked, verdict=verdict)
    assert set(good(of)) == set(asked.nodes) - {"n1"}
    turn = SimpleNamespace(figures={}, now=0.0)
    calibrating.learn(turn, of)
    assert turn.figures == {}
    calibrating.learn(turn, asked)
    assert turn.figures["compute"].nodes == 6
