"""`holdfast chaos run`: faults done to an emulated cluster, one scored line a fault.

Called by the command line, which reads the options.
"""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from holdfast.lab.chaos import play
from holdfast.lab.chaos.scenarios import Scenario
from holdfast.lab.chaos.score import Score
from holdfast.lab.chaos.target import NotThere
from holdfast.lab.cluster import Refused, TooLate
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.losses import Losses
from holdfast.protocol import exitcodes

FAILURES = (TooLate, Refused, NotThere)
"""Why a job could not be brought as far as its fault, or to its end; the message says it."""


def run(
    scenarios: Sequence[Scenario], *, as_json: bool, seed: int, steps: int, folder: Path | None
) -> int:
    """Do these faults, one after the other. Returns an exit code.

    0: all passed, 1: some did not, 69: none is possible here, 130: after a Ctrl-C. Raises
    `FAILURES` where not even the job that is left alone ends well.
    """
    try:
        return _run(scenarios, as_json=as_json, seed=seed, steps=steps, folder=folder)
    except KeyboardInterrupt:
        _say("interrupted; cluster and job were taken down")
        return exitcodes.INTERRUPTED


def _run(
    scenarios: Sequence[Scenario], *, as_json: bool, seed: int, steps: int, folder: Path | None
) -> int:
    root = folder or Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    console, passed = Console(), list[bool]()
    undisturbed: dict[int, Losses] = {}
    for scenario in scenarios:
        wanted = steps * scenario.longer
        if wanted not in undisturbed:
            folder_of_it = root / f"reference-{wanted}"
            undisturbed[wanted] = play.reference(folder_of_it, steps=wanted, say=_say)
        score = _one(scenario, root, steps=wanted, seed=seed, undisturbed=undisturbed[wanted])
        if score is None:
            continue
        passed.append(score.passed)
        if as_json:
            sys.stdout.write(msgspec.json.encode(score).decode() + "\n")
            sys.stdout.flush()
        else:
            console.print(_row(score))
    if all(passed) and folder is None:
        shutil.rmtree(root, ignore_errors=True)
    else:
        _say(f"logs: {root}")
    if not passed:
        return exitcodes.UNAVAILABLE
    return exitcodes.OK if all(passed) else exitcodes.FAILED


def _one(
    scenario: Scenario, root: Path, *, steps: int, seed: int, undisturbed: Losses
) -> Score | None:
    """The score; None where this machine cannot do the fault, a failed one where it went astray."""
    try:
        return play.play(
            scenario,
            root / scenario.name,
            steps=steps,
            seed=seed,
            undisturbed=undisturbed,
            say=_say,
        )
    except NotPossible as error:
        _say(f"{scenario.name}: not possible here: {error}")
        return None
    except FAILURES as error:
        _say(f"{scenario.name}: {error}")
        return Score(
            fault=scenario.name,
            passed=False,
            detected_s=None,
            blame="",
            blame_right=False,
            innocent_evicted=0,
            down_s=None,
            steps_lost=None,
            steps_lost_told=None,
            loss_equal_bitwise=None,
        )


def _row(score: Score) -> str:
    verdict = "[green]passed[/]" if score.passed else "[red]failed[/]"
    facts = (
        f"detected {_seconds(score.detected_s)}, down {_seconds(score.down_s)}, "
        f"{score.steps_lost} steps lost, {score.innocent_evicted} innocent evicted"
    )
    return f"{verdict} {score.fault:<24} {facts}  {score.blame}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
