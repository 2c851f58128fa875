"""GPUs of which their own driver says that they are broken or hot: each thing is told once, and
again after it was over; errors, when there are more. Pure.

A trouble weighs what an XID of the same would (`protocol.xids`), which may come beside it: 79 of
one that is lost, 64 of a remapping that failed, 154 of one that is to be reset. Errors that were
not corrected are a report: some are contained, and the XID that comes with them says which.
"""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.driver.core.evidence import signs
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Findings, Settings, evidence
from holdfast.protocol.counts import plural
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Gpu, Heartbeat


class Trouble(NamedTuple):
    """What is wrong with a GPU, what may be done, and for how long it lasts before it counts."""

    what: str
    weight: Weight
    after_s: float = 0.0
    counted: int = 0


class Since(NamedTuple):
    """Since when a trouble is there, whether it was told, and how many were counted last."""

    at_s: float
    told: bool = False
    counted: int = 0


Told = dict[tuple[int, str], Since]
"""State of one node, by GPU and trouble."""


class BrokenGpus(Detector):
    def __init__(self) -> None:
        self._told: dict[str, Told] = {}  # by node

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        before = self._told.get(beat.node, {})
        if not (beat.gpus or before):
            return ()
        self._told[beat.node], findings = judge(before, beat, context.settings, context.now)
        return findings

    def gone(self, node: str) -> None:
        self._told.pop(node, None)


def judge(told: Told, beat: Heartbeat, settings: Settings, now: float) -> tuple[Told, Findings]:
    """The GPUs of one heartbeat. Where they cannot be read what was told stays as it was."""
    if not beat.gpus:
        return told, ()
    found: list[Finding] = []
    seen: Told = {}
    for gpu in beat.gpus:
        for trouble in _troubles(gpu, settings):
            key = gpu.index, trouble.what
            since = told.get(key, Since(now))
            new = not since.told or trouble.counted > since.counted
            if new and now - since.at_s >= trouble.after_s:
                found.append(_finding(beat.node, gpu, trouble))
                since = since._replace(told=True)
            seen[key] = since._replace(counted=trouble.counted)
    return seen, tuple(found)


def _troubles(gpu: Gpu, settings: Settings) -> Iterator[Trouble]:
    if gpu.lost:
        yield Trouble("has fallen off the bus", Weight.CONCLUSIVE)
    if gpu.recovery:
        yield Trouble(f"is to be recovered, its driver says: {gpu.recovery}", Weight.SUSPECT)
    if gpu.remap_failed:
        yield Trouble("has no row left to remap a bad one to", Weight.SUSPECT)
    if gpu.uncorrected_errors:
        what = "has memory errors that were not corrected"
        yield Trouble(what, Weight.REPORT, counted=gpu.uncorrected_errors)
    if gpu.slowed_by_heat:
        long_s = settings.gpu_hot_s
        yield Trouble(f"has been slowed by heat for {long_s:g} s", Weight.REPORT, long_s)


def _finding(node: str, gpu: Gpu, trouble: Trouble) -> Finding:
    hot = "" if gpu.celsius is None else f", {gpu.celsius} °C"
    errors = f", {plural(gpu.uncorrected_errors, 'error')}" if gpu.uncorrected_errors else ""
    return Finding(
        kind=Kind.KERNEL_FAULT,
        weight=trouble.weight,
        sign=signs.of_gpu(trouble.weight),
        node=node,
        summary=f"GPU {gpu.index} of {node} {trouble.what}",
        evidence=(
            evidence(f"GPU driver of {node}", f"GPU {gpu.index} {trouble.what}{hot}{errors}"),
        ),
    )
