"""What a node is short of, links that go down, and GPUs of which their own driver says that they
are broken or hot. Pure. Each thing is told once, and again only after it was over.

Of links one flap is tolerated, two within five minutes make a suspect; counters alone (errors that
rise) are only reported, once until they have been still for a while: faults.md, rows 17 and 18. A
trouble of a GPU weighs what an XID of the same would (`protocol.xids`), which may come beside it:
79 of one that is lost, 64 of a remapping that failed, 154 of one that is to be reset. Errors that
were not corrected are a report, and again when there are more: some are contained, and the XID that
comes with them says which.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from holdfast.driver.core.evidence import signs
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Findings, Settings, evidence
from holdfast.protocol import counts
from holdfast.protocol.counts import plural
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Gpu, Heartbeat, NicRates

# ---------------------------------------------------------------- disk and memory

Short = frozenset[str]
"""State of one node: what is short now."""

RESOURCES = {
    "scratch_used": ("disk", Kind.DISK_FULL),
    "memory_used": ("memory", Kind.PRESSURE),
}


class HostPressure(Detector):
    def __init__(self) -> None:
        self._short: dict[str, Short] = {}  # by node

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        before = self._short.pop(beat.node, frozenset())
        short, findings = judge_pressure(before, beat, context.settings)
        if short:
            self._short[beat.node] = short
        return findings

    def gone(self, node: str) -> None:
        self._short.pop(node, None)


def judge_pressure(told: Short, beat: Heartbeat, settings: Settings) -> tuple[Short, Findings]:
    """The host pressure of one heartbeat."""
    shares = beat.pressure
    short = frozenset([name for name in RESOURCES if getattr(shares, name) >= settings.pressure])
    new = sorted(short - told)
    return short, tuple([_short(beat.node, name, float(getattr(shares, name))) for name in new])


def _short(node: str, name: str, share: float) -> Finding:
    word, kind = RESOURCES[name]
    text = f"{share:.0%} of the {word} of {node} is used"
    return Finding(
        kind=kind,
        weight=Weight.REPORT,
        node=node,
        summary=text,
        evidence=(evidence(f"daemon of {node}", text, share=round(share, 3)),),
    )


# ---------------------------------------------------------------- links

STILL_S = 60.0
"""For so long no error is counted, until the next is another event."""
MOST_FLAPS = 16
"""Kept of those between two heartbeats: no link goes down more often, a counter may jump."""


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one link: carrier changes when last heard, and when it went down of late."""

    up: bool
    changes: int
    downs: int | None = None
    downs_s: tuple[float, ...] = ()
    erred_s: float | None = None  # when errors were counted last


Links = dict[str, Link]
"""State of one node, by NIC."""


class BadLinks(Detector):
    def __init__(self) -> None:
        self._links: dict[str, Links] = {}  # by node

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        before = self._links.get(beat.node, {})
        if not (beat.nics or before):
            return ()
        self._links[beat.node], findings = judge_links(before, beat, context.settings, context.now)
        return findings

    def gone(self, node: str) -> None:
        self._links.pop(node, None)


def judge_links(
    links: Links, beat: Heartbeat, settings: Settings, now: float
) -> tuple[Links, Findings]:
    """The NICs of one heartbeat, against what they were in the one before."""
    found: list[Finding] = []
    seen: Links = {}
    for nic in beat.nics:
        before = links.get(nic.name)
        after = _next(before, nic, settings, now)
        seen[nic.name] = after
        if before is not None and after.downs_s != before.downs_s and after.downs_s:
            found.append(_down(beat.node, nic, after, settings))
        still = before is None or before.erred_s is None or now - before.erred_s > STILL_S
        if nic.errors_per_s > 0 and still:
            found.append(_counters(beat.node, nic))
    return seen, tuple(found)


def _next(before: Link | None, nic: NicRates, settings: Settings, now: float) -> Link:
    downs_s = before.downs_s if before is not None else ()
    downs_s = tuple(at for at in downs_s if now - at <= settings.flap_window_s)
    if before is not None:
        downs_s += (now,) * min(_flaps(before, nic), MOST_FLAPS)
    erred_s = before.erred_s if before is not None else None
    return Link(
        up=nic.up,
        changes=nic.carrier_changes,
        downs=nic.downs,
        downs_s=downs_s,
        erred_s=now if nic.errors_per_s > 0 else erred_s,
    )


def _flaps(before: Link, nic: NicRates) -> int:
    """How often it went down since the heartbeat before."""
    if nic.downs is not None and before.downs is not None:
        return max(0, nic.downs - before.downs)
    # A flap between two heartbeats shows in the count of carrier changes alone: down and up.
    changes = max(0, nic.carrier_changes - before.changes)
    return max(int(before.up and not nic.up), (changes + int(before.up)) // 2)


def _down(node: str, nic: NicRates, link: Link, settings: Settings) -> Finding:
    times = len(link.downs_s)
    suspect = times >= settings.flaps
    state = "is down" if not nic.up else "went down and came back"
    often = f"{counts.times(times)} within {settings.flap_window_s:g} s"
    text = f"{nic.name} of {node} {state}: {often}"
    return Finding(
        kind=Kind.LINK_DOWN,
        weight=Weight.SUSPECT if suspect else Weight.REPORT,
        node=node,
        summary=text,
        evidence=(
            evidence(
                f"daemon of {node}",
                _counted(nic),
                downs=times,
            ),
        ),
    )


def _counted(nic: NicRates) -> str:
    if nic.downs is not None:
        return f"{nic.name} went down {counts.times(nic.downs)} so far"
    return f"carrier of {nic.name} changed {counts.times(nic.carrier_changes)} so far"


def _counters(node: str, nic: NicRates) -> Finding:
    return Finding(
        kind=Kind.COUNTERS,
        weight=Weight.REPORT,
        node=node,
        summary=f"error counters of {nic.name} on {node} rise: {nic.errors_per_s:.3g} a second",
        evidence=(
            evidence(
                f"daemon of {node}",
                f"{nic.name}: {nic.errors_per_s:.3g} errors a second",
                errors_per_s=nic.errors_per_s,
            ),
        ),
    )


# ---------------------------------------------------------------- GPUs


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


ToldOfGpus = dict[tuple[int, str], Since]
"""State of one node, by GPU and trouble."""


class BrokenGpus(Detector):
    def __init__(self) -> None:
        self._told: dict[str, ToldOfGpus] = {}  # by node

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        before = self._told.get(beat.node, {})
        if not (beat.gpus or before):
            return ()
        self._told[beat.node], findings = judge_gpus(before, beat, context.settings, context.now)
        return findings

    def gone(self, node: str) -> None:
        self._told.pop(node, None)


def judge_gpus(
    told: ToldOfGpus, beat: Heartbeat, settings: Settings, now: float
) -> tuple[ToldOfGpus, Findings]:
    """The GPUs of one heartbeat. Where they cannot be read what was told stays as it was."""
    if not beat.gpus:
        return told, ()
    found: list[Finding] = []
    seen: ToldOfGpus = {}
    for gpu in beat.gpus:
        for trouble in _troubles(gpu, settings):
            key = gpu.index, trouble.what
            since = told.get(key, Since(now))
            new = not since.told or trouble.counted > since.counted
            if new and now - since.at_s >= trouble.after_s:
                found.append(_broken(beat.node, gpu, trouble))
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


def _broken(node: str, gpu: Gpu, trouble: Trouble) -> Finding:
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
