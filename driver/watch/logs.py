"""Lines of logs: of a node's kernel, by NVIDIA's XID or another of its lines (faults.md, 29), and
of the ranks' output that match a rule of the job. Pure.

In the output of ranks a keyword proves nothing, so that what a hit may lead to is the rule's word,
and `report` where it has none.
"""

from collections.abc import Mapping

from holdfast.driver.core.evidence import signs, words_of_ends
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.kernellines import meaning
from holdfast.protocol.messages import Heartbeat, LogHit
from holdfast.protocol.outputs import FLOOD

# ---------------------------------------------------------------- of ranks

KEPT_EPOCHS = 8
"""Twice as many as an executor keeps the outputs of."""
_WEIGHTS = {"report": Weight.REPORT, "restart": Weight.RESTART, "suspect": Weight.SUSPECT}

Key = tuple[str | int | None, ...]
Reported = frozenset[Key]
"""State: (node, daemon's incarnation, job, epoch, rank, rule, line) of each node's newest hits, and
("", job, epoch, rule) of what is looked for in every job: told once an epoch, not by each rank."""


class LogLines(Detector):
    def __init__(self) -> None:
        self._told: Reported = frozenset()

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        if not (beat.logs or self._told):
            return ()
        self._told, findings = judge(self._told, beat, context.seats)
        return findings

    def gone(self, node: str) -> None:
        self._told = frozenset(key for key in self._told if key[0] != node)

    def drop(self, job: str) -> None:
        self._told = frozenset(key for key in self._told if key[:2] != ("", job))


def judge(
    told: Reported, beat: Heartbeat, expected: Mapping[str, Expectation]
) -> tuple[Reported, Findings]:
    """The rank logs' hits of one heartbeat; `expected` by node."""
    hits = {_key(beat, hit): hit for hit in beat.logs if not hit.of_kernel}
    job = expected.get(beat.node)
    findings = tuple(_finding(beat.node, hit, job) for key, hit in hits.items() if key not in told)
    newest = {hit.job: hit.epoch or 0 for hit in hits.values() if hit.always}
    kept = {key for key in told if key[0] != beat.node and not _is_over(key, newest)}
    return frozenset(kept | hits.keys()), findings


def _key(beat: Heartbeat, hit: LogHit) -> Key:
    if hit.always:
        return "", hit.job, hit.epoch, hit.rule
    return beat.node, beat.incarnation, hit.job, hit.epoch, hit.rank, hit.rule, hit.line


def _is_over(key: Key, newest: Mapping[str | None, int]) -> bool:
    """Whether it is of an epoch of which no more can come: there are hits of a much later one."""
    if key[0]:
        return False
    _, job, epoch, _ = key
    return isinstance(epoch, int) and epoch + KEPT_EPOCHS < newest.get(str(job), 0)


def _says(hit: LogHit) -> str:
    if hit.rule == FLOOD:
        return "prints more than can be searched"
    return f"speaks of {hit.rule}" if hit.always else f"matches {hit.rule!r}"


def _finding(node: str, hit: LogHit, expected: Expectation | None) -> Finding:
    """What a rule may lead to holds for the epoch that prints it: another has ended already."""
    job, epoch = hit.job, hit.epoch
    running = expected is not None and (expected.job, expected.epoch) == (job, epoch)
    actions = dict(expected.log_rules) if expected is not None and running else {}
    action = "report" if hit.always else actions.get(hit.rule, "report")
    return Finding(
        kind=Kind.LOG_KEYWORD,
        weight=_WEIGHTS[action],
        sign=words_of_ends.of_line(hit.line, hit.rule),
        job=job,
        epoch=epoch,
        node=node,
        rank=hit.rank,
        summary=f"{hit.source} on {node} {_says(hit)}: {hit.line[:120]}",
        evidence=(evidence(hit.source, hit.line, rule=hit.rule),),
    )


# ---------------------------------------------------------------- of the kernel

ToldOfKernel = frozenset[tuple[str, str]]
"""State of one node: (daemon's incarnation, line) of what was told; it may come again."""


class KernelFaults(Detector):
    def __init__(self) -> None:
        self._told: dict[str, ToldOfKernel] = {}  # by node

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        before = self._told.pop(beat.node, frozenset())
        if not beat.logs:
            return ()
        self._told[beat.node], findings = judge_kernel(before, beat)
        return findings

    def gone(self, node: str) -> None:
        self._told.pop(node, None)


def judge_kernel(told: ToldOfKernel, beat: Heartbeat) -> tuple[ToldOfKernel, Findings]:
    """The kernel log's hits of one heartbeat."""
    lines = {(beat.incarnation, hit.line): hit for hit in beat.logs if hit.of_kernel}
    findings = tuple(_fault(beat.node, hit) for key, hit in lines.items() if key not in told)
    return frozenset(lines), findings


def _fault(node: str, hit: LogHit) -> Finding:
    text, weight, _ = meaning(hit.rule, hit.xid)
    what = f"XID {hit.xid} on" if hit.xid is not None else "the kernel of"
    data: dict[str, int | str] = {"rule": hit.rule} if hit.xid is None else {"xid": hit.xid}
    return Finding(
        kind=Kind.KERNEL_FAULT,
        weight=weight,
        sign=signs.of_kernel(hit.rule, hit.xid),
        node=node,
        summary=f"{what} {node}: {text}",
        evidence=(evidence(f"kernel log of {node}", hit.line, **data),),
    )
