"""Tells the story of one life of a case under this tree's driver.

python -m holdfast.lab.simulator.cases two-lemons 7
"""

import argparse
import sys
from collections.abc import Iterator

import msgspec

from holdfast.diagnostics.registry import only
from holdfast.lab.simulator.cases.books import Life
from holdfast.lab.simulator.cases.drawing import CAUSES, draw
from holdfast.lab.simulator.cases.oracle import play as oracle
from holdfast.lab.simulator.cases.play import TESTED, Play


def main() -> None:
    asked = _arguments().parse_args()
    case = draw(asked.case, asked.seed)
    with only(*TESTED):
        one = Play(case)
        life = one.life()
    told = _told(life, oracle.play(asked.case, asked.seed))
    sys.stdout.write("\n".join((str(case), *_story(one), *told, "")))


def _story(one: Play) -> Iterator[str]:
    """Entries that say something, then the guilty and the incidents."""
    for entry in one.world.driver.journal:
        if entry.why:
            yield f"{entry.at}  {type(entry.event).__name__:20}  {entry.why}"
    yield f"guilty: {', '.join(one.world.cause.guilty) or 'nobody'}"
    for each in one.world.driver.state.incidents.values():
        yield f"incident {each.id}: {each.kind}, {each.blame}, {each.summary}: {each.outcome}"


def _told(life: Life, other: Life) -> Iterator[str]:
    """The books, the oracle's beside them."""
    theirs = msgspec.structs.asdict(other)
    yield f"{'':20} {'driver':>10} {'oracle':>10}"
    for name, value in msgspec.structs.asdict(life).items():
        yield f"{name:20} {value!s:>10} {theirs[name]!s:>10}"


def _arguments() -> argparse.ArgumentParser:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.lab.simulator.cases",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", choices=sorted(CAUSES), metavar="CASE")
    parser.add_argument("seed", type=int, nargs="?", default=0, metavar="SEED")
    return parser


if __name__ == "__main__":
    main()
