"""Faults 1, 2, 4 and 6 to 8: a process dies, a rank hangs, the user's script has a bug."""

import signal

from holdfast.lab.chaos.injectors import process, rank, user_bug
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.scripts import BUGGY
from holdfast.lab.chaos.table.expected import CRASHES, FAILED, HANG, IDLE, IN_PLACE, UNSEEN, USER

_kill = rank.signalled(signal.SIGKILL)
_segfault = rank.signalled(signal.SIGSEGV)
_stop = rank.signalled(signal.SIGSTOP)
_killed = process.killed

ROWS: tuple[Scenario, ...] = (
    Scenario(1, "rank-killed", "a rank dies of SIGKILL", _kill, IN_PLACE),
    Scenario(1, "rank-segfault", "a rank dies of SIGSEGV", _segfault, IN_PLACE),
    Scenario(
        2,
        "executor-killed",
        "the executor of a node is killed, its ranks with it",
        _killed("executor"),
    ),
    Scenario(2, "daemon-killed", "the daemon of a node is killed", _killed("daemon"), UNSEEN),
    Scenario(
        2, "launcher-killed", "the warm launcher of a node is killed", _killed("launcher"), UNSEEN
    ),
    Scenario(2, "keeper-killed", "the keeper is killed", process.keeper_killed, UNSEEN),
    Scenario(
        2, "agent-killed", "the checkpoint agent of a node is killed", _killed("agent"), UNSEEN
    ),
    Scenario(
        2,
        "store-killed",
        "a rank is killed, then the process that serves the next attempt's rendezvous",
        process.store_killed,
        IN_PLACE,
        longer=10,
    ),
    Scenario(
        2,
        "gateway-killed",
        "the relay through which all nodes reach the driver is killed",
        process.gateway_killed,
        UNSEEN,
        needs_links=True,
    ),
    Scenario(4, "rank-stopped", "a rank is stopped (SIGSTOP)", _stop, HANG),
    Scenario(
        4,
        "rank-spins",
        "a rank spins in Python for ever",
        user_bug.armed("spin"),
        HANG,
        script=BUGGY,
    ),
    Scenario(
        4,
        "rank-on-pipe",
        "a rank waits on a pipe that nobody writes to",
        user_bug.armed("pipe"),
        HANG,
        script=BUGGY,
    ),
    Scenario(
        4,
        "evaluation-works",
        "a rank evaluates for 30 s, its peers wait for it",
        user_bug.armed("evaluate-30"),
        UNSEEN,
        script=BUGGY,
    ),
    Scenario(
        4,
        "evaluation-idles",
        "a rank is idle for 30 s whenever it comes to one step",
        user_bug.armed("idle-30", again="here"),
        IDLE,
        script=BUGGY,
    ),
    Scenario(
        6,
        "exit-0",
        "a rank ends with exit code 0 before its peers whenever it comes to one step",
        user_bug.armed("leave", again="here"),
        FAILED,
        script=BUGGY,
    ),
    Scenario(
        7,
        "exception-always",
        "the user's script raises at each attempt",
        user_bug.armed("raise", again="always"),
        FAILED,
        script=BUGGY,
    ),
    Scenario(
        7,
        "exception-at-step",
        "the user's script raises whenever it comes to one step",
        user_bug.armed("raise", again="here"),
        FAILED,
        script=BUGGY,
    ),
    Scenario(
        7,
        "crash-at-step",
        "a rank dies of SIGSEGV, by the user's script, whenever it comes to one step",
        user_bug.armed("crash", again="here"),
        CRASHES,
        script=BUGGY,
    ),
    Scenario(
        8,
        "exception-once",
        "the user's script raises once",
        user_bug.armed("raise"),
        USER,
        script=BUGGY,
    ),
)
