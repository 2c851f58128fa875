"""A link that holds a job up, or loses its packets, while its steps go on. Pure.

All ranks wait for the slowest flow, so steps and waits are alike everywhere; what differs is for
how long bytes are on their way (docs/detection.md has what was measured). A flow is compared with
the others of its job, and with what it was before: two figures that agree. It is a report: whether
a slow job is worth a node is for people to say.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from statistics import median_high

import msgspec

from holdfast.driver.watch import flows, slow_links_words
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.flows import Moved, Pair, Told
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Findings
from holdfast.protocol.faults import Finding, Kind
from holdfast.protocol.messages import Heartbeat

WINDOW_S, WINDOW_STEPS = 10.0, 3
"""Of a window, at least: two looks of a daemon, and a few steps."""
LOOK_AGAIN_S = 1.0
"""Where its steps are long: a look goes through all ranks."""
LEARNED = 3
"""Windows whose median is what is usual between two nodes."""
IN_A_ROW = 3
"""Windows that have to show it: of less than 20 s, as of a save, there are two at most."""
WELL = 2
"""Windows in a row after which it is taken back: one may be half an evaluation."""
BUSY = 0.2
"""Share of the time that something is on its way, from which on a job waits for the link."""
SLOWER, SLOWER_AT_ONCE = 3.0, 5.0
"""So many times slower than others and than before; than others, whatever was before."""
SAME_WORK = 0.7
"""Of the usual bytes a step, below which the script does something else, as an evaluation does."""
ALIKE = 8.0
"""Flows whose bytes are that many times others' are of another kind, and not compared at once."""
SEGMENTS, LOST, LOST_TIMES = 5_000, 0.01, 5.0
"""Of a window, at least; the share that is sent again; and so many times as much as of others. On
overloaded machines .7 % of a healthy flow was seen, for 25 s."""
COMPARED = 32
"""Flows with which each is compared, at most: of a job that has more, some of each size."""
CULPRITS = 8
"""Links at once, at most: of more only nodes are told, for such a network is built so, or full."""


class Links(msgspec.Struct):
    """State of one job's epoch, but for what is usual, which outlives it. Written in place."""

    epoch: int
    version: int = 1  # of the job: another one may send in other ways
    step: int | None = None
    began_s: float = 0.0
    next_s: float = 0.0  # when to look whether the window is over
    nodes: dict[str, Told] = {}
    usual: dict[Pair, list[Moved]] = {}
    bad: dict[Pair, int] = {}  # windows in a row
    good: int = 0  # windows in a row, in which what was told is well
    told: set[slow_links_words.Culprit] = set()
    earlier: bool = False  # an attempt, or a driver, before told of one, and nobody took it back


class SlowLinks(Detector):
    def __init__(self) -> None:
        self._links: dict[str, Links] = {}  # by job

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        if beat.flows:
            flows.hear(self._of(job, context).nodes, beat)
        return ()

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        links = self._links.get(job.expected.job)
        if links is None or context.now < links.next_s or not context.sees_most:
            return ()
        links, step = self._of(job, context), job.heard_step()
        links.next_s = context.now + LOOK_AGAIN_S
        if step is None or (links.step is not None and step - links.step < WINDOW_STEPS):
            return ()
        took_s, before = context.now - links.began_s, links.step
        links.began_s, links.step, links.next_s = context.now, step, context.now + WINDOW_S
        moved = flows.window(links.nodes, max(1, step - (before or 0)), took_s)
        return tuple(judge(links, moved, job)) if before is not None else ()

    def _of(self, job: JobSeen, context: Context) -> Links:
        name, epoch = job.expected.job, job.expected.epoch
        links = self._links.get(name)
        if links is None or links.epoch != epoch:
            version = job.expected.version
            usual = links.usual if links is not None and links.version == version else {}
            earlier = Kind.LINK_SLOW in context.recalled_of(name)
            earlier = earlier or (links is not None and (bool(links.told) or links.earlier))
            links = self._links[name] = Links(epoch, version, usual=usual, earlier=earlier)
        return links

    def drop(self, job: str) -> None:
        self._links.pop(job, None)

    def gone(self, node: str) -> None:
        for links in self._links.values():
            links.nodes.pop(node, None)
            for known in (links.usual, links.bad):
                for pair in [pair for pair in known if node in pair]:
                    del known[pair]


def judge(links: Links, moved: Mapping[Pair, Moved], job: JobSeen) -> Iterator[Finding]:
    """What a whole window tells."""
    some = _some(moved)
    slow = {pair for pair in moved if _is_slow(links, moved[pair], pair, some)}
    lost = {pair for pair in moved if _is_lost(moved[pair], pair, some)}
    _learn(links, moved, slow | lost)
    links.bad = {pair: links.bad.get(pair, 0) + 1 for pair in slow | lost}
    if max(links.bad.values(), default=0) >= IN_A_ROW:
        yield from _found(links, moved, slow, job)
    links.good = links.good + 1 if _is_well(links, moved) else 0
    if links.good >= WELL and (links.told or links.earlier):
        links.told, links.earlier = set(), False
        yield slow_links_words.well(job.expected)


def _found(
    links: Links, moved: Mapping[Pair, Moved], slow: set[Pair], job: JobSeen
) -> Iterator[Finding]:
    """Whose it is. One flow of a node may show it a window after another one did."""
    bad = {pair for pair, windows in links.bad.items() if windows >= IN_A_ROW - 1}
    if 2 * len(bad) > len(moved) and not set.intersection(*map(set, bad)):
        return  # the network as a whole, or the script: no link
    found = list(islice(slow_links_words.culprits(bad, moved), CULPRITS + 1))
    if len(found) > CULPRITS:
        found = [(culprit, pairs) for culprit, pairs in found if len(culprit) == 1]
    for culprit, pairs in found:
        if not _is_told(links, culprit):
            links.told.add(culprit)
            usual = {pair: _usual(links, pair) for pair in pairs}
            yield slow_links_words.told(culprit, pairs, moved, usual, pairs & slow, job.expected)


def _is_well(links: Links, moved: Mapping[Pair, Moved]) -> bool:
    """Whether all that was told sends as others do: who sends nothing, as in a pause, does not."""
    seen = (any(set(culprit) <= set(pair) for pair in moved) for culprit in links.told)
    return bool(moved) and not links.bad and all(seen)


def _is_told(links: Links, culprit: slow_links_words.Culprit) -> bool:
    """Whether it was, or a node of it: a node may be named once a second flow of it is bad."""
    return any(set(told) <= set(culprit) for told in links.told)


def _some(moved: Mapping[Pair, Moved]) -> Mapping[Pair, Moved]:
    if len(moved) <= COMPARED:
        return moved
    by_bytes = sorted(moved.items(), key=lambda each: each[1].sent_bytes)
    return dict(by_bytes[:: -(-len(moved) // COMPARED)])


def _is_slow(links: Links, now: Moved, pair: Pair, some: Mapping[Pair, Moved]) -> bool:
    if now.busy < BUSY:
        return False
    before, others = _usual(links, pair), _others(some, pair)
    alike = [each.rate for each in others if _are_alike(now, each)]
    if alike and now.rate * SLOWER_AT_ONCE <= median_high(alike):
        return True
    if before is None or now.rate * SLOWER > before.rate or now.step_s <= before.step_s:
        return False
    rates = [each.rate for each in others]
    less = len(rates) > 1 and now.rate * SLOWER > median_high(rates)
    return now.step_bytes >= SAME_WORK * before.step_bytes and not less


def _others(moved: Mapping[Pair, Moved], pair: Pair) -> list[Moved]:
    """Flows of other nodes, where there are some: of a bad link all flows are bad."""
    apart = [each for other, each in moved.items() if not set(other) & set(pair)]
    return apart or [each for other, each in moved.items() if other != pair]


def _is_lost(now: Moved, pair: Pair, some: Mapping[Pair, Moved]) -> bool:
    if now.segments < SEGMENTS or now.lost < LOST:
        return False
    others = _others(some, pair)
    sent, resent = sum(each.segments for each in others), sum(each.resent for each in others)
    return now.resent * sent >= LOST_TIMES * resent * now.segments


def _are_alike(one: Moved, other: Moved) -> bool:
    return one.sent_bytes <= ALIKE * other.sent_bytes and other.sent_bytes <= ALIKE * one.sent_bytes


def _learn(links: Links, moved: Mapping[Pair, Moved], bad: set[Pair]) -> None:
    if len(links.usual) > 4 * flows.MOST:  # each may send to each
        links.usual = {pair: known for pair, known in links.usual.items() if pair in moved}
    for pair, now in moved.items():
        known = links.usual.setdefault(pair, [])
        if len(known) < LEARNED and pair not in bad:
            known.append(now)


def _usual(links: Links, pair: Pair) -> Moved | None:
    known = links.usual.get(pair, [])
    return (
        sorted(known, key=lambda each: each.rate)[LEARNED // 2] if len(known) == LEARNED else None
    )
