"""The demo's live picture, a list of lines that fit the screen: what is under way, the fault and
what came of it, nodes, progress, and the newest of what the driver decides. Pure.

Used by `view`. Every part is of whole lines, so that what does not fit is the oldest decisions.
"""

import re
import textwrap
from collections.abc import Sequence

from rich.text import Text

from holdfast.lab.demo.scene import NodeCell, Scene, Struck

BARS = "▁▂▃▄▅▆▇█"
SPINNER, SPINNER_HZ = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", 8
STYLES = {
    "held": "green",
    "in test": "yellow",
    "free": "cyan",
    "maintenance": "yellow",
    "suspect": "yellow",
    "quarantined": "red",
    "gone": "red",
    "unknown": "yellow",
}
BEFORE = {
    "Allocating": "the nodes get the job",
    "Starting": "ranks import torch, build the model and meet",
}
"""Phases without a step to show, and what takes its time in them."""
CLOCK = 12
"""Columns before the text of a decision."""
BAR, WIDE = 16, 100
"""Columns of the bar, which is twice as long on a screen as wide as that; the losses have half."""


def picture(scene: Scene, columns: int, rows: int) -> list[Text]:
    """The scene in at most so many rows of at most so many columns."""
    top = [_head(scene), *_struck(scene.struck), *_nodes(scene), *_training(scene, columns)]
    return _filled(top, "what the driver decides", scene.lines, columns, rows)


def closing(scene: Scene, columns: int, rows: int) -> list[Text]:
    """What stays on the screen above the summary: the fault and the way back from it."""
    if scene.struck is None:
        return picture(scene, columns, rows)
    top = _struck(scene.struck)
    return _filled(top, "what the driver decided", scene.struck.lines, columns, rows)


def _filled(
    top: list[Text], title: str, lines: Sequence[str], columns: int, rows: int
) -> list[Text]:
    shown = list(top)
    if lines:
        shown.append(Text(f"── {title} ".ljust(columns, "─"), "dim"))
        shown += map(Text, newest(lines, columns, rows - len(shown)))
    for line in shown:
        line.truncate(columns, overflow="ellipsis")
        line.rstrip()
    return shown[:rows]


def newest(lines: Sequence[str], columns: int, rows: int) -> list[str]:
    """The last of the lines that are whole in so many rows, wrapped behind their time of day."""
    shown: list[str] = []
    for line in reversed(lines):
        wrapped = textwrap.wrap(_printable(line), columns, subsequent_indent=" " * CLOCK)
        if len(wrapped) + len(shown) > rows:
            return shown or wrapped[: max(0, rows)]
        shown[:0] = wrapped
    return shown


def _printable(line: str) -> str:
    """Without what would move the cursor: words of a user's exception may be anything."""
    return "".join(char if char.isprintable() else " " for char in line)


def _head(scene: Scene) -> Text:
    turn = SPINNER[int(scene.elapsed_s * SPINNER_HZ) % len(SPINNER)]
    clock, nodes = f"{turn} {scene.elapsed_s:3.0f} s  ", f"   {brief(scene.kind)}"
    return Text.assemble(clock, (scene.act, "bold"), (nodes, "dim"))


def brief(kind: str) -> str:
    """What nodes are made of, without the reasons, which the JSON has."""
    return re.split(r" \(|: ", kind, maxsplit=1)[0]


def _struck(struck: Struck | None) -> list[Text]:
    if struck is None:
        return []
    return [
        Text.assemble(("fault     ", "bold red"), struck.fault),
        Text.assemble(("recovery  ", "bold green"), struck.recovery or "under way"),
    ]


def _nodes(scene: Scene) -> list[Text]:
    title = Text(f"{'node':10}{'rack':10}{'state':14}ranks", "bold")
    return [title, *(_node(node, scene.phase) for node in scene.nodes)] if scene.nodes else []


def _node(node: NodeCell, phase: str) -> Text:
    state = (f"{_word(node, phase):14}", STYLES.get(node.state, ""))
    ranks = " ".join(f"■ {rank}" for rank in node.ranks)
    return Text.assemble(f"{node.name:10}{node.rack:10}", state, ranks)


def _word(node: NodeCell, phase: str) -> str:
    if node.standby or node.state != "held":
        return "standby" if node.standby else "restored" if _is_back(node) else node.state
    return "starting" if phase in BEFORE else "training"


def _is_back(node: NodeCell) -> bool:
    """Nobody wonders then how an evicted node comes to be free."""
    return node.restored and node.state == "free"


def _training(scene: Scene, columns: int) -> list[Text]:
    if not scene.phase:
        return []
    row = Text.assemble((scene.phase, "bold"), "  ", _progress(scene, columns))
    return [row, Text(scene.waiting, "yellow")] if scene.waiting else [row]


def _progress(scene: Scene, columns: int) -> Text:
    if scene.phase in BEFORE:
        return Text(BEFORE[scene.phase])
    width = BAR if columns < WIDE else 2 * BAR
    done = min(width, width * scene.step // (scene.steps or 1))
    bar = Text.assemble(("━" * done, "green"), ("━" * (width - done), "dim"))
    loss = "" if scene.loss is None else f"loss {scene.loss:.4f}"
    speed = f"{scene.tokens_per_s:,.0f} tokens/s" if scene.tokens_per_s else ""
    said = (f"step {scene.step}/{scene.steps}", loss, speed, sparkline(scene.losses, width // 2))
    return Text("  ").join([bar, *(Text(each) for each in said if each)])


def sparkline(values: tuple[float, ...], width: int) -> str:
    """The newest `width` values as bars between their own least and most."""
    shown = values[-width:]
    if not shown:
        return ""
    least, most = min(shown), max(shown)
    span = (most - least) or 1.0
    return "".join(BARS[round((value - least) / span * (len(BARS) - 1))] for value in shown)
