"""What NCCL itself says of a job that stands still: evidence beside what rings show. Pure.

A daemon tells the ranks that stand out in the answers of NCCL's RAS (`daemon/samplers/nccl.py`).
They say "the same" or "otherwise" with a standstill's finding, and change neither whom it names nor
its weight. Where the hooks count no collectives they are all there is: then they are a report.
"""

import math
from collections.abc import Mapping

import msgspec

from holdfast.driver.watch import jobs
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Expectation, Findings, Ranks, evidence, goes_on
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat, Nccl, NcclRank

HEARD_S = 10.0
"""For so long an answer counts: a daemon tells it with each heartbeat while the job stands."""
STANDS_S = 30.0
"""Unchanged for so long NCCL's counts are a standstill, where nobody else sees one. They are of
what was launched, and ranks that compute for some seconds differ in it as well."""
ABOUT = frozenset({Kind.HANG, Kind.NO_PROGRESS, Kind.STANDSTILL})
UNCOUNTED = frozenset({"collectives", "groups full"})
"""What a rank lacks whose collectives are not in its ring."""
ERRORS = {
    1: "an error of CUDA",
    2: "an error of the system",
    3: "an internal error",
    4: "an invalid argument",
    5: "an invalid use",
    6: "an error of another process, or of the network",
}
"""Of ncclResult_t (nccl.h)."""


class Word(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job: its newest answer, which node told it, and since when it is the same."""

    nccl: Nccl
    node: str
    heard_s: float
    since_s: float
    told: bool = False


class NcclWords(Detector):
    """What NCCL said last of each job."""

    def __init__(self) -> None:
        self._words: dict[str, Word] = {}

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        name = job.expected.job
        if beat.nccl is not None or name in self._words:
            word = fold(self._words.get(name), beat, job.expected, context.now)
            if word is not None:
                self._words[name] = word
        return ()

    def beside(
        self, findings: Findings, job: JobSeen, context: Context, *, named: bool
    ) -> Findings:
        """What was found of the job's standing still, with what NCCL says of it; its own report
        where nobody else has `named` anything."""
        expected, now = job.expected, context.now
        if (word := self._words.get(expected.job)) is None:
            return findings
        told = beside(findings, word, expected, now)
        if named:  # whoever named it says that it is over, too
            self._words[expected.job] = msgspec.structs.replace(word, told=False)
            return told
        self._words[expected.job], own = judge(word, expected, jobs.fresh(job, now), now)
        return (*told, *own)

    def drop(self, job: str) -> None:
        self._words.pop(job, None)


def fold(word: Word | None, beat: Heartbeat, expected: Expectation, now: float) -> Word | None:
    """What one heartbeat adds. An answer of another epoch is none; nor is one of what went on."""
    said = beat.nccl
    if said is None:
        over = word is not None and word.node == beat.node
        return msgspec.structs.replace(word, heard_s=-math.inf) if word and over else word
    if (said.job, said.epoch) != (expected.job, expected.epoch):
        return word
    new = Word(nccl=said, node=beat.node, heard_s=now, since_s=now)
    if word is None or not _counts(word, expected, now) or word.nccl.ranks != said.ranks:
        return new if word is None else msgspec.structs.replace(new, told=word.told)
    return msgspec.structs.replace(new, since_s=word.since_s, told=word.told)


def beside(findings: Findings, word: Word, expected: Expectation, now: float) -> Findings:
    """The findings, those of a standstill with what NCCL says of it."""
    if not _counts(word, expected, now):
        return findings
    return tuple(
        msgspec.structs.replace(each, evidence=(*each.evidence, *_said(each, word, expected)))
        if each.kind in ABOUT
        else each
        for each in findings
    )


def judge(word: Word, expected: Expectation, ranks: Ranks, now: float) -> tuple[Word, Findings]:
    """A report of its own, once a standstill, of a job whose collectives no ring counts."""
    if word.nccl.epoch != expected.epoch:
        return word, ()
    stands = _counts(word, expected, now) and now - word.since_s >= STANDS_S
    if not word.told and stands and word.nccl.ranks and _hidden(expected, ranks):
        return msgspec.structs.replace(word, told=True), (_report(word, expected, now),)
    if word.told and not stands:
        step = min((seen.step for seen in ranks.values()), default=0)
        over = goes_on(expected, step, f"{expected.job} goes on: NCCL says no more of it")
        return msgspec.structs.replace(word, told=False), (over,)
    return word, ()


def _counts(word: Word, expected: Expectation, now: float) -> bool:
    return word.nccl.epoch == expected.epoch and now - word.heard_s <= HEARD_S


def _hidden(expected: Expectation, ranks: Ranks) -> bool:
    """Whether the collectives of half of the ranks, or more, cannot be seen in rings."""
    shown = (seen for seen in ranks.values() if seen.hooks and UNCOUNTED.isdisjoint(seen.partial))
    return 2 * sum(1 for _ in shown) <= len(expected.seats)


def _said(finding: Finding, word: Word, expected: Expectation) -> tuple[Evidence, ...]:
    nccl = word.nccl
    ranks = [(each, _number(each, nccl, expected)) for each in nccl.ranks]
    if ranks:
        more = f", and {nccl.more} ranks more" if nccl.more else ""
        text = f"{_head(finding, ranks)}: {'; '.join(_sentence(*each) for each in ranks)}{more}"
    else:
        text = (
            f"NCCL says that all ranks of its {nccl.communicators} communicators answer and that "
        )
        text += "none is behind"
    return (evidence(f"NCCL {nccl.version}", text),)


def _head(finding: Finding, ranks: list[tuple[NcclRank, int | None]]) -> str:
    """An error is met by those whom another one leaves, too: it is no word on who it was."""
    holding = {number for each, number in ranks if each.what != "failed" and number is not None}
    if finding.rank is None or not holding:
        return "NCCL says"
    return "NCCL says the same" if finding.rank in holding else "NCCL says otherwise"


def _report(word: Word, expected: Expectation, now: float) -> Finding:
    nccl, places = word.nccl, expected.node_of()
    first = nccl.ranks[0]
    rank = _number(first, nccl, expected)
    stood_s = now - word.since_s
    return Finding(
        kind=Kind.STANDSTILL,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        node=_node(rank, places),
        rank=rank,
        stalled_s=stood_s,
        summary=f"{expected.job} stands for {stood_s:.0f} s, NCCL says, and hooks see the "
        f"collectives of half of its ranks at most: {_sentence(first, rank)}; nothing is done "
        "about it",
        evidence=tuple(
            evidence(f"NCCL {nccl.version}", f"NCCL says: {_sentence(each, number)}")
            for each, number in ((each, _number(each, nccl, expected)) for each in nccl.ranks)
        ),
    )


def _node(rank: int | None, places: Mapping[int, str]) -> str | None:
    return None if rank is None else places.get(rank)


def _number(seen: NcclRank, nccl: Nccl, expected: Expectation) -> int | None:
    """Its rank in the job, where that is sure: one communicator has as many ranks as the job."""
    return seen.rank if nccl.world == len(expected.seats) else None


def _sentence(seen: NcclRank, rank: int | None) -> str:
    process = f"process {seen.pid} on {seen.host}"
    who = process if rank is None else f"rank {rank} ({process})"
    match seen.what:
        case "dead":
            return f"{who} is dead: nothing reached it for a minute"
        case "silent":
            return f"{who} does not answer"
        case "failed":
            return f"{who} met {ERRORS.get(seen.error, f'error {seen.error}')}"
        case "left":
            return f"{who} answers, and is no member of communicator {seen.communicator}"
        case _:
            return (
                f"{who} has launched {seen.launched} {seen.operation} of communicator "
                f"{seen.communicator}, {seen.furthest_ranks} of its {seen.size} ranks "
                f"{seen.furthest}"
            )
