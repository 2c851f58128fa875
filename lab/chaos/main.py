"""`holdfast chaos run`: faults done to an emulated cluster, one scored line a fault.

Called by the command line, which reads the options.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from holdfast.lab.chaos.play import FAILURES as FAILURES
from holdfast.lab.chaos.play import Stage
from holdfast.lab.chaos.scenarios import Scenario
from holdfast.lab.chaos.score import Score, Skipped
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.logs import logs_told
from holdfast.protocol import exitcodes


def run(
    scenarios: Sequence[Scenario],
    *,
    as_json: bool,
    seed: int,
    steps: int,
    folder: Path | None,
    on: Callable[..., Stage] = Stage,
) -> int:
    """Do these faults, one after the other, `on` this kind of stage. Returns an exit code.

    0: all passed, 1: some did not, 69: none is possible here, 130: after a Ctrl-C. Raises
    `FAILURES` where not even the job that is left alone ends well.
    """
    root = folder or Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    try:
        with logs_told(root), on(root, steps=steps, seed=seed, say=say) as stage:
            passed = _played(scenarios, stage, as_json=as_json)
    except KeyboardInterrupt:
        say("interrupted; cluster and job were taken down")
        return exitcodes.INTERRUPTED
    if all(passed) and folder is None:
        shutil.rmtree(root, ignore_errors=True)
    else:
        say(f"logs: {root}")
    if not passed:
        return exitcodes.UNAVAILABLE
    return exitcodes.OK if all(passed) else exitcodes.FAILED


def _played(scenarios: Sequence[Scenario], stage: Stage, *, as_json: bool) -> list[bool]:
    """Whether each passed of those that are possible here."""
    console, passed = Console(), list[bool]()
    for scenario in scenarios:
        score = _one(scenario, stage)
        if isinstance(score, Score):
            passed.append(score.passed)
        if as_json:
            sys.stdout.write(msgspec.json.encode(score).decode() + "\n")
            sys.stdout.flush()
        else:
            console.print(_row(score), soft_wrap=True)
    return passed


def _one(scenario: Scenario, stage: Stage) -> Score | Skipped:
    """The score, a failed one where it went astray."""
    if why := stage.cannot(scenario):
        return Skipped(fault=scenario.name, skipped=why)
    stage.left_alone(scenario)
    try:
        return stage.play(scenario)
    except NotPossible as error:
        return Skipped(fault=scenario.name, skipped=f"not possible here: {error}")
    except stage.failures as error:
        say(f"{scenario.name}: {error}")
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


def _row(score: Score | Skipped) -> str:
    if isinstance(score, Skipped):
        return f"[yellow]skipped[/] {score.fault:<24} {escape(score.skipped)}"
    verdict = "[green]passed[/]" if score.passed else "[red]failed[/]"
    facts = (
        f"detected {_seconds(score.detected_s)}, down {_seconds(score.down_s)}, "
        f"{score.steps_lost} steps lost, {score.innocent_evicted} innocent evicted"
    )
    unseen = f"  (not looked at: {', '.join(score.not_looked_at)})" if score.not_looked_at else ""
    return f"{verdict} {score.fault:<24} {facts}  {score.blame}{unseen}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def say(sentence: str) -> None:
    """To people, on stderr."""
    sys.stderr.write(f"{sentence}\n")
