"""A job of which nobody can see whether it stands still: its ranks tell nothing. Pure.

Nothing is done about it, for it is nobody's fault; but where it hangs nobody would
ever know, so people are told, once, and again when it is over.
"""

import math
from collections.abc import Iterator, Mapping

import msgspec

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen, RankSeen
from holdfast.driver.watch.model import Findings, NodeSeen, evidence
from holdfast.driver.watch.standstill_manner import GONE
from holdfast.protocol.faults import Finding, Kind, Weight

NO_MORE_S = 15.0
"""A daemon that dies is started again within some seconds, and a node that is lost is missed."""
NEVER_S = 60.0
"""A ring is made before the script begins: where there is none by now, there will be none."""
LOOK_AGAIN_S = 1.0
"""There are jobs of thousands of ranks."""
NAMED = 8
"""Ranks that are named; of more people are told how many."""


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """What was told of a job, over its attempts."""

    told: bool = False
    looked_s: float = -math.inf


class UnseenRanks(Detector):
    """Looks at each job for ranks of which nothing is heard."""

    def __init__(self) -> None:
        self._known: dict[str, Unseen] = {}

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        if not context.sees_most:
            return ()
        name = job.expected.job
        recalled = Kind.UNSEEN in context.recalled_of(name)
        known = self._known.get(name) or Unseen(told=recalled)
        self._known[name], findings = judge(known, job, context.nodes, context.now)
        return findings

    def drop(self, job: str) -> None:
        self._known.pop(job, None)


def judge(
    known: Unseen, job: JobSeen, nodes: Mapping[str, NodeSeen], now: float
) -> tuple[Unseen, Findings]:
    if now - known.looked_s < LOOK_AGAIN_S:
        return known, ()
    silent = tuple(_silent(job, now))
    sure = silent or len(job.ranks) == len(job.expected.seats)
    if bool(silent) is known.told or not sure:
        return Unseen(told=known.told, looked_s=now), ()
    told = Unseen(told=bool(silent), looked_s=now)
    return told, (_unseen(job, silent, nodes, now) if silent else _seen(job),)


def _silent(job: JobSeen, now: float) -> Iterator[int]:
    """Ranks of which nothing was heard for long. Of one that has ended its executor tells."""
    for rank in job.places:
        seen = job.ranks.get(rank)
        ended = seen is not None and seen.progress.process in GONE
        if not ended and _silent_s(job, seen, now) > (NEVER_S if seen is None else NO_MORE_S):
            yield rank


def _silent_s(job: JobSeen, seen: RankSeen | None, now: float) -> float:
    since_s = job.began_s if seen is None else seen.heard_s
    return now - max(since_s, job.unheard_s)


def _unseen(
    job: JobSeen, silent: tuple[int, ...], nodes: Mapping[str, NodeSeen], now: float
) -> Finding:
    name, node = job.expected.job, job.places[silent[0]]
    seen = job.ranks.get(silent[0])
    for_s = _silent_s(job, seen, now)
    who = f"nothing is heard of {_ranks(silent)} for {for_s:.0f} s"
    text = f"{who}: {_why(nodes.get(node), node, seen)}"
    return Finding(
        kind=Kind.UNSEEN,
        weight=Weight.REPORT,
        job=name,
        epoch=job.expected.epoch,
        summary=f"nobody sees whether {name} stands still: {text}",
        evidence=(evidence("driver", text, silent_s=round(for_s, 1)),),
    )


def _ranks(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    more = f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else ""
    return f"ranks {', '.join(map(str, ranks[:NAMED]))}{more}"


def _why(node: NodeSeen | None, name: str, seen: RankSeen | None) -> str:
    heard_s = node.heard_s if node is not None else None
    if node is None or heard_s is None or (seen is not None and heard_s <= seen.heard_s):
        return f"the daemon of {name} is silent"
    said = [each for each in node.unreadable if each.startswith(("ring", "progress"))]
    if said:
        return f"the daemon of {name} cannot read them ({'; '.join(said)})"
    if seen is not None:
        return f"the daemon of {name} speaks, and sees their rings no more"
    return "a command that is no Python script, or starts another one, tells nothing of itself"


def _seen(job: JobSeen) -> Finding:
    return Finding(
        kind=Kind.SEEN_AGAIN,
        weight=Weight.REPORT,
        job=job.expected.job,
        epoch=job.expected.epoch,
        summary=f"all ranks of {job.expected.job} are heard of again",
    )
