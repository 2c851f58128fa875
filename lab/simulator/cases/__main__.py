"""Tells the story of one life of a case under this tree's driver.

python -m holdfast.lab.simulator.cases two-lemons 7
"""

import argparse
import sys
from collections.abc import Iterator

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
    others = (oracle.play, oracle.play_clocked)
    told = _told(life, *(play(asked.case, asked.seed) for play in others))
    sys.stdout.write("\n".join((str(case), *_story(one), *told, "")))


def _story(one: Play) -> Iterator[str]:
    """Entries that say something, then the guilty and the incidents."""
    for entry in one.world.driver.journal:
        if entry.why:
            yield f"{entry.at}  {type(entry.event).__name__:20}  {entry.why}"
    yield f"guilty: {', '.join(one.world.cause.guilty) or 'nobody'}"
    for each in one.world.driver.state.incidents.values():
        yield f"incident {each.id}: {each.kind}, {each.blame}, {each.summary}: {each.outcome}"


def _told(*lives: Life) -> Iterator[str]:
    """The books, the oracles' beside them."""
    yield f"{'':20} {'driver':>13} {'oracle':>13} {'clocked':>13}"
    for name in Life.__struct_fields__:
        yield " ".join([f"{name:20}", *(f"{getattr(life, name)!s:>13}" for life in lives)])


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
