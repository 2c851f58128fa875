"""Whom nobody accused a second failure with another partner convicts, and nothing else does."""

import pytest
from msgspec.structs import replace
from suspects import STORING, ends, hang, results, settle

from holdfast.driver.core import events as e
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.node import Lent, Suspect, Trusted
from holdfast.driver.formats.encode import decode, encode


def exam_of(life, node: str):
    return life.state.exams.get(life.state.nodes[node].exam or "")


def wrong(life, exam, bad: str) -> None:
    """One computes wrong, which every pair that it is in shows too."""
    for member in exam.orders:
        told = results(exam, member, bad=(bad,))
        marked = tuple(replace(each, wrong=not (each.ok or each.members)) for each in told)
        life.do(e.DiagnosticEnded(node=member, id=exam.id, results=marked))


@pytest.fixture
def two(training):
    """A job of two, n0 and n1, with nobody beside; n1 was suspected, and n0 failed its tests."""
    life = training(nodes=2, task=STORING)
    hang(life, "n1")
    wrong(life, life.state.exams[life.job.exam], "n0")
    return life


def test_where_nobody_new_is_there_who_failed_is_a_suspect_and_not_evicted(two) -> None:
    life = two
    node = life.state.nodes["n0"]
    assert isinstance(node.trust, Suspect)
    assert node.trust.beside == ("n1",)
    assert "its compute failed its tests, and nobody else is there" in life.job.why + life.whys[-1]
    assert life.evicted == []
    assert "n0" not in life.job.places
    assert not fits(Use.PLACE, life.job, node, life.now)


def left(life) -> None:
    """The job has left it, and its exam can begin."""
    life.answer(snapshots=[(7, life.job.epoch - 1)], stored=[(7, life.job.epoch - 1)])
    life.wait(until_s=life.now + 70)
    settle(life)
    assert "n0" not in life.job.places
    assert isinstance(life.state.nodes["n0"].holding, Lent)


def test_alone_its_tests_clear_it_or_leave_it_as_it_is_and_the_wait_doubles(two) -> None:
    life = two
    left(life)
    exam = exam_of(life, "n0")
    assert set(exam.orders) == {"n0"}
    wrong(life, exam, "n0")
    first = life.state.nodes["n0"]
    assert isinstance(first.trust, Suspect)
    assert first.trust.exam_s == life.now + life.policy.requalify_after_s
    settle(life)
    life.wait(until_s=first.trust.exam_s + 1)
    wrong(life, exam_of(life, "n0"), "n0")
    again = life.state.nodes["n0"]
    assert again.record.exam_wait_s == 2 * first.record.exam_wait_s
    settle(life)
    life.wait(until_s=again.trust.exam_s + 1)
    ends(life, "n0")
    assert life.evicted == []
    assert isinstance(life.state.nodes["n0"].trust, Trusted)


def test_once_others_are_there_it_is_tested_beside_them_and_convicted(two) -> None:
    life = two
    for name in ("n2", "n3", "n4"):  # one takes its place
        life.node(name)
    left(life)
    exam = exam_of(life, "n0")
    assert len(set(exam.orders) - {"n0", "n1"}) == 2
    wrong(life, exam, "n0")
    assert life.evicted == ["n0"]


def test_a_driver_that_takes_over_knows_with_whom_it_was_tested(two) -> None:
    life = two
    life.state = decode(encode(life.state))
    life.do(e.DriverStarted(term=2))
    assert life.state.nodes["n0"].trust.beside == ("n1",)


# ---------------------------------------------------------------- a third, between two


@pytest.fixture
def three(training):
    """n1 of (n0, n1) is suspected; n2 to n4 are nobody's."""
    life = training(nodes=2, spare=3)
    hang(life, "n1")
    return life


def helps(life) -> list[str]:
    exam = life.state.exams.get(life.job.exam or "")
    return [name for name in exam.orders if name not in life.job.members] if exam else []


def test_a_job_of_two_borrows_one_that_nobody_has_and_says_so(three) -> None:
    life = three
    assert life.phase is Phase.DIAGNOSING
    assert helps(life) == ["n2"]
    assert any("n2 only helps" in why for why in life.whys)
    assert life.told("n2").diagnostics
    assert life.state.nodes["n2"].job is None


@pytest.mark.parametrize("bad", ["n1", "n0"])
def test_with_it_is_known_which_of_the_two_it_was(three, bad: str) -> None:
    """The link, which between two is nobody's."""
    life = three
    while (exam := life.state.exams.get(life.job.exam or "")) is not None:
        for member in exam.orders:
            told = tuple(
                replace(each, ok=each.ok or not each.members)
                for each in results(exam, member, bad=(bad,))
            )
            life.do(e.DiagnosticEnded(node=member, id=exam.id, results=told))
    assert life.evicted == [bad]
    assert life.told("n2").diagnostics == ()
    assert not any(node.exam for node in life.state.nodes.values())


def test_for_a_second_failure_others_than_the_first_helper_are_borrowed(three) -> None:
    life = three
    first = life.state.exams[life.job.exam]
    wrong(life, first, "n0")
    second = life.state.exams[life.job.exam]
    assert (second.suspects, second.second) == (("n0",), True)
    assert set(second.orders) >= {"n3", "n4"}
    assert "n2" not in second.orders
    assert life.state.nodes["n2"].exam is None


def test_where_both_of_its_own_fail_it_is_their_image_and_nobody_is_convicted(three) -> None:
    life = three
    exam = life.state.exams[life.job.exam]
    for member in exam.orders:
        told = results(exam, member, bad=("n0", "n1"))
        life.do(e.DiagnosticEnded(node=member, id=exam.id, results=told))
    assert life.evicted == []
    assert not any(isinstance(node.trust, Suspect) for node in life.state.nodes.values())
    assert any(
        "2 of 2 nodes failed: more likely the test" in each.text for each in life.incident.evidence
    )


def test_a_borrowed_one_that_fails_is_convicted_of_nothing(three) -> None:
    life = three
    wrong(life, life.state.exams[life.job.exam], "n2")
    assert life.evicted == []
    assert life.job.exam is None
    node = life.state.nodes["n2"]
    assert (node.exam, node.trust) == (None, Trusted())


def test_a_borrowed_one_that_is_bad_saves_no_bad_one_of_the_job(three) -> None:
    """Two of three failed, and it was taken for the test's fault."""
    life = three
    exam = life.state.exams[life.job.exam]
    for member in exam.orders:
        told = results(exam, member, bad=("n1", "n2"))
        life.do(e.DiagnosticEnded(node=member, id=exam.id, results=told))
    assert life.evicted == ["n1"]


def test_nobody_waits_for_it(three) -> None:
    life = three
    life.submit("other", nodes=3)
    assert set(life.state.jobs["other"].places) == {"n2", "n3", "n4"}
    exam = life.state.exams[life.job.exam]
    assert life.state.nodes["n2"].exam is None
    for name in ("n0", "n1"):
        life.do(e.DiagnosticEnded(node=name, id=exam.id, results=results(exam, name)))
    assert life.job.exam is None
    assert life.evicted == []


@pytest.mark.parametrize("how", ["silent", "gone", "anew", "job ends", "driver dies"])
def test_it_goes_back_however_the_exam_ends(three, how: str) -> None:
    life = three
    exam = life.state.exams[life.job.exam]
    if how == "driver dies":
        life.state = decode(encode(life.state))
        life.do(e.DriverStarted(term=2))
        for name in ("n0", "n1", "n2"):
            life.connect(name, f"{name}-first")
    elif how == "anew":
        life.connect("n2", "n2-second")
    elif how == "silent":
        life.silence("n2")
        assert life.state.nodes["n2"].exam is None
    elif how == "gone":
        life.lose("n2")
    elif how == "job ends":
        life.do(e.StopRequested(job="job"))
    for name in ("n0", "n1"):
        life.do(e.DiagnosticEnded(node=name, id=exam.id, results=results(exam, name)))
    life.wait(until_s=life.now + life.job.plan.diagnose_s + 1)
    assert life.state.exams == {}
    assert not any(node.exam for node in life.state.nodes.values())
    assert life.evicted == []


def test_a_job_of_one_borrows_nobody(training) -> None:
    """Which node it was is known; and whether it is the image no other can tell."""
    life = training(nodes=1, spare=2)
    hang(life, "n0")
    assert helps(life) == []
