"""What the view shows: one look at the laboratory, as plain values.

Made by `play` several times a second. Must not fail while the driver is away: the last look stays.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.lab.cluster import Lab, Refused, TooLate


class NodeCell(msgspec.Struct, frozen=True, kw_only=True):
    """One node as the driver has it."""

    name: str
    rack: str
    state: str
    ranks: list[int]
    standby: bool


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One look."""

    act: str = ""
    elapsed_s: float = 0.0
    kind: str = ""
    job: str = ""
    phase: str = ""
    waiting: str = ""
    step: int = 0
    steps: int = 0
    loss: float | None = None
    losses: tuple[float, ...] = ()
    tokens_per_s: float | None = None
    nodes: tuple[NodeCell, ...] = ()
    lines: tuple[str, ...] = ()


class Looker:
    """Looks at one job of the lab; remembers losses and the lines that were told."""

    def __init__(self, lab: Lab, job: str, steps: int) -> None:
        self._lab = lab
        self._name = job
        self._after = 0
        self._losses: dict[int, float] = {}
        self.lines: list[str] = []
        self.scene = Scene(job=job, steps=steps, kind=lab.kind())

    def tell(self, sentence: str) -> None:
        """A line of the demo's own among those of the driver."""
        self.lines.append(sentence)

    def look(self, *, act: str, elapsed_s: float) -> Scene:
        """The newest scene; the one before where the driver does not answer."""
        try:
            job = self._lab.job(self._name)
            nodes = self._lab.nodes()
            self._hear()
        except (Refused, TooLate):
            return msgspec.structs.replace(self.scene, act=act, elapsed_s=elapsed_s)
        if job["step"] and job["loss"] is not None:
            self._losses[job["step"]] = job["loss"]
        self.scene = Scene(
            act=act,
            elapsed_s=elapsed_s,
            kind=self._lab.kind(),
            job=self._name,
            phase=job["phase"],
            waiting=job["waiting"],
            step=job["step"] or 0,
            steps=self.scene.steps,
            loss=job["loss"],
            losses=tuple(loss for _, loss in sorted(self._losses.items())),
            tokens_per_s=job["tokens_per_s"],
            nodes=tuple(_cell(node) for node in nodes),
            lines=tuple(self.lines),
        )
        return self.scene

    def _hear(self) -> None:
        story = self._lab.ask("GET", f"/jobs/{self._name}/story", params={"after": self._after})
        for line in story["lines"]:
            self._after = max(self._after, line["sequence"])
            self.lines.append(f"{clock_of(line['at'])}  {line['text']}")


def clock_of(at: str) -> str:
    """`14:02:03.4` of an ISO time; the date is of no interest in a demo."""
    _, _, time = at.partition("T")
    return time[:10] or at


def _cell(node: Mapping[str, Any]) -> NodeCell:
    return NodeCell(
        name=node["name"],
        rack=node["rack"],
        state=node["state"],
        ranks=node["ranks"],
        standby=node["standby"],
    )
