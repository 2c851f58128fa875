"""Traffic of a training job's nodes that changes its shape, while its steps go on. Pure.

Used by `Watch`. A job moves as many bytes in each step: so they are counted by step, over windows
of many, and each node's window is compared with what was usual there, as shares: of each NIC in
all that the node moves, and of both directions; and the bytes of a step themselves. It is a report
only: which way messages go is the script's and its library's to choose.
"""

from collections.abc import Iterator, Mapping

import msgspec

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat

WINDOW_S, WINDOW_STEPS = 20.0, 20
"""Of a window, at least: long beside a step, short beside what people wait for."""
LEARNED = 4
"""Windows of which the least is what is usual: a save to a store adds to some of them."""
IN_A_ROW = 2
"""Windows that have to be below it: what is rare ends before."""
FALLEN, BACK = 0.5, 0.75
"""Of what is usual: told below the one, and not again before it was above the other."""
LEAST_BYTES = 1_000_000
"""A step of less is no traffic to speak of."""
LEAST_SHARE = 0.1
"""A NIC or a direction that usually has less is none that the job counts on."""

WHOLE, SENT, RECEIVED = "", "sends", "receives"
"""What a figure is of, but for shares of NICs, which have their names."""


class Flows(msgspec.Struct, kw_only=True):
    """State of one node in one attempt. Written in place."""

    epoch: int
    began_s: float
    step: int
    heard_s: float
    moved: dict[str, tuple[float, float]] = {}  # by NIC: bytes sent and received in the window
    usual: dict[str, float] = {}
    learned: int = 0
    fallen: dict[str, int] = {}  # windows in a row
    told: set[str] = set()


Nodes = dict[str, Flows]
"""Of one job."""


class ChangedTraffic(Detector):
    def __init__(self) -> None:
        self._nodes: dict[str, Nodes] = {}  # by job

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        nodes = self._nodes.setdefault(job.expected.job, {})
        return judge(nodes, beat, job.expected, context.now)

    def drop(self, job: str) -> None:
        self._nodes.pop(job, None)


def judge(nodes: Nodes, beat: Heartbeat, expected: Expectation, now: float) -> Findings:
    """Take in what the node's NICs moved since the heartbeat before; what a whole window tells."""
    mine = (expected.job, expected.epoch)
    step = min((each.step for each in beat.ranks if (each.job, each.epoch) == mine), default=0)
    if not (beat.nics and step):
        return ()
    flows = nodes.get(beat.node)
    if flows is None or flows.epoch != expected.epoch:
        nodes[beat.node] = Flows(epoch=expected.epoch, began_s=now, step=step, heard_s=now)
        return ()
    _count(flows, beat, now)
    steps = step - flows.step
    if steps < WINDOW_STEPS or now - flows.began_s < WINDOW_S:
        return ()
    figures = dict(_figures(flows.moved, steps))
    flows.began_s, flows.step, flows.moved = now, step, {}
    return tuple(_unlike(nodes, beat.node, figures, expected))


def _count(flows: Flows, beat: Heartbeat, now: float) -> None:
    took_s, flows.heard_s = now - flows.heard_s, now
    for nic in beat.nics:
        sent, received = flows.moved.get(nic.name, (0.0, 0.0))
        sent += nic.sent_bytes_per_s * took_s
        flows.moved[nic.name] = sent, received + nic.received_bytes_per_s * took_s


def _figures(moved: Mapping[str, tuple[float, float]], steps: int) -> Iterator[tuple[str, float]]:
    """Bytes a step, and the share of each direction and NIC in them."""
    sent, received = (sum(each) for each in zip(*moved.values(), strict=True))
    whole = sent + received
    yield WHOLE, whole / steps
    if whole:
        yield SENT, sent / whole
        yield RECEIVED, received / whole
        yield from ((name, sum(each) / whole) for name, each in moved.items())


def _unlike(
    nodes: Nodes, node: str, figures: Mapping[str, float], expected: Expectation
) -> Iterator[Finding]:
    flows = nodes[node]
    if flows.learned < LEARNED:
        flows.learned += 1
        flows.usual = {
            what: min(flows.usual.get(what, each), each) for what, each in figures.items()
        }
        return
    for what, usual in flows.usual.items():
        share = figures.get(what, 0.0) / usual if usual else 1.0
        flows.fallen[what] = flows.fallen.get(what, 0) + 1 if share < FALLEN else 0
        if share > BACK:
            flows.told.discard(what)
        told = WHOLE in flows.told or what in flows.told
        if flows.fallen[what] >= IN_A_ROW and not told and _counts(flows, what):
            flows.told.add(what)
            if not _everywhere(nodes, what, expected.epoch):
                yield _finding(node, what, usual, figures.get(what, 0.0), expected)


def _counts(flows: Flows, what: str) -> bool:
    """Whether the job relies on it; of what does not move at all there are no shares."""
    least = LEAST_BYTES if what == WHOLE else LEAST_SHARE
    return flows.usual[what] >= least and flows.usual[WHOLE] >= LEAST_BYTES


def _everywhere(nodes: Nodes, what: str, epoch: int) -> bool:
    """Whether it fell on half of the attempt's nodes or more, and not on one alone: so the script
    goes on in another way."""
    fell = [bool(each.fallen.get(what)) for each in nodes.values() if each.epoch == epoch]
    return sum(fell) > 1 and 2 * sum(fell) >= len(fell)


def _finding(node: str, what: str, usual: float, now: float, expected: Expectation) -> Finding:
    if what == WHOLE:
        text = f"moves {now / 1e6:.3g} MB a step, and before {usual / 1e6:.3g}"
    elif what in (SENT, RECEIVED):
        text = f"{what} {now:.0%} of the bytes that it moves, and before {usual:.0%}"
    else:
        text = f"moves {now:.0%} of its bytes by {what}, and before {usual:.0%}"
    told = evidence(f"daemon of {node}", f"{node} {text}", usual=usual, now=now)
    return Finding(
        kind=Kind.TRAFFIC,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        node=node,
        summary=f"traffic of {node} has changed while its steps go on: it {text}",
        evidence=(told,),
    )
