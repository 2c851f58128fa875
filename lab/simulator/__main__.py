"""Run seeds and explain the first that fails; write their outcomes down, or compare them.

python -m holdfast.lab.simulator 1829                     one seed
python -m holdfast.lab.simulator 0 10000 --record before  what they come to, written down
python -m holdfast.lab.simulator 0 10000 --compare before and what a change made of it
python -m holdfast.lab.simulator 0 1000 --family lemons   seeds of another family
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.lab.simulator import outcomes
from holdfast.lab.simulator.families.table import FAMILIES
from holdfast.lab.simulator.rules import bounds
from holdfast.lab.simulator.simulate import Life, explain, run_many


def main() -> int:
    asked = _arguments().parse_args()
    before = outcomes.read(asked.compare) if asked.compare else []
    lives = run_many(range(asked.first, asked.first + asked.count), family=asked.family)
    ends, failures = (
        [life.outcome for life in lives],
        [life.failure for life in lives if life.failure],
    )
    if failures:
        sys.stdout.write(explain(failures[0], lines=400) + "\n")
    if asked.record:
        outcomes.write(asked.record, ends)
    if asked.compare:
        sys.stdout.write(outcomes.table(before, ends))
    elif asked.family != "mixed":
        sys.stdout.write(outcomes.sums(ends) + _nearest(lives))
    rules = sorted({(failure.rule, failure.scenario.seed) for failure in failures})
    sys.stdout.write(f"{asked.count} seeds, {len(failures)} failures {rules[:40]}\n")
    return 1 if failures else 0


def _nearest(lives: Sequence[Life]) -> str:
    """How near the lives came to their bounds."""
    seen = [life.measured for life in lives]
    began_s = max(each.to_running_s for each in seen)
    longest_s, dearest = max(each.longest_s for each in seen), max(each.dearest for each in seen)
    return (
        f"until a job trained: {began_s:.1f} s at the most\n"
        f"owed and not trained: {longest_s:.1f} s of {bounds.LONGEST_S:g}\n"
        f"a recovery: {dearest:.1f} times the best possible, of {bounds.TIMES:g}\n"
    )


def _arguments() -> argparse.ArgumentParser:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.lab.simulator",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("first", type=int, metavar="SEED", help="the first seed")
    parser.add_argument("count", type=int, nargs="?", default=1, help="how many (1)")
    parser.add_argument(
        "--family", choices=sorted(FAMILIES), default="mixed", help="what goes wrong (mixed)"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the outcomes there")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="with those recorded there")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
