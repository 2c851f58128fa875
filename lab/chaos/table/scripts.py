"""Faults 5, 6, 9 to 13, 28, 30, 32 and 45: what users' scripts do, beside those of `ranks`."""

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import together, user_bug
from holdfast.lab.chaos.scenario import Expected, Scenario
from holdfast.lab.chaos.scripts import BUGGY
from holdfast.lab.chaos.table.expected import HANG, IN_PLACE, TOLD, UNSEEN, USER

_armed, _on_all = user_bug.armed, user_bug.armed_on_all
_SKIPPED = Expected(names_rank=True, blame=("user",))

_KNOWN_STEPS = 40
"""Twice as many losses as a rank has to have told before one that is no number counts."""
_KEEPS = {"checkpoint": {"memoryIntervalSteps": 1, "storeIntervalSteps": 10, "retention": 20}}
"""What was saved before is still there when it is found."""
_LOSS = Expected(
    kind="loss",
    names_node=False,
    blame=("unknown",),
    most_steps_lost=150,  # until it is found, and what was saved every ten steps; twice
    told_within_steps=15,
    incidents=2,
)
_USUAL_STEPS = 250
"""Until it is known what is usual of a rank: 32 heartbeats, or 16 s."""

_CRASHES_EVERY = 7
"""Steps, a few more than are saved at once."""

ROWS: tuple[Scenario, ...] = (
    Scenario(
        5,
        "loader-stopped",
        "the child process that loads a rank's data is stopped (SIGSTOP), and nothing else",
        user_bug.loader_stopped,
        HANG,
        script=BUGGY,
        longer=2,
    ),
    Scenario(
        45,
        "bad-version",
        "the job gets a new version, in which the user's script raises again and again",
        user_bug.updated("raise", every=_CRASHES_EVERY),
        replace(USER, names_node=False, incidents=6, most_steps_lost=6),  # by then it is left
        script=BUGGY,
        longer=3,
    ),
    Scenario(
        6,
        "collective-other",
        "a rank calls barrier where its peers call all_reduce, once",
        _armed("other"),
        USER,
        script=BUGGY,
    ),
    Scenario(
        6,
        "collective-of-other-size",
        "a rank reduces more numbers than its peers, once",
        _armed("sizes"),
        replace(USER, may_evict=False),
        script=BUGGY,
    ),
    Scenario(
        6,
        "collective-skipped",
        "a rank skips a collective, and is one ahead of its peers from then on",
        _armed("skip"),
        _SKIPPED,
        script=BUGGY,
    ),
    Scenario(
        9,
        "loss-nan",
        "a parameter is no number any more, in each start anew, and the loss is none",
        together.after(_KNOWN_STEPS, user_bug.armed_on_first("nan", every=1)),
        replace(_LOSS, compares_losses=False, told_within_steps=50),  # counts a step once
        script=BUGGY,
        longer=4,
        spec=_KEEPS,
    ),
    Scenario(
        9,
        "nan-once",
        "bits of a gradient of one rank are others, once, and the loss is no number from then on",
        together.after(_KNOWN_STEPS, _armed("overflow")),
        replace(_LOSS, names_node=True, names_rank=True),
        script=BUGGY,
        longer=4,
        spec=_KEEPS,
    ),
    Scenario(
        9,
        "nan-data",
        "at one step the gradients are infinite, whenever the job comes to it",
        together.after(_KNOWN_STEPS, _on_all("overflow")),
        replace(_LOSS, compares_losses=False),
        script=BUGGY,
        longer=4,
        spec=_KEEPS,
    ),
    Scenario(
        9,
        "nan-data-fails",
        "the same, of a job that is to end where the loss is no number again",
        together.after(_KNOWN_STEPS, _on_all("overflow")),
        replace(_LOSS, phase="Failed", blame=("user",), compares_losses=False),
        script=BUGGY,
        longer=4,
        spec=_KEEPS | {"recovery": {"onBadLoss": "fail"}},
    ),
    Scenario(
        9,
        "loss-spikes",
        "the loss that is told is no number for 16 steps and high for 16, and is well again",
        together.after(_KNOWN_STEPS, _on_all("spike")),
        replace(UNSEEN, untold=("loss",)),
        script=BUGGY,
        longer=4,
    ),
    Scenario(
        10,
        "bits-flip",
        "a rank of four replicas has one wrong bit in a parameter after each step",
        together.stored(_armed("flip", again="always")),
        replace(TOLD, names_rank=True, reports="silent-corruption", compares_losses=False),
        script=BUGGY,
        spec={"topology": {"dp": 4}},
        longer=2,
    ),
    Scenario(
        10,
        "bits-flip-of-two",
        "a rank of two replicas has one wrong bit in a parameter after each step",
        together.stored(user_bug.without_victim("flip", again="always")),
        replace(TOLD, reports="silent-corruption", compares_losses=False),
        script=BUGGY,
        longer=2,
    ),
    Scenario(
        11,
        "rank-slow",
        "a rank computes half as much again in each step",
        together.after(_USUAL_STEPS, _armed("slow", again="always")),
        replace(TOLD, reports="slow", compares_losses=False),  # its reference takes as long
        script=BUGGY,
        longer=10,
    ),
    Scenario(
        32,
        "zombies-left",
        "a rank leaves children that nobody reaps, and is killed",
        user_bug.zombies_left,
        IN_PLACE,
        script=BUGGY,
    ),
    Scenario(
        12,
        "steps-jitter",
        "each rank has a long step now and then, at random",
        _on_all("jitter", every=1),
        replace(UNSEEN, untold=("slow",)),
        script=BUGGY,
        longer=8,
    ),
    Scenario(
        13,
        "last-stage-slow",
        "the last stage of a pipeline, as the job declares it, computes half as much again",
        _on_all("slow", every=1, but=(0, 1)),
        replace(UNSEEN, untold=("slow",), compares_losses=False),  # of another layout
        script=BUGGY,
        longer=8,
        spec={"topology": {"tp": 2, "pp": 2}},
    ),
    Scenario(
        28,
        "descriptors-used-up",
        "a rank opens files until it may not any more, once",
        _armed("open"),
        replace(USER, kind="user-exception"),
        script=BUGGY,
    ),
    Scenario(
        30,
        "keyword-printed",
        "a rank prints words of an XID and of CUDA, and nothing is wrong",
        _armed("complain"),
        replace(TOLD, reports="log-keyword"),
        script=BUGGY,
    ),
)
