"""How the demo looks: a live picture on a terminal, plain lines elsewhere.

Given scenes by `play`. Must not ask anybody anything.
"""

import sys
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.lab.demo.scene import NodeCell, Scene
from holdfast.lab.demo.summary import Summary
from holdfast.lab.demo.writers import OnKubernetes

BARS = "▁▂▃▄▅▆▇█"
STYLES = {
    "held": "green",
    "free": "cyan",
    "maintenance": "yellow",
    "quarantined": "red",
    "gone": "red",
    "unknown": "yellow",
}
SHOWN_LINES = 12


class View(Protocol):
    """Shows scenes while it is entered, then the summary."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def show(self, scene: Scene) -> None: ...


class LiveView:
    """A picture that is drawn anew several times a second."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.stop()

    def show(self, scene: Scene) -> None:
        self._live.update(picture(scene))


class PlainView:
    """New lines only, for a pipe or a log; on stderr where stdout belongs to JSON."""

    def __init__(self, *, stderr: bool) -> None:
        self._out = sys.stderr if stderr else sys.stdout
        self._told: dict[str, int] = {}
        self._act = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._out.flush()

    def show(self, scene: Scene) -> None:
        if scene.act != self._act:
            self._act = scene.act
            self._out.write(f"[{scene.elapsed_s:5.1f} s] {scene.act}\n")
        already = self._told.get(scene.job, 0)
        for line in scene.lines[already:]:
            self._out.write(f"          {line}\n")
        self._told[scene.job] = len(scene.lines)
        self._out.flush()


def picture(scene: Scene) -> Group:
    """Nodes, progress, and what the driver is deciding."""
    head = Text.assemble(
        (scene.act, "bold"), f"   {scene.elapsed_s:.0f} s", ("   " + scene.kind, "dim")
    )
    parts: list[RenderableType] = [head, _nodes(scene), _training(scene)]
    if scene.lines:
        parts.append(Panel("\n".join(scene.lines[-SHOWN_LINES:]), title="what the driver decides"))
    return Group(*parts)


def _nodes(scene: Scene) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0))
    for title in ("node", "rack", "state", "ranks"):
        table.add_column(title)
    for node in scene.nodes:
        table.add_row(
            node.name, node.rack, Text(_word(node), STYLES.get(node.state, "")), _ranks(node)
        )
    return table


def _word(node: NodeCell) -> str:
    return "standby" if node.standby else "training" if node.state == "held" else node.state


def _ranks(node: NodeCell) -> str:
    return " ".join(f"■ {rank}" for rank in node.ranks)


def _training(scene: Scene) -> Table:
    row = Table.grid(padding=(0, 2))
    loss = f"loss {scene.loss:.4f}" if scene.loss is not None else ""
    speed = f"{scene.tokens_per_s:,.0f} tokens/s" if scene.tokens_per_s else ""
    row.add_row(
        Text(scene.phase, "bold"),
        ProgressBar(total=scene.steps or 1, completed=scene.step, width=30),
        f"step {scene.step}/{scene.steps}",
        loss,
        sparkline(scene.losses, 24),
        speed,
        Text(scene.waiting, "yellow"),
    )
    return row


def sparkline(values: tuple[float, ...], width: int) -> str:
    """The newest `width` values as bars between their own least and most."""
    shown = values[-width:]
    if not shown:
        return ""
    least, most = min(shown), max(shown)
    span = (most - least) or 1.0
    return "".join(BARS[round((value - least) / span * (len(BARS) - 1))] for value in shown)


def result(summary: Summary) -> Table:
    """The summary for people."""
    table = Table(
        title=f"[bold]{summary.verdict}[/bold]", box=None, show_header=False, title_justify="left"
    )
    rows = {
        "fault": summary.fault,
        "detected": _seconds(summary.detected_s, "after the fault"),
        "training again": _seconds(summary.recovered_s, "after the fault"),
        "steps lost": "unknown" if summary.steps_lost is None else str(summary.steps_lost),
        "evicted": ", ".join(summary.evicted) or "nobody",
        "losses": _losses(summary),
        "left behind": str(summary.leftovers),
        "measured on": f"an emulated cluster: {summary.kind}",
    }
    if isinstance(summary, OnKubernetes):
        given = summary.pod_status_writers is None
        where = "a cluster that was given" if given else "stock Kubernetes"
        rows["measured on"] = f"{where}; its nodes: {summary.kind}"
        rows["pod status by"] = _writers(summary.pod_status_writers)
    for name, value in rows.items():
        table.add_row(f"  {name}", value)
    return table


def _losses(summary: Summary) -> str:
    if summary.loss_equal_bitwise is None:
        return "not compared: the fault ends the job"
    if summary.loss_equal_bitwise:
        return f"all {summary.steps} equal, bit for bit, to the same job left alone"
    return "not equal to the same job left alone"


def _writers(counts: dict[str, int] | None) -> str:
    if counts is None:
        return "not looked at: a cluster that is given does not show its audit log"
    return "\n".join(f"{user} ({count})" for user, count in counts.items()) or "nobody"


def _seconds(value: float | None, what: str) -> str:
    return "not seen" if value is None else f"{value:.2f} s {what}"
