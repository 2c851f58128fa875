"""Pictures of a job's ranks in a terminal: cells of characters, coloured where there are colours.

Used by `pictures`. The characters alone tell as much: a log or a colour-blind person loses nothing.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.output import console, say
from holdfast.page.draw import themes, timeline_svg
from holdfast.page.draw.grid import grid
from holdfast.page.draw.heat import NAMED, OWN, Column, Heat, heat
from holdfast.page.draw.heat_svg import named
from holdfast.page.draw.timeline import Timeline
from holdfast.page.draw.timeline import timeline as laid_out
from holdfast.protocol.counts import plural

if TYPE_CHECKING:
    from rich.text import Text

SHADES = "·░▒▓█"
"""By how much more than its role; less is a dot as well, but for its colour."""
MOST_COLUMNS, MOST_LINES = 96, 40
"""A screen. Where there are more ranks a character is of several, and shows the worst of them."""
ROWS = 32
"""Ranks up to which each has a line, with a column for each thing that takes time."""
LETTERS = {
    "forward": "F",
    "backward": "B",
    "collective": "C",
    "p2p": "P",
    "optimizer": "O",
    "data": "D",
    "save": "S",
    "load": "L",
    "pause": "z",
    "step": "·",
    "stopped": "█",
    "waits": "░",
}
WAIT = LETTERS["waits"]
WAITED = 0.25
"""Share of a column from which on a wait is its character."""
STATES = {"runs": "·", "waits": WAIT, "pauses": "z"}
GRAVE = "█"


def heatmap(answer: Mapping[str, Any]) -> None:
    """The map, and below it who differs."""
    found = heat(answer)
    if not found.cells:
        say(str(answer.get("nothing") or "there are no ranks"))
        return
    lines = _rows(found, answer) if len(found.cells) <= ROWS else _field(found)
    _print(lines)
    window = f" over {found.window_s:.3g} s" if found.window_s else ""
    say(f"{len(found.cells):,} ranks{window}; · as its role, {SHADES[1:]} more and more")
    for outlier in found.outliers[:NAMED]:
        say(f"{GRAVE} {named(outlier)}: {outlier.says}")
    if len(found.outliers) > NAMED:
        say(f"and {len(found.outliers) - NAMED:,} more")
    if not found.outliers:
        say("no rank differs from the others of its role")


def _rows(found: Heat, answer: Mapping[str, Any]) -> list["Text"]:
    """A line a rank, a block a column."""
    from rich.text import Text

    wide = max(len(column.name) for column in found.columns) + 1
    ranks = [f"rank {row['rank']} {row['node']}" for row in answer["ranks"]]
    margin = max(map(len, ranks)) + 1
    heads = "".join(column.name.ljust(wide) for column in found.columns)
    lines = [Text(" " * margin + heads, "bold")]
    for cell in found.cells:
        line = Text(ranks[cell.row].ljust(margin))
        for column in found.columns:
            share = column.shares[cell.row]
            line.append(shade(share) * (wide - 1) + " ", _style(share))
        lines.append(line)
    return lines


def _field(found: Heat) -> list["Text"]:
    """One field, of what is each rank's own doing; several ranks share a character if they must."""
    from rich.text import Text

    own = [column for column in found.columns if column.name in OWN] or list(found.columns)
    lines = round(found.height / found.size)
    across = round(found.width / found.size)
    x_each, y_each = -(-across // MOST_COLUMNS), -(-lines // MOST_LINES)
    worst: dict[tuple[int, int], float] = {}
    for cell in found.cells:
        at = int(cell.y / found.size) // y_each, int(cell.x / found.size) // x_each
        worst[at] = max(worst.get(at, -1.0), _share(own, cell.row))
    for outlier in found.outliers:
        cell = next(each for each in found.cells if each.row == outlier.row)
        worst[int(cell.y / found.size) // y_each, int(cell.x / found.size) // x_each] = 1.0
    drawn = []
    for y in range(-(-lines // y_each)):
        line = Text()
        for x in range(-(-across // x_each)):
            share = worst.get((y, x))
            line.append(" " if share is None else shade(share), _style(share))
        drawn.append(line)
    return drawn


def _share(columns: Sequence[Column], row: int) -> float:
    return max((column.shares[row] or 0.0 for column in columns), default=0.0)


def shade(share: float | None) -> str:
    """A character for a share of the scale."""
    if share is None:
        return " "
    return SHADES[min(len(SHADES) - 1, max(0, int(share * (len(SHADES) - 1))))]


def _style(share: float | None) -> str:
    if share is None or abs(share) < 0.25:
        return "dim"
    return themes.mixed(themes.DARK, share)


def timeline(answer: Mapping[str, Any], ranks: Mapping[str, Any] | None) -> None:
    """A line a rank; letters are kinds of spans."""
    from rich.text import Text

    columns = min(MOST_COLUMNS, max(20, console().width - 24))
    found = laid_out(answer, ranks, width=float(columns), seen=1.0)
    if not found.lines:
        say("no spans are kept of that time")
        return
    shown = found.lines[:MOST_LINES]
    cells = _cells(found, columns)
    _print(
        [
            Text.assemble(
                (f"rank {line.rank} {line.node}".ljust(22)[:22] + " "),
                *cells[line.rank],
                style="bold" if line.rank in found.awaited else "",
            )
            for line in shown
        ]
    )
    kinds = {bar.kind for bar in found.bars}
    there = [kind for kind in LETTERS if kind in kinds]
    legend = ", ".join(f"{LETTERS[kind]} {timeline_svg.WORDS.get(kind, kind)}" for kind in there)
    say(f"{found.from_s:.1f} s to {found.to_s:.1f} s; {legend}")
    if more := found.left_out + len(found.lines) - len(shown):
        say(f"{more:,} ranks are left out")
    if found.says:
        say(found.says)


def _cells(found: Timeline, columns: int) -> dict[int, list[tuple[str, str]]]:
    """By rank: a character and its colour for each column, of what it did for longest in it;
    a wait of a quarter is seen."""
    took: dict[tuple[int, int], dict[str, float]] = {}
    for bar in found.bars:
        for at in range(int(bar.x), min(columns, int(bar.x + bar.width) + 1)):
            wide = min(bar.x + bar.width, at + 1) - max(bar.x, at)
            column = took.setdefault((bar.rank, at), {})
            column[bar.kind] = column.get(bar.kind, 0.0) + max(0.0, wide) * bar.height
    cells = {line.rank: [(" ", "")] * columns for line in found.lines}
    for (rank, at), column in took.items():
        waits = column.get("waits", 0.0) >= WAITED * sum(column.values())
        kind = "waits" if waits else max(column, key=lambda kind: column[kind])
        cells[rank][at] = LETTERS.get(kind, "?"), themes.DARK.kinds.get(kind, "dim")
    return cells


def view3d(answer: Mapping[str, Any], rank: int | None) -> None:
    """A block a stage: to the right dp, down tp."""
    from rich.text import Text

    found = grid(answer, rank=rank)
    if not found.spots:
        say(str(answer.get("nothing") or "there are no ranks"))
        return
    mine = (
        {each for group in found.chosen.groups.values() for each in group} if found.chosen else ()
    )
    lines: dict[tuple[int, int], list[tuple[str, str]]] = {}
    for spot in found.spots:
        at = spot.at[1], round(spot.y / found.cell)
        style = "bold cyan" if spot.rank in mine else "dim" if spot.state == "runs" else ""
        lines.setdefault(at, []).append((STATES.get(spot.state, GRAVE), style))
    stage = -1
    shown = []
    for (pp, _), cells in sorted(lines.items()):
        shown.append(Text.assemble((f"stage {pp}" if pp != stage else "").ljust(10), *cells))
        stage = pp
    _print(shown)
    dims = answer["dims"]
    say(f"dp {dims['dp']} x pp {dims['pp']} x tp {dims['tp']}; · runs, {WAIT} waits, {GRAVE} else")
    for wait in answer["waits"][:NAMED]:
        targets = ", ".join(f"rank {each}" for each in wait["lacking"][:4])
        waiting = wait["waiting"]
        does = f"{plural(len(waiting), 'rank')} {'waits' if len(waiting) == 1 else 'wait'}"
        say(f"{does} in {wait['where']} for {targets or 'nobody known'}")
    if found.chosen is not None and len(found.chosen.chain) > 1:
        say(" waits for ".join(f"rank {each}" for each in found.chosen.chain))
    for said in answer["why"] if answer["ends"] else ():
        say(said)


def _print(lines: Sequence["Text"]) -> None:
    out = console()
    for line in lines:
        out.print(line, crop=False, no_wrap=True)
