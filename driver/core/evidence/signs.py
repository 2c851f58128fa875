"""What is seen of a fault, and where a fault comes from that shows such signs. Pure.

The table says of each sign how sure that is; `judge` takes all signs of one fault together: where
it is made, which says who pays for it and what may be behind it, and for the pages, with what was
seen since. A sign has a name, by which a fault and its incident keep it. What a program prints
about itself is never explicit evidence: who knows is the kernel, the driver of a device, the
executor, a test beside others. Shares are those of ByteRobust (SOSP'25) and Llama 3 (Dubey et al.
2024); what has none is "likely" where the words can hardly come from elsewhere, and "not sure"
else.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.driver.core.state.fact import Hypothesis
from holdfast.protocol.faults import Blame, Kind, Origin, Sure, Weight
from holdfast.protocol.kernellines import FURTHER, OOM_KILL_OWN, RULES, Meaning
from holdfast.protocol.xids import XIDS

_O, _S = Origin, Sure


class Sign(NamedTuple):
    """Where a fault comes from that shows this; None: it says nothing of that."""

    origin: Origin | None
    sure: Sure
    why: str


NOTHING = Sign(None, _S.NOT_SURE, "nothing tells where it comes from")

_OF_KIND: dict[Kind, Sign] = {
    Kind.RANK_CRASHED: NOTHING,
    Kind.ENDED_EARLY: Sign(_O.USER, _S.LIKELY, "it ended by itself while others trained"),
    Kind.USER_EXCEPTION: Sign(_O.USER, _S.LIKELY, "the script raised an exception"),
    Kind.OUT_OF_MEMORY: Sign(_O.USER, _S.LIKELY, "its ranks took more memory than there was"),
    Kind.EXECUTOR_LOST: Sign(_O.HOST, _S.LIKELY, "what runs its ranks is gone"),
    Kind.DAEMON_LOST: Sign(_O.HOST, _S.LIKELY, "what watches its node is gone"),
    Kind.NODE_LOST: Sign(_O.HOST, _S.LIKELY, "two sources agree that the node is gone"),
    Kind.COLLECTIVE_MISMATCH: Sign(_O.USER, _S.LIKELY, "ranks disagree on what comes next"),
    Kind.LINK_DOWN: Sign(_O.NETWORK, _S.SURE, "the link of a node went down"),
    Kind.UNREACHABLE: Sign(_O.NETWORK, _S.SURE, "nodes that are heard do not reach each other"),
    Kind.BUS_NARROW: Sign(_O.HOST, _S.LIKELY, "a device has fewer lanes of PCIe than it should"),
    Kind.COUNTERS: Sign(_O.NETWORK, _S.LIKELY, "error counters of a link rise"),
    Kind.SILENT_CORRUPTION: Sign(
        _O.HOST, _S.NOT_SURE, "replicas that were equal differ: a processor, or memory"
    ),
    Kind.LOSS: Sign(None, _S.NOT_SURE, "of the data, the code or a processor"),
    Kind.LINK_SLOW: Sign(_O.NETWORK, _S.LIKELY, "a link holds the job up, or loses packets"),
    Kind.TRAFFIC: Sign(_O.NETWORK, _S.NOT_SURE, "the traffic of a node changes its shape"),
    Kind.DISK_FULL: Sign(_O.STORAGE, _S.LIKELY, "a disk is full"),
    Kind.CHECKPOINT_CORRUPT: Sign(_O.STORAGE, _S.LIKELY, "a checkpoint is not what was saved"),
    Kind.STORE_FAILED: Sign(_O.STORAGE, _S.LIKELY, "checkpoints do not reach their store"),
    Kind.STORE_FILLS: Sign(_O.STORAGE, _S.NOT_SURE, "the store keeps what it should let go"),
    Kind.STORE_NOT_SHARED: Sign(_O.STORAGE, _S.SURE, "nodes see different folders at one path"),
    Kind.RENDEZVOUS_AWAY: Sign(_O.EXTERNAL, _S.SURE, "the Redis where ranks meet is silent"),
    Kind.AGENT_SILENT: Sign(_O.FRAMEWORK, _S.LIKELY, "a checkpoint agent does not answer"),
    Kind.DEFECT: Sign(_O.FRAMEWORK, _S.SURE, "a defect of Holdfast's own"),
    Kind.DIAGNOSTIC_FAILED: Sign(_O.HOST, _S.SURE, "it failed its tests beside others"),
    Kind.NOT_QUIET: Sign(_O.HOST, _S.LIKELY, "the kernel does not end its processes"),
    Kind.PRESSURE: Sign(_O.HOST, _S.LIKELY, "the host is short of something"),
    Kind.NODE_PROBLEM: Sign(_O.HOST, _S.SURE, "the cluster says so of the node"),
    Kind.REQUESTED: Sign(_O.EXTERNAL, _S.SURE, "a person asked for it"),
    Kind.MAINTENANCE: Sign(_O.EXTERNAL, _S.SURE, "a node is to be free"),
    Kind.JOURNAL_PUT_BACK: Sign(_O.STORAGE, _S.SURE, "the driver's journal is an older one"),
}
"""Of any other kind: nothing."""

_OF_ENDS = {
    "not-startable": Sign(_O.USER, _S.SURE, "its command cannot be run"),
    "lost-peer": Sign(_O.NETWORK, _S.NOT_SURE, "a peer was lost, and nobody saw it die"),
    "exit-code": Sign(_O.USER, _S.NOT_SURE, "it ended with a code and no word"),
    "SIGKILL": Sign(None, _S.NOT_SURE, "no line of the kernel tells who killed it"),
    **{
        name: Sign(_O.EXTERNAL, _S.NOT_SURE, "somebody sent it a signal")
        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")
    },
    **{
        name: Sign(_O.EXTERNAL, _S.NOT_SURE, "a limit that somebody set is reached")
        for name in ("SIGXCPU", "SIGXFSZ")
    },
    "SIGABRT": Sign(_O.FRAMEWORK, _S.NOT_SURE, "a library gave up, and no line says over what"),
    "SIGBUS": Sign(_O.HOST, _S.NOT_SURE, "memory was not there: a full /dev/shm, or bad memory"),
    "SIGSEGV": Sign(None, _S.NOT_SURE, "it reached for memory that it does not have"),
    **{
        name: Sign(None, _S.NOT_SURE, "it did what a process must not do")
        for name in ("SIGFPE", "SIGSYS", "SIGTRAP")
    },
    "SIGILL": Sign(_O.HOST, _S.NOT_SURE, "the processor does not know an instruction"),
    "rendezvous-lost": Sign(_O.HOST, _S.LIKELY, "the process where its ranks meet died"),
}
"""How a rank, or a start, ended: by its executor's word."""

_OF_WORDS = {
    "checkpoint-refused": _OF_KIND[Kind.CHECKPOINT_CORRUPT],
    "gpu-ecc": Sign(_O.GPU, _S.LIKELY, "CUDA tells of memory of the GPU that is bad"),
    "gpu-gone": Sign(_O.GPU, _S.NOT_SURE, "CUDA finds no GPU: none works, or it may see none"),
    "illegal-access": Sign(
        _O.USER, _S.LIKELY, "an illegal access: 41 of 62 that were looked into were the script's"
    ),
    "gpu-memory": Sign(_O.USER, _S.LIKELY, "it wants more memory of the GPU than there is"),
    "nccl-usage": Sign(
        _O.USER, _S.LIKELY, "NCCL was asked for what it does not do, as for two ranks on one GPU"
    ),
    "nccl-device": Sign(_O.GPU, _S.NOT_SURE, "CUDA failed in NCCL, which does not say over what"),
    "nccl-link": Sign(_O.NETWORK, _S.LIKELY, "NCCL tells of a link that fails"),
    "nccl-remote": Sign(_O.NETWORK, _S.LIKELY, "NCCL lost a peer that nobody saw die"),
    "nccl-watchdog": Sign(
        _O.FRAMEWORK, _S.NOT_SURE, "NCCL's watchdog tells who waited, not for whom"
    ),
    "nccl": Sign(_O.NETWORK, _S.NOT_SURE, "NCCL failed, and does not say over what"),
    "device": Sign(_O.GPU, _S.NOT_SURE, "CUDA failed, and does not say over what"),
    "shared-memory": Sign(_O.HOST, _S.LIKELY, "/dev/shm has no room"),
    "worker-killed": Sign(
        _O.HOST, _S.NOT_SURE, "a process of it was killed, as is done where memory is short"
    ),
    "no-space": _OF_KIND[Kind.DISK_FULL],
    "file-system": Sign(_O.STORAGE, _S.LIKELY, "a file system fails"),
    "hdfs": Sign(_O.STORAGE, _S.LIKELY, "HDFS fails"),
    "no-more": Sign(_O.HOST, _S.NOT_SURE, "the host has no more files or processes to give"),
    "open-files": Sign(_O.USER, _S.LIKELY, "it has as many files open as a process may"),
    "memory": Sign(_O.USER, _S.LIKELY, "it wants more memory than there is"),
    "import": Sign(_O.USER, _S.LIKELY, "what it imports is not there"),
    "not-a-number": Sign(
        None, _S.NOT_SURE, "a number that is none: of the data, the code or a processor"
    ),
    "service": Sign(_O.EXTERNAL, _S.LIKELY, "a service outside did not answer as it should"),
    "peer-closed": Sign(_O.NETWORK, _S.NOT_SURE, "who it was talking to went away"),
    "outside": Sign(_O.EXTERNAL, _S.NOT_SURE, "something outside the script failed"),
}
"""What the last words of a rank speak of: see `words_of_ends`."""

_OF_LINES = {
    "xid": Sign(_O.GPU, _S.NOT_SURE, "an XID"),
    "crash": Sign(None, _S.NOT_SURE, "a process crashed"),
}
"""What a line that a rank prints may speak of, and no last words do: `protocol.outputs`."""

_OF_FINDINGS = {
    "slow-more": Sign(_O.USER, _S.LIKELY, "it has more to do than its peers"),
    "slow-capped": Sign(_O.HOST, _S.LIKELY, "its share of processors is used up"),
    "slow-garbage": Sign(_O.USER, _S.LIKELY, "it collects garbage for longer than its peers"),
    "slow-hot": Sign(_O.GPU, _S.LIKELY, "a GPU of its node is slowed by heat"),
    "hang-skipped": Sign(_O.USER, _S.LIKELY, "it skipped a collective that its peers are in"),
}
"""What a detector saw more than its kind says."""

_OF_HYPOTHESES = {
    Hypothesis.BLIND: Sign(None, _S.NOT_SURE, "the driver may not see well"),
    Hypothesis.PAUSE: Sign(_O.USER, _S.NOT_SURE, "the script may only take its time"),
    Hypothesis.PASSING: NOTHING,
    Hypothesis.POINT: Sign(_O.STORAGE, _S.LIKELY, "ranks die of what they start from"),
    Hypothesis.LINK: Sign(_O.NETWORK, _S.LIKELY, "it comes where two nodes have to meet"),
    Hypothesis.NODE: Sign(_O.HOST, _S.LIKELY, "it comes on one node, more than by chance"),
    Hypothesis.VERSION: Sign(_O.USER, _S.LIKELY, "it comes with this version of the job"),
    Hypothesis.GROUP: NOTHING,
    Hypothesis.USER: Sign(_O.USER, _S.LIKELY, "it comes again at one place of the script"),
}
"""What was left open after all that came before."""

_SURE = {Weight.CONCLUSIVE: _S.SURE, Weight.SUSPECT: _S.LIKELY, Weight.RESTART: _S.LIKELY}
"""Of what the kernel says, or a device's driver; a report: not sure."""


def _of_driver(weight: Weight) -> Sign:
    return Sign(_O.GPU, _SURE.get(weight, _S.NOT_SURE), "the GPU's driver tells of a fault")


def _of_kernel(meaning: Meaning) -> Sign:
    sure = _SURE.get(meaning.weight, _S.NOT_SURE)
    return Sign(meaning.origin, sure, f"the kernel says: {meaning.text}")


def of_kind(kind: Kind) -> str:
    """Its name."""
    return str(kind)


def of_kernel(rule: str, xid: int | None) -> str:
    """The name of what the kernel says by one of its rules."""
    return f"xid-{xid}" if xid is not None else f"kernel-{rule}"


def of_line(words: str) -> str:
    """The name of a line that a rank printed, by the words in it: see `words_of_ends`."""
    return f"line-{words}"


def of_gpu(weight: Weight) -> str:
    """The name of what a GPU's driver says, by what may be done about that."""
    return f"gpu-{weight}"


def of_hypothesis(hypothesis: Hypothesis) -> str:
    """The name of what the recovery believed."""
    return f"held-{hypothesis}"


_OWN_KILL = {
    of_kernel(OOM_KILL_OWN, None): Sign(_O.USER, _S.LIKELY, "the kernel killed it for memory")
}


def merged(*tables: Mapping[str, Sign]) -> dict[str, Sign]:
    """One table of all. A name has one meaning."""
    names = [name for table in tables for name in table]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{', '.join(sorted(twice))}: two signs have one name.")
    return {name: sign for table in tables for name, sign in table.items()}


def _printed(sign: Sign) -> Sign:
    return Sign(sign.origin, _S.NOT_SURE, f"a rank printed so: {sign.why}")


SIGNS: dict[str, Sign] = merged(
    {of_kind(kind): _OF_KIND.get(kind, NOTHING) for kind in Kind},
    _OF_ENDS,
    _OF_WORDS,
    _OF_FINDINGS,
    {of_gpu(weight): _of_driver(weight) for weight in Weight},
    {of_hypothesis(each): sign for each, sign in _OF_HYPOTHESES.items()},
    {of_kernel("", xid): _of_kernel(Meaning(*known)) for xid, known in XIDS.items()},
    {of_kernel(rule, None): _of_kernel(known) for rule, (_, known) in RULES.items()},
    {of_kernel(rule, None): _of_kernel(known) for rule, known in FURTHER.items()} | _OWN_KILL,
    {of_line(name): _printed(sign) for name, sign in (_OF_WORDS | _OF_LINES).items()},
)
"""By name."""


# ---------------------------------------------------------------- what all of them say

MACHINES = frozenset({Origin.GPU, Origin.HOST, Origin.NETWORK})
"""What another node may be without."""
OURS = MACHINES | {Origin.STORAGE}
"""What the infrastructure pays for."""


class Verdict(NamedTuple):
    """`origin` may be a hint, where it is not sure; None: there is not even that."""

    origin: Origin | None
    sure: Sure
    why: str

    @property
    def blame(self) -> Blame:
        """A hint at the script is enough for that: it accuses no machine."""
        if self.origin is Origin.USER:
            return Blame.USER
        if self.origin is None or self.sure is Sure.NOT_SURE:
            return Blame.UNKNOWN
        return Blame.INFRASTRUCTURE if self.origin in OURS else Blame.UNKNOWN

    @property
    def outside_script(self) -> bool:
        """Whether it comes from a node, its way to others or a store, more likely than not."""
        return self.origin in OURS and self.sure is not Sure.NOT_SURE


def judge(names: Iterable[str], held: Hypothesis | None = None) -> Verdict:
    """Of all signs of a fault. `held`: what the recovery held to be behind it. Explicit evidence
    counts first, then what the recovery came to believe by all that came before, then what is
    likely by itself. Where two of one weight disagree nobody is named: it is not sure. A sign that
    is not known here, of another Holdfast, says nothing."""
    shown = [SIGNS[name] for name in dict.fromkeys(names) if name in SIGNS]
    believed = _believed(held, shown) if held is not None else []
    for sure, signs in ((Sure.SURE, shown), (Sure.LIKELY, believed), (Sure.LIKELY, shown)):
        if told := [each for each in signs if each.origin and each.sure is sure]:
            return _one_of(told, sure)
    hints = [each for each in (*shown, *believed) if each.origin]
    return _one_of(hints or shown or [NOTHING], Sure.NOT_SURE)


def _believed(held: Hypothesis, shown: list[Sign]) -> list[Sign]:
    """What the recovery held, and which signs say the same: their reasons tell more. That it comes
    again at one place of the script does not outweigh the words of a device: where both are likely
    both are told."""
    belief = SIGNS[of_hypothesis(held)]
    contrary = [each for each in shown if each.origin in OURS and each.sure is Sure.LIKELY]
    if belief.origin is Origin.USER and contrary:
        return [*contrary, belief]
    agree = (each for each in shown if (each.origin, each.sure) == (belief.origin, belief.sure))
    return [belief, *agree]


def _one_of(signs: list[Sign], sure: Sure) -> Verdict:
    """Of signs of one weight: what they agree on."""
    if len({each.origin for each in signs}) == 1:
        return Verdict(signs[-1].origin, sure, signs[-1].why)
    return Verdict(None, Sure.NOT_SURE, " or ".join(dict.fromkeys(each.why for each in signs)))
