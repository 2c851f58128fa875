"""Simulation and tests are proved by planted bugs: each is a small patch, and must be caught."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast

BUGS = Path(__file__).parent / "bugs"
ROOT = Path(holdfast.__file__).parent
NEEDED = ("kit", "protocol", "telemetry", "diagnostics", "driver", "lab")
SEEDS = 4_000

CAUGHT_BY = {
    "a-failed-trial-is-passed": {"trust-is-earned"},
    "a-fault-takes-a-suspend-back": {"what-people-suspend-rests"},
    "a-look-elsewhere-forgets-what-was-acknowledged": {"no-start-behind-what-was-acknowledged"},
    "a-node-that-comes-back-is-a-new-one": {"trust-is-earned", "what-people-evict-stays-out"},
    "a-notice-in-a-recovery-is-forgotten": {"who-has-a-notice-is-left-in-time"},
    "a-pass-makes-the-wait-short-again": {"who-fails-again-waits-longer"},
    "a-place-is-taken-in-the-middle-of-a-test": {"only-standbys-test-themselves"},
    "a-recovery-forgets-failed-standbys": {"a-wrong-test-has-two-victims"},
    "a-result-is-of-whatever-exam-is-open": {
        "no-job-stands-still-for-long",
        "who-answers-was-tested",
    },
    "a-standstill-counts-for-who-has-no-place": {"a-stall-loses-nothing", "no-innocent-is-evicted"},
    "a-standstill-is-not-taken-out": {"no-innocent-is-evicted"},
    "a-step-done-again-is-progress": {"what-comes-again-is-given-up"},
    "a-trial-overrules-a-person": {"what-people-evict-stays-out"},
    "accuser-evicted-without-tests": {"no-innocent-is-evicted"},
    "acknowledged-is-forgotten": {
        "a-recovery-is-not-dear",
        "no-start-behind-what-was-acknowledged",
    },
    "behind-what-was-acknowledged": {
        "a-recovery-is-not-dear",
        "no-start-behind-what-was-acknowledged",
    },
    "brake-does-not-hold": {"never-too-many-evicted", "the-brake-holds"},
    "budget-off-by-one": {"budgets-are-kept"},
    "complainer-is-named": {"no-complainer-is-the-culprit"},
    "effect-before-journal": {"journal-before-effect"},
    "ended-without-saving": {"what-ends-is-saved"},
    "epoch-check-dropped": {"done-is-done", "no-more-incidents-than-causes", "one-epoch-at-a-time"},
    "evicted-node-reused": {"no-rank-on-an-evicted-node"},
    "finished-job-reopened": {"a-finished-job-stays-finished"},
    "generation-not-raised": {"generation-grows"},
    "job-forgotten-when-it-ends": {"what-was-acknowledged-is-remembered"},
    "loss-of-a-rack-not-correlated": {"a-correlated-loss-is-one-incident"},
    "memory-of-an-earlier-life": {"restore-is-of-the-same-job"},
    "moved-without-saving": {"a-move-loses-no-step", "a-recovery-is-not-dear"},
    "node-to-be-free-is-given-out": {"a-node-to-be-free-gets-no-work"},
    "one-exam-convicts-whoever-fails": {"one-failure-convicts-nobody"},
    "only-the-last-epoch-is-closed": {"restore-on-the-line"},
    "pairs-are-forgotten": {"a-recovery-is-not-dear", "who-cannot-meet-is-not-seated"},
    "promised-node-is-set-free-at-once": {"a-node-has-one-holder", "what-nobody-has-is-given-back"},
    "quiet-for-one-recovery-is-quiet-for-the-next": {"one-epoch-at-a-time"},
    "restore-beyond-the-end": {"restore-on-the-line"},
    "seated-before-quiet": {"KeyError", "one-epoch-at-a-time", "restore-is-there"},
    "silence-is-counted-by-job": {"few-are-evicted-for-silence"},
    "silence-without-a-brake": {"few-are-evicted-for-silence", "never-too-many-evicted"},
    "suspend-without-deadline": {"every-suspend-ends"},
    "trials-under-the-brake": {"no-trial-under-the-brake"},
    "two-incidents-for-one-cause": {"only-who-ran-again-has-another-incident"},
    "two-places-get-a-pair-that-cannot-meet": {"who-cannot-meet-is-not-seated"},
    "unfit-node-asked-again": {"an-unfit-node-is-not-asked-for"},
    "unfit-node-rests-for-all": {"an-unfit-node-is-free-for-others"},
    "unknown-is-taken-for-none": {"no-start-behind-what-was-acknowledged"},
    "what-a-move-needs-is-lent": {"what-a-move-needs-is-not-lent"},
    "what-a-person-evicted-is-tried": {"what-people-evict-stays-out"},
    "what-people-evict-does-not-count": {"never-too-many-evicted"},
    "who-fails-alone-is-convicted": {"one-failure-convicts-nobody"},
    "who-flaps-protects-who-is-silent": {"no-job-stands-still-for-long"},
    "who-helped-is-never-given-back": {"who-takes-part-has-an-exam"},
    "who-gives-its-nodes-back-is-last-in-the-queue": {"who-came-first-starts-first"},
}
"""The rule that each bug breaks. A patch that no longer applies has to be made anew."""

CAUGHT_BY_TEST = {
    "another-machine-is-not-had-again": (
        "test_core_harmless.py::"
        "test_a_job_may_have_another_machine_under_the_name_of_one_that_it_left"
    ),
    "what-a-person-cleared-is-another-node": (
        "test_core_harmless.py::"
        "test_what_came_before_a_person_cleared_a_node_is_not_taken_for_another_nodes"
    ),
    "a-version-that-was-left-is-forgotten": (
        "test_core_harmless.py::test_what_a_month_of_faults_does_not_make_forgotten"
    ),
    "one-node-code-accuses-each-node": (
        "test_core_harmless.py::test_code_of_one_node_that_crashes_on_the_next_as_well_accuses_none"
    ),
    "no-restart-allowed-one-is-tried": (
        "test_core_harmless.py::"
        "test_a_job_that_is_allowed_no_restart_is_not_started_with_the_version_before"
    ),
    "a-version-of-another-size-is-taken": (
        "test_core_harmless.py::test_a_version_of_another_size_is_not_gone_back_to"
    ),
    "what-was-proved-is-taken-back": (
        "test_core_harmless.py::test_what_was_proved_of_a_node_stays_where_a_fault_followed_the_job"
    ),
    "the-same-signal-elsewhere-clears-a-node": (
        "test_core_evidence.py::"
        "test_what_came_at_this_place_on_another_node_at_another_site_clears_no_node"
    ),
    "a-fault-is-of-the-newest-version": (
        "test_core_harmless.py::"
        "test_a_fault_is_of_the_version_that_ran_and_not_of_one_that_has_yet_to_run"
    ),
    "a-lemon-sends-its-version-back": (
        "test_core_evidence.py::test_while_a_node_stands_out_its_faults_are_not_the_versions"
    ),
    "a-swap-accuses-its-node": (
        "test_core_swap.py::test_to_be_asked_at_another_place_accuses_no_node"
    ),
    "edits-of-one-job-convict-a-node": (
        "test_core_evidence.py::test_a_node_is_accused_once_by_each_version_of_a_job"
    ),
    "the-oldest-point-is-skipped": (
        "test_core_step_back.py::test_a_few_starts_find_what_is_good_or_end_the_job"
    ),
    "what-came-elsewhere-is-taken-for-the-same": (
        "test_core_evidence.py::"
        "test_what_came_at_this_place_on_another_node_at_another_site_clears_no_node"
    ),
    "a-budget-counts-for-ever": (
        "test_core_harmless.py::test_what_was_paid_before_the_window_of_a_budget_counts_no_more"
    ),
    "a-version-is-sent-back-twice": (
        "test_core_harmless.py::test_a_version_that_was_left_for_its_faults_is_not_gone_back_to"
    ),
    "a-version-that-a-person-stands-by-is-left": (
        "test_core_told.py::test_a_version_that_a_person_clears_is_closed_until_another_accuses_it"
    ),
    "an-accusation-has-no-age": (
        "test_core_evidence.py::test_a_node_is_accused_once_by_each_version_of_a_job"
    ),
    "each-attempt-accuses-anew": (
        "test_core_evidence.py::test_a_node_is_accused_once_by_each_version_of_a_job"
    ),
    "another-machine-is-the-same-node": (
        "test_core_harmless.py::test_what_befell_another_machine_of_the_name_says_nothing_of_this_one"
    ),
    "behind-a-point-that-ranks-got-on-from": (
        "test_core_step_back.py::"
        "test_it_does_not_go_behind_what_ranks_got_on_from_before_that_fails_too"
    ),
    "blind-for-ever": "test_core_blind.py::test_what_detectors_doubt_is_waited_for_and_no_longer",
    "earned-without-getting-on": (
        "test_core_harmless.py::test_ranks_that_die_while_they_start_have_earned_no_restart"
    ),
    "tests-end-a-suspicion": (
        "test_core_evidence.py::"
        "test_suspicion_halves_in_a_week_and_by_tests_that_find_nothing_but_never_goes_by_them"
    ),
    "the-user-pays-for-machines": (
        "test_core_budgets.py::test_a_job_that_gets_on_well_earns_its_restarts"
    ),
    "what-is-passed-is-known-for-ever": (
        "test_core_evidence.py::test_what_the_job_got_past_is_the_same_no_more"
    ),
    "what-was-earned-is-counted": (
        "test_core_harmless.py::test_what_was_earned_is_no_part_of_a_budget_that_is_used_up"
    ),
}
"""And of those that break no rule of the simulation: they only choose worse. What test fails."""

FAMILY = {
    "a-look-elsewhere-forgets-what-was-acknowledged": "mounts",
    "a-notice-in-a-recovery-is-forgotten": "maintenance",
    "a-pass-makes-the-wait-short-again": "again-and-again",
    "a-recovery-forgets-failed-standbys": "wrong-tests",
    "a-result-is-of-whatever-exam-is-open": "exams-again",
    "a-standstill-counts-for-who-has-no-place": "driver-stalled",
    "a-step-done-again-is-progress": "hungry",
    "a-trial-overrules-a-person": "overruled",
    "memory-of-an-earlier-life": "same-name",
    "one-exam-convicts-whoever-fails": "suspects",
    "quiet-for-one-recovery-is-quiet-for-the-next": "slow-quiet",
    "silence-is-counted-by-job": "switch",
    "two-places-get-a-pair-that-cannot-meet": "apart",
    "what-a-move-needs-is-lent": "crowded",
    "what-people-evict-does-not-count": "people-evict",
    "who-fails-alone-is-convicted": "wrong-tests",
    "who-flaps-protects-who-is-silent": "flapping",
    "who-gives-its-nodes-back-is-last-in-the-queue": "queue",
}
"""Whose seeds show it, where that is not "mixed"."""

BEGUN_AT = {
    "a-fault-takes-a-suspend-back": 150,
    "a-look-elsewhere-forgets-what-was-acknowledged": 30,
    "a-node-that-comes-back-is-a-new-one": 66,
    "a-place-is-taken-in-the-middle-of-a-test": 693,
    "a-standstill-counts-for-who-has-no-place": 338,
    "acknowledged-is-forgotten": 1337,
    "behind-what-was-acknowledged": 2953,
    "epoch-check-dropped": 601,
    "moved-without-saving": 1386,
    "only-the-last-epoch-is-closed": 4_830,
    "pairs-are-forgotten": 1601,
    "promised-node-is-set-free-at-once": 24,
    "quiet-for-one-recovery-is-quiet-for-the-next": 123,
    "restore-beyond-the-end": 202,
    "silence-is-counted-by-job": 32,
    "silence-without-a-brake": 493,
    "suspend-without-deadline": 651,
    "what-a-move-needs-is-lent": 61,
    "who-gives-its-nodes-back-is-last-in-the-queue": 28,
}
"""Where the first seed of all that shows it was found: it is looked for from there on, for as many
seeds. One that shows it no more costs time, not the proof.
"""

RUN = """
from holdfast.lab.simulator.simulate import first_failure
failure = first_failure(range({first}, {first} + {seeds}), family={family!r})
print(failure.rule if failure else "nothing")
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, as plain folders; what was compiled is still good but for the bug."""
    package = tmp_path_factory.mktemp("planted") / "holdfast"
    package.mkdir()
    shutil.copy(ROOT / "__init__.py", package)
    for folder in NEEDED:
        shutil.copytree(ROOT / folder, package / folder)
    return package


@contextmanager
def _planted(package: Path, bug: str) -> Iterator[None]:
    """The package has this bug, and no other, for as long as that."""
    words = ["git", "apply", "--whitespace=nowarn", str(BUGS / f"{bug}.patch")]
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(package.parents[1])}
    subprocess.run(words, cwd=package, env=alone, check=True, timeout=280)
    try:
        yield
    finally:
        subprocess.run([*words, "--reverse"], cwd=package, env=alone, check=True, timeout=280)


def _first_broken_rule(package: Path, family: str, first: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(first=first, seeds=SEEDS, family=family)],
        env={**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=package.parent,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.stdout.strip() or done.stderr


def test_every_bug_has_its_patch() -> None:
    known = [*CAUGHT_BY, *CAUGHT_BY_TEST]
    assert sorted(known) == sorted(path.stem for path in BUGS.glob("*.patch"))


@pytest.mark.parametrize("bug", CAUGHT_BY)
def test_the_simulation_catches(package: Path, bug: str) -> None:
    with _planted(package, bug):
        rule = _first_broken_rule(package, FAMILY.get(bug, "mixed"), BEGUN_AT.get(bug, 0))
    assert rule in CAUGHT_BY[bug], f"{bug}, for {SEEDS} seeds: {rule}"


PYTEST = [
    *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
    *("--hypothesis-profile", "unshrunk"),
]


def _fails(package: Path, test: str) -> bool:
    """Whether it is this test that fails, with what is planted."""
    done = subprocess.run(
        [*PYTEST, f"{BUGS.parent / test}"],
        env={**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=BUGS.parents[2],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.returncode == 1 and f"/{test}" in done.stdout


@pytest.mark.parametrize("bug", CAUGHT_BY_TEST)
def test_a_test_catches(package: Path, bug: str) -> None:
    with _planted(package, bug):
        assert _fails(package, CAUGHT_BY_TEST[bug]), bug
