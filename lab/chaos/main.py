"""`holdfast chaos run`: faults done to an emulated cluster, one scored line a fault.

Called by the command line, which reads the options.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from holdfast.lab.chaos.campaign import Due, Ledger, NoCampaign, Played, due, line_of
from holdfast.lab.chaos.play import FAILURES as PLAY_FAILURES
from holdfast.lab.chaos.play import Stage, folder_of
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.score import Score, Skipped
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.logs import logs_told
from holdfast.protocol import exitcodes

FAILURES = (*PLAY_FAILURES, NoCampaign)
"""Why nothing could be played, or not to the end; the message says it."""


def run(
    scenarios: Sequence[Scenario],
    *,
    as_json: bool,
    seed: int,
    steps: int,
    folder: Path | None,
    runs: int = 1,
    into: Path | None = None,
    on: Callable[..., Stage] = Stage,
) -> int:
    """Do these faults, each so often, `on` this kind of stage; what is in `into` is done already.

    Returns an exit code. 0: all passed, 1: some did not, 69: none is possible here, 130: after a
    Ctrl-C. Raises `FAILURES` where not even the job that is left alone ends well.
    """
    with Ledger(into) as ledger:
        root = folder or Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
        earlier = [each for each in ledger.played if (each.seed, each.steps) == (seed, steps)]
        left = due(scenarios, runs, earlier)
        _say_where(ledger, left)
        passed = list(_passed(earlier, scenarios))
        try:
            with logs_told(root), on(root, steps=steps, seed=seed, say=say) as stage:
                _train_longest(left, stage)
                show = _shown_as_json if as_json else _shown_on(Console())
                for nth, (one, score, took_s) in enumerate(_played(left, stage), 1):
                    ledger.add(line_of(one, score, seed=seed, steps=steps, took_s=took_s))
                    show(score)  # now that it is kept, whatever comes
                    passed += [score.passed] if isinstance(score, Score) else []
                    _tidy(root / folder_of(*one), nth, left, kept=not score.passed or folder)
        except KeyboardInterrupt:
            say("interrupted; cluster and job were taken down")
            return exitcodes.INTERRUPTED
    if folder is None and (all(passed) or not left):
        shutil.rmtree(root, ignore_errors=True)
    else:
        say(f"logs: {root}")
    if not passed:
        return exitcodes.UNAVAILABLE
    return exitcodes.OK if all(passed) else exitcodes.FAILED


def _say_where(ledger: Ledger, left: Sequence[Due]) -> None:
    if ledger.torn:
        say(f"the last line was torn, and is dropped: {ledger.torn} bytes")
    if ledger.played:
        say(f"{len(ledger.played)} runs are in the file; {len(left)} are left")


def _passed(earlier: Sequence[Played], scenarios: Sequence[Scenario]) -> Iterator[bool]:
    """Whether those passed that were asked for, and are not played again."""
    names = {each.name for each in scenarios}
    return (each.score.passed for each in earlier if each.score and each.fault in names)


def _train_longest(left: Sequence[Due], stage: Stage) -> None:
    """Left alone, once for all: its losses are also those of shorter jobs."""
    possible = [one.scenario for one in left if not stage.cannot(one.scenario)]
    compared = [scenario for scenario in possible if scenario.expected.compares_losses]
    if compared:
        stage.left_alone(max(compared, key=lambda scenario: scenario.longer))


def _tidy(folder: Path, nth: int, left: Sequence[Due], *, kept: object) -> None:
    """What a run left is worth its room where it failed; a campaign of hundreds fills a disk."""
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
    if len(left) > 1:
        say(f"{nth} of {len(left)} played")


def _played(left: Sequence[Due], stage: Stage) -> Iterator[tuple[Due, Score | Skipped, float]]:
    """Each as it is over, and how long it took in seconds."""
    for one in left:
        began_s = time.monotonic()
        score = _one(one, stage)
        yield one, score, time.monotonic() - began_s


def _shown_as_json(score: Score | Skipped) -> None:
    sys.stdout.write(msgspec.json.encode(score).decode() + "\n")
    sys.stdout.flush()


def _shown_on(console: Console) -> Callable[[Score | Skipped], None]:
    return lambda score: console.print(_row(score), soft_wrap=True)


def _one(one: Due, stage: Stage) -> Score | Skipped:
    """The score, a failed one where it went astray."""
    scenario, run = one
    if why := stage.cannot(scenario):
        return Skipped(fault=scenario.name, skipped=why)
    try:
        return stage.play(scenario, run)
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
