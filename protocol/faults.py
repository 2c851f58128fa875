"""The words for what goes wrong: kinds of findings, who is to blame, how sure we are.

Numbers in comments are those of the fault list (docs/faults.md).
"""

from enum import IntEnum, StrEnum

import msgspec


class Kind(StrEnum):
    """What was found. One word for one thing, in the journal, the metrics and on the pages."""

    RANK_CRASHED = "rank-crashed"  # 1: a rank died of a signal or an exit code without a traceback
    ENDED_EARLY = "ended-early"  # 6: a rank ended with exit code 0, and its peers still needed it
    USER_EXCEPTION = "user-exception"  # 7, 8: a Python exception of the user's code
    OUT_OF_MEMORY = "out-of-memory"  # 26
    EXECUTOR_LOST = "executor-lost"  # 2: the executor is gone, its node is not
    DAEMON_LOST = "daemon-lost"  # 2: the daemon is gone, its node is not
    NODE_LOST = "node-lost"  # 3: two sources agree that the node is gone
    HANG = "hang"  # 4, 5: progress stands still, the culprit is named
    NO_PROGRESS = "no-progress"  # progress stands still, nobody can be named
    STANDSTILL = "standstill"  # either of the two, before anything is done about it; report only
    GOES_ON = "goes-on"  # and that is over, by itself
    LEFT_BEHIND = "left-behind"  # a rank stands while its peers go on; report only
    MOVES_AGAIN = "moves-again"  # and no rank does any more
    UNSEEN = "unseen"  # ranks tell nothing: nobody sees whether it stands still; report only
    SEEN_AGAIN = "seen-again"  # and now they do again
    COLLECTIVE_MISMATCH = "collective-mismatch"  # 6
    LINK_DOWN = "link-down"  # 17
    UNREACHABLE = "unreachable"  # 19: two nodes cannot reach each other, and the driver hears both
    COUNTERS = "counters"  # 18: alert only
    BUS_NARROW = "bus-narrow"  # 20: a device has fewer lanes of PCIe than it should; report only
    KERNEL_FAULT = "kernel-fault"  # 29, 31: of hardware, in the kernel log or by its driver's word
    LOG_KEYWORD = "log-keyword"  # 30: report only
    DISK_FULL = "disk-full"  # 21
    CHECKPOINT_CORRUPT = "checkpoint-corrupt"  # 24, 25
    STORE_FAILED = "store-failed"  # 21, 22: checkpoints do not reach their store; report only
    STORE_BACK = "store-back"  # and now they do again
    STORE_FILLS = "store-fills"  # it does not let go of old checkpoints; report only
    STORE_SWEPT = "store-swept"  # and now it does again
    AGENT_SILENT = "agent-silent"  # a node's checkpoint agent does not answer; report only
    STORE_NOT_SHARED = "store-not-shared"  # nodes have different folders at one path; report only
    STORE_SHARED = "store-shared"  # and now they see the same
    SNAPSHOTS_STOPPED = "snapshots-stopped"  # 22: none is made any more; report only
    SNAPSHOTS_BACK = "snapshots-back"  # and now they are again
    RENDEZVOUS_AWAY = "rendezvous-away"  # 39: the Redis where ranks meet; report only
    RENDEZVOUS_BACK = "rendezvous-back"  # and now it answers again
    SAVE_SKIPPED = "save-skipped"  # 22: a snapshot or a checkpoint was left out; report only
    DIAGNOSTIC_FAILED = "diagnostic-failed"  # a diagnosis named this node
    START_FAILED = "start-failed"  # a store or ranks did not come up in time, or cannot at all
    NOT_QUIET = "not-quiet"  # 33: ranks that SIGKILL did not end
    REQUESTED = "requested"  # a person asked for the node to be evicted
    NODE_PROBLEM = "node-problem"  # what a problem detector of the cluster says of a node
    MAINTENANCE = "maintenance"  # 50: a node is to be free, nothing is wrong with it
    JOURNAL_PUT_BACK = "journal-put-back"  # executors know epochs that it does not
    DEFECT = "defect"  # of ours, met beside the core in one job's affairs; report only
    PRESSURE = "pressure"  # 27, 28: the host is short of something
    SLOW = "slow"  # 11 to 13: a rank, or a node's, hold their peers up; report only
    SILENT_CORRUPTION = "silent-corruption"  # 10: replicas differ that were equal; report only
    LOSS = "loss"  # 9: it is no number, or jumps
    TRAFFIC = "traffic"  # 14, 17: a node's changes its shape while steps go on; report only
    KEEPS_PACE = "keeps-pace"  # and nobody does any more
    DECLINE = "decline"  # a job is slower than at its own best, for half a day; report only
    AT_SPEED = "at-speed"  # and it no longer is
    LINK_SLOW = "link-slow"  # 14 to 16: it holds a job up, or loses packets; report only
    LINK_WELL = "link-well"  # and none does any more


ALL_CLEAR = {
    Kind.STORE_BACK: Kind.STORE_FAILED,
    Kind.STORE_SHARED: Kind.STORE_NOT_SHARED,
    Kind.RENDEZVOUS_BACK: Kind.RENDEZVOUS_AWAY,
    Kind.STORE_SWEPT: Kind.STORE_FILLS,
    Kind.SNAPSHOTS_BACK: Kind.SNAPSHOTS_STOPPED,
    Kind.KEEPS_PACE: Kind.SLOW,
    Kind.LINK_WELL: Kind.LINK_SLOW,
    Kind.SEEN_AGAIN: Kind.UNSEEN,
    Kind.MOVES_AGAIN: Kind.LEFT_BEHIND,
    Kind.AT_SPEED: Kind.DECLINE,
}
"""Reports that take another one back, for its job."""


CHECKPOINT_REFUSED = "CheckpointRefused"
"""The exception with which a rank refuses a checkpoint of ours: no mistake of the user's."""
CHECKPOINT_MISFIT = "CheckpointMisfit"
"""That with which it tells that the script's state has other names or shapes: a mistake of the
user's, which no restart mends."""


class Blame(StrEnum):
    """Whose fault a finding is, as far as is known. Decides which budget a recovery uses."""

    INFRASTRUCTURE = "infrastructure"
    USER = "user"
    UNKNOWN = "unknown"


class Origin(StrEnum):
    """Where a fault comes from."""

    USER = "user"  # the script: its code, its data, what it asks for
    FRAMEWORK = "framework"  # what runs it: torch, NCCL, Holdfast itself
    HOST = "host"  # a machine but for its accelerators and links
    GPU = "gpu"
    NETWORK = "network"
    STORAGE = "storage"  # disks, file systems, stores
    EXTERNAL = "external"  # a person, or a service that is none of the cluster's


class Sure(StrEnum):
    """How sure that is."""

    SURE = "sure"  # explicit evidence, by who can know
    LIKELY = "likely"  # most faults that show this come from there
    NOT_SURE = "not sure"  # a hint


class Weight(StrEnum):
    """What may be done about a finding."""

    REPORT = "report"  # say it, do nothing
    RESTART = "restart"  # the software is at fault, or nobody knows yet: rung 1 cures it
    SUSPECT = "suspect"  # the node has to pass its tests before it is used again
    CONCLUSIVE = "conclusive"  # the node is gone or has explicit hardware evidence: replace it


class Rung(IntEnum):
    """What is done about a fault, in order of cost. (5 is for going on with a replica fewer.)"""

    NONE = 0
    IN_PLACE = 1  # restart the ranks on the same nodes
    REPLACE = 2  # a node that is plainly bad, or try its place on another first
    DIAGNOSE = 3  # test the suspects and their neighbours
    DIAGNOSE_ALL = 4
    GIVE_UP = 6  # with the evidence


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One observation behind a finding, in a sentence, with who saw it."""

    source: str  # e.g. "daemon of node-1", "keeper", "executor of node-2"
    text: str
    data: dict[str, str | int | float | bool | None] = {}


class Pause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The longest standstills that ended by themselves at one line of a script, in seconds."""

    lasted_s: float = 0.0  # without a step
    idle_s: float = 0.0  # in which nothing of the rank moved
    dead_s: float = 0.0  # in which it did not run


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a detector concluded. `node` and `rank` are the culprit's, never a complainer's."""

    kind: Kind
    weight: Weight
    sign: str = ""  # what it shows more than its kind: a name of the driver's table of signs
    job: str | None = None
    epoch: int | None = None
    node: str | None = None
    rank: int | None = None
    step: int | None = None  # highest step that all ranks had completed
    stalled_s: float = 0.0  # how long it had lasted before it could be concluded, in seconds
    summary: str = ""
    evidence: tuple[Evidence, ...] = ()
    apart: tuple[str, ...] = ()  # two nodes that cannot reach each other, where neither is named
    one_way: bool = False  # of these: only the first told that it cannot reach the other
    spot: str = ""  # of a standstill: where in the script, "" where a restart leads elsewhere
    fix: str = ""  # which option would have let it go on
    sound: int | None = None  # of a bad loss: the last step whose state is surely not of it
    stuck: bool = False  # of a standstill: nobody works on anything, all wait
    doubt: str = ""  # why it may be no fault, and will be over by itself
    pauses: dict[str, Pause] = {}  # of one that ended by itself: what is known since, by line
