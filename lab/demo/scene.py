"""What the view shows: one look at the laboratory, as plain values.

Made by `play` several times a second. Must not fail while the driver is away: the last look stays.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec

from holdfast.driver.core.state.model import FINISHED
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenario import Expected
from holdfast.lab.chaos.score import answering, detected_s
from holdfast.lab.cluster import Lab, Refused, TooLate
from holdfast.lab.demo.summary import recovered_s
from holdfast.lab.outcome import Outcome


class NodeCell(msgspec.Struct, frozen=True, kw_only=True):
    """One node as the driver has it."""

    name: str
    rack: str
    state: str
    ranks: list[int]
    standby: bool
    restored: bool = False
    """It had been evicted, and the demo gave it back: nobody else would."""


class Struck(msgspec.Struct, frozen=True, kw_only=True):
    """The fault that was done, and what was told of that job since."""

    fault: str
    recovery: str = ""
    """What came of it; empty while it is under way."""
    lines: tuple[str, ...] = ()


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
    struck: Struck | None = None
    """From the fault on, over the second job too."""


class Looker:
    """Looks at one job of the lab; remembers losses and the lines that were told."""

    def __init__(
        self,
        lab: Lab,
        job: str,
        steps: int,
        struck: Struck | None = None,
        restored: Set[str] = frozenset(),
    ) -> None:
        """`struck`: by a fault that another job had, after which these nodes were restored."""
        self._lab = lab
        self._restored = restored
        self._name = job
        self._story: list[Mapping[str, Any]] = []
        self._losses: dict[int, float] = {}
        self._fault: tuple[Done, Expected, int] | None = None
        self._struck = struck
        self.lines: list[str] = []
        self.scene = Scene(job=job, steps=steps, kind=lab.kind(), struck=struck)

    def strike(self, done: Done, expected: Expected) -> Scene:
        """The fault was done to this job: it is told among the driver's lines, and watched."""
        self._struck = Struck(fault=f"{done.said}, from outside")
        self.lines.append(f"--------    {self._struck.fault}")
        self._fault = done, expected, len(self.lines)
        self.scene = msgspec.structs.replace(self.scene, struck=self._struck)
        return self.scene

    def look(self, *, act: str, elapsed_s: float) -> Scene:
        """The newest scene; the one before where the driver does not answer."""
        try:
            job = self._lab.job(self._name)
            nodes = self._lab.nodes()
            self._hear()
            self._watch(job["phase"] in FINISHED)
        except (Refused, TooLate):
            return msgspec.structs.replace(self.scene, act=act, elapsed_s=elapsed_s)
        again = job["again_from"] is not None  # the loss is that of a step before
        if job["step"] and job["loss"] is not None and not again:
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
            nodes=tuple(_cell(node, self._restored) for node in nodes),
            lines=tuple(self.lines),
            struck=self._struck,
        )
        return self.scene

    def _hear(self) -> None:
        after = self._story[-1]["sequence"] if self._story else 0
        story = self._lab.ask("GET", f"/jobs/{self._name}/story", params={"after": after})
        for line in story["lines"]:
            self._story.append(line)
            self.lines.append(f"{clock_of(line['at'])}  {line['text']}")

    def _watch(self, finished: bool) -> None:
        if self._fault is None:
            return
        done, expected, since = self._fault
        came = recovery(done, expected, self._lab.incidents(self._name), self._story)
        self._struck = Struck(
            fault=f"{done.said}, from outside",
            recovery=came or (self._story[-1]["text"] if finished else ""),
            lines=tuple(self.lines[since:]),
        )


def recovery(
    done: Done,
    expected: Expected,
    incidents: Sequence[Mapping[str, Any]],
    story: Sequence[Mapping[str, Any]],
) -> str:
    """How the job came back from the fault; empty where it has not."""
    answers = answering(done, incidents, story)
    outcome = Outcome.of(answers, done, expected)
    again_s = recovered_s(detected_s(expected, done, answers, story), outcome)
    evicted = f"; evicted: {', '.join(outcome.evicted)}" if outcome.evicted else ""
    return "" if again_s is None else f"training again {again_s:.2f} s after the fault{evicted}"


def clock_of(at: str) -> str:
    """`14:02:03.4` of an ISO time; the date is of no interest in a demo."""
    _, _, time = at.partition("T")
    return time[:10] or at


def _cell(node: Mapping[str, Any], restored: Set[str]) -> NodeCell:
    return NodeCell(
        name=node["name"],
        rack=node["rack"],
        state=node["state"],
        ranks=node["ranks"],
        standby=node["standby"],
        restored=node["name"] in restored,
    )
