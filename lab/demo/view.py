"""How the demo looks: a live picture on a terminal, plain lines elsewhere.

Given scenes by `play`. Must not ask anybody anything.
"""

import sys
import time
from typing import Protocol, Self

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from holdfast.lab.demo.picture import brief, closing, picture
from holdfast.lab.demo.scene import Scene
from holdfast.lab.demo.summary import Summary
from holdfast.lab.demo.writers import OnKubernetes

RESULT_ROWS = 10
"""Of the summary, with its verdict and the folder of the logs."""


NAME_COLUMNS = 16


class View(Protocol):
    """Shows scenes while it is entered, then the summary."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def show(self, scene: Scene) -> None: ...


class LiveView:
    """A picture that is drawn anew several times a second, its clock and spinner too."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._scene = Scene()
        self._shown_s = time.monotonic()
        self._over = False
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._drawn)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over = exc_info[0] is None
        self._live.stop()

    def show(self, scene: Scene) -> None:
        self._scene, self._shown_s = scene, time.monotonic()

    def _drawn(self) -> Group:
        elapsed_s = self._scene.elapsed_s + time.monotonic() - self._shown_s
        scene = msgspec.structs.replace(self._scene, elapsed_s=elapsed_s)
        columns, rows = self._console.size
        if self._over:
            return Group(*closing(scene, columns, rows - RESULT_ROWS - 1))
        return Group(*picture(scene, columns, rows - 1))


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


def result(summary: Summary) -> Group:
    """The summary for people."""
    rows = {
        "fault": summary.fault,
        "detected": _seconds(summary.detected_s, "after the fault"),
        "training again": _seconds(summary.recovered_s, "after the fault"),
        "steps lost": "unknown" if summary.steps_lost is None else str(summary.steps_lost),
        "evicted": ", ".join(summary.evicted) or "nobody",
        "losses": _losses(summary),
        "left behind": str(summary.leftovers),
        "measured on": f"an emulated cluster: {brief(summary.kind)}",
    }
    if isinstance(summary, OnKubernetes):
        given = summary.pod_status_writers is None
        where = "a cluster that was given" if given else "stock Kubernetes"
        rows["measured on"] = f"{where}; its nodes: {brief(summary.kind)}"
        rows["pod status by"] = _writers(summary.pod_status_writers)
    return Group(Text(summary.verdict, "bold"), *(_row(*row) for row in rows.items()))


def _row(name: str, value: str) -> Text:
    """Without blanks at its end: it may be copied, or go to a file."""
    return Text(f"   {name:{NAME_COLUMNS}}" + value.replace("\n", "\n" + " " * (3 + NAME_COLUMNS)))


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
