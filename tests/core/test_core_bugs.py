"""The simulation is proved by planted bugs: each is a small patch, and each must be caught."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

BUGS = Path(__file__).parent / "bugs"
ROOT = Path(holdfast.__file__).parent
NEEDED = ("kit", "protocol", "diagnostics", "driver", "lab")
SEEDS = 4_000

CAUGHT_BY = {
    "a-failed-trial-is-passed": {"trust-is-earned"},
    "a-place-is-taken-in-the-middle-of-a-test": {"only-standbys-test-themselves"},
    "a-standstill-is-not-taken-out": {"no-innocent-is-evicted"},
    "acknowledged-is-forgotten": {
        "a-recovery-is-not-dear",
        "no-start-behind-what-was-acknowledged",
    },
    "accuser-evicted-without-tests": {"no-innocent-is-evicted"},
    "behind-what-was-acknowledged": {
        "a-recovery-is-not-dear",
        "no-start-behind-what-was-acknowledged",
    },
    "brake-does-not-hold": {"never-too-many-evicted", "the-brake-holds"},
    "budget-off-by-one": {"budgets-are-kept"},
    "complainer-is-named": {"no-complainer-is-the-culprit"},
    "effect-before-journal": {"journal-before-effect"},
    "epoch-check-dropped": {
        "done-is-done",
        "no-more-incidents-than-causes",
        "one-epoch-at-a-time",
    },
    "evicted-node-reused": {"no-rank-on-an-evicted-node"},
    "finished-job-reopened": {"a-finished-job-stays-finished"},
    "generation-not-raised": {"generation-grows"},
    "job-forgotten-when-it-ends": {"what-was-acknowledged-is-remembered"},
    "loss-of-a-rack-not-correlated": {"a-correlated-loss-is-one-incident"},
    "moved-without-saving": {"a-move-loses-no-step", "a-recovery-is-not-dear"},
    "node-to-be-free-is-given-out": {"a-node-to-be-free-gets-no-work"},
    "pairs-are-forgotten": {"a-recovery-is-not-dear", "who-cannot-meet-is-not-seated"},
    "restore-beyond-the-end": {"restore-on-the-line"},
    "seated-before-quiet": {"KeyError", "restore-is-there", "one-epoch-at-a-time"},
    "silence-without-a-brake": {"few-are-evicted-for-silence", "never-too-many-evicted"},
    "suspend-without-deadline": {"every-suspend-ends"},
    "two-incidents-for-one-cause": {"only-who-ran-again-has-another-incident"},
    "unknown-is-taken-for-none": {"no-start-behind-what-was-acknowledged"},
    "unfit-node-asked-again": {"an-unfit-node-is-not-asked-for"},
    "trials-under-the-brake": {"no-trial-under-the-brake"},
    "unfit-node-rests-for-all": {"an-unfit-node-is-free-for-others"},
    "what-a-person-evicted-is-tried": {"what-people-evict-stays-out"},
}
"""The rule that each bug breaks. A patch that no longer applies has to be made anew."""

BEGUN_AT = {
    "a-place-is-taken-in-the-middle-of-a-test": 693,
    "acknowledged-is-forgotten": 1337,
    "behind-what-was-acknowledged": 2953,
    "epoch-check-dropped": 601,
    "moved-without-saving": 1386,
    "pairs-are-forgotten": 1601,
    "restore-beyond-the-end": 202,
    "silence-without-a-brake": 493,
    "suspend-without-deadline": 651,
}
"""Where the first seed of all that shows it was found: it is looked for from there on, for as many
seeds. One that shows it no more costs time, not the proof.
"""

RUN = """
from holdfast.lab.simulator.simulate import first_failure
failure = first_failure(range({first}, {first} + {seeds}))
print(failure.rule if failure else "nothing")
"""


def _package(into: Path) -> Path:
    """A copy of the package, as plain folders; what was compiled is still good but for the bug."""
    package = into / "holdfast"
    package.mkdir()
    shutil.copy(ROOT / "__init__.py", package)
    for folder in NEEDED:
        shutil.copytree(ROOT / folder, package / folder)
    return package


def _first_broken_rule(package: Path, first: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(first=first, seeds=SEEDS)],
        env={**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=package.parent,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.stdout.strip() or done.stderr


def test_every_bug_has_its_patch() -> None:
    assert sorted(CAUGHT_BY) == sorted(path.stem for path in BUGS.glob("*.patch"))


@pytest.mark.parametrize("bug", CAUGHT_BY)
def test_the_simulation_catches(bug: str, tmp_path: Path) -> None:
    package = _package(tmp_path)
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", str(BUGS / f"{bug}.patch")],
        cwd=package,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
        check=True,
        timeout=280,
    )
    rule = _first_broken_rule(package, BEGUN_AT.get(bug, 0))
    assert rule in CAUGHT_BY[bug], f"{bug}, for {SEEDS} seeds: {rule}"
