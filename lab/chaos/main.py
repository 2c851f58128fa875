"""`holdfast chaos list|run`: faults done to an emulated cluster, one scored line a fault."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.lab.chaos import play
from holdfast.lab.chaos.scenarios import SCENARIOS, Scenario, chosen
from holdfast.lab.chaos.score import Score
from holdfast.lab.chaos.target import NotThere
from holdfast.lab.cluster import Refused, TooLate
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.losses import Losses
from holdfast.protocol import exitcodes

STEPS = 60
EPILOG = """\
examples:
  holdfast chaos list                          every fault, in a sentence
  holdfast chaos run rank-killed node-lost     two of them, each on a fresh cluster
  holdfast chaos run 4                         all that have number 4 in docs/faults.md
  holdfast chaos run all --json                one line a fault, for machines
"""


def names() -> list[str]:
    """Every fault that `run` knows."""
    return [scenario.name for scenario in SCENARIOS]


def run(
    names: list[str],
    *,
    as_json: bool,
    seed: int = 1,
    steps: int = STEPS,
    folder: Path | None = None,
) -> int:
    """Do these faults, one after the other; 0 where all passed. Raises `ValueError` for a name."""
    scenarios = chosen(names)
    root = folder or Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    console, all_passed = Console(), True
    undisturbed: dict[int, Losses] = {}
    for scenario in scenarios:
        wanted = steps * scenario.longer
        if wanted not in undisturbed:
            folder_of_it = root / f"reference-{wanted}"
            undisturbed[wanted] = play.reference(folder_of_it, steps=wanted, say=_say)
        score = _one(scenario, root, steps=wanted, seed=seed, undisturbed=undisturbed[wanted])
        if score is None:
            continue
        all_passed = all_passed and score.passed
        if as_json:
            sys.stdout.write(msgspec.json.encode(score).decode() + "\n")
            sys.stdout.flush()
        else:
            console.print(_row(score))
    if all_passed and folder is None:
        shutil.rmtree(root, ignore_errors=True)
    else:
        _say(f"logs: {root}")
    return exitcodes.OK if all_passed else exitcodes.FAILED


def main(arguments: Sequence[str]) -> int:
    """The command line; an exit code."""
    given = _parser().parse_args(arguments)
    if sys.platform != "linux":
        _say(f"The emulated cluster needs Linux; this is {sys.platform}.")
        return exitcodes.UNAVAILABLE
    if given.action == "list":
        return _list(as_json=given.as_json)
    try:
        chosen(given.names)
    except ValueError as error:
        _say(str(error))
        return exitcodes.USAGE
    try:
        return run(
            given.names,
            as_json=given.as_json,
            seed=given.seed,
            steps=given.steps,
            folder=given.folder,
        )
    except KeyboardInterrupt:
        _say("interrupted; cluster and job were taken down")
        return exitcodes.INTERRUPTED


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
    except (TooLate, Refused, NotThere) as error:
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


def _list(*, as_json: bool) -> int:
    if as_json:
        for each in SCENARIOS:
            line = {"number": each.number, "fault": each.name, "says": each.says}
            sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        return exitcodes.OK
    table = Table("number", "fault", "what is done", box=None)
    for each in SCENARIOS:
        table.add_row(str(each.number), each.name, each.says)
    Console().print(table)
    return exitcodes.OK


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast chaos",
        description="Faults done from outside to an emulated cluster that trains, and scored.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="every fault, in a sentence")
    running = actions.add_parser("run", help="do some of them")
    running.add_argument("names", nargs="+", help="names or numbers of faults, or all")
    running.add_argument("--seed", type=int, default=1, help="draws the victims (default 1)")
    running.add_argument("--steps", type=int, default=STEPS, help=f"of the job (default {STEPS})")
    running.add_argument("--folder", type=Path, help="for state and logs (default: a new one)")
    for each in (listing, running):
        each.add_argument("--json", dest="as_json", action="store_true", help="for machines")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
