"""Where each number stands in a ring file: the layout, its version, and nothing else.

Shared by the writer (in the rank) and the reader (in the daemon). All values are little-endian and
aligned to eight bytes. A *word* is one aligned unsigned 64-bit number with one writer: it is never
seen half written. A *record* is longer and carries a sequence lock in its first word: odd while it
is being written. Pure.
"""

import struct
from typing import Final

MAGIC: Final = b"HFRING\r\n"
VERSION: Final = 7

HEADER: Final = struct.Struct("<8sIIqqq4I")
"""magic, version, size of the file in bytes, rank, epoch, pid, and slots for groups, peers, phases
and member ranks."""

GROUP_SLOTS: Final = 64
PEER_SLOTS: Final = 64
PHASE_SLOTS: Final = 32
MEMBER_SLOTS: Final = 16_384
"""Members of all groups together: the world of the largest published job and its small groups."""

WORDS_AT: Final = 128
PULSE, PARTIAL, GROUPS, PEERS, PHASES, WAITING, PAUSE, SAVED_AT = range(8)
CALL, SLEEP_MS, SLEEP_LEFT_MS = range(8, 11)
STARTED_AT: Final = 11
LOSS_GOODS, LOSS_GOOD, LOSS_BADS, LOSS_SINCE = range(14, 18)
GRAD_NORM, LOSS_LAST = range(18, 20)
GARBAGE: Final = 20
WORDS: Final = 24
"""Words for the whole rank: pulse, bits of PARTS missing, slots used, whether it waits, in which of
PAUSES it is, and the step at which it last saved; while its main thread stands at one line: in
which of CALLS, how long the one sleep that it is in takes at most, and for how long it still lasts
(both 0: it is in none whose end is known). From STARTED_AT on, for each of STARTS, when that was
over, on the monotonic clock of its machine in nanoseconds (0: it is not). Of losses that the script
tells: how many were numbers, the step of the last that was, how many since then were none, and the
steps of the first and of the last of these. The norm of the last step's gradients, as the bits of a
double (0: not known). For how long Python's garbage collector went through all objects, in
nanoseconds (0 as well of a writer that does not count it)."""

STARTS: Final = ("group", "restore", "step")
"""What a rank does from its fork to the end of its first step: it meets the others, loads its
state, and trains."""

PARTS: Final = (
    "collectives",
    "done",
    "step",
    "groups full",
    "peers full",
    "phases full",
    "members full",
    "step numbers",
    "waits",
    "stack",
    "GPU",
)
"""What may be missing from a ring, by bit of the word PARTIAL."""

STATE_AT: Final = WORDS_AT + 8 * WORDS
STATE: Final = struct.Struct("<QqqdQ5Q")
"""sequence, step, tokens, loss (NaN: none), phase (slot + 1, 0: none), and in nanoseconds: when the
last step ended, CPU time of the thread that trains until then, its waits for peers, its pauses; and
the step of which these times are, where they are the GPU's (0: they are the thread's)."""

MARK_STRIDES: Final = (1, 8, 64, 512)
"""Steps whose collective counts are kept, the last multiple of each: two ranks sampled at different
moments still have a step in common."""

GROUPS_AT: Final = STATE_AT + STATE.size
GROUP: Final = struct.Struct("<QQIIQqII8Q")
"""sequence, hash of members, kind, fingerprint, enqueued, step, first member slot, members, and
(step, enqueued) for each of MARK_STRIDES."""

DONE_AT: Final = GROUPS_AT + GROUP.size * GROUP_SLOTS
PEERS_AT: Final = DONE_AT + 8 * GROUP_SLOTS
PEER_WORDS: Final = 5
"""peer, sends, sends done, receives, receives done."""

PHASES_AT: Final = PEERS_AT + 8 * PEER_WORDS * PEER_SLOTS
PHASE_NAME_BYTES: Final = 32
PHASE_BYTES: Final = PHASE_NAME_BYTES + 16
"""name, then two words: wall and thread CPU time so far in nanoseconds."""

FRAME_AT: Final = PHASES_AT + PHASE_BYTES * PHASE_SLOTS
FRAME_TEXT_BYTES: Final = 112
FRAME: Final = struct.Struct(f"<QQ{FRAME_TEXT_BYTES}s")
"""sequence, hash of the main thread's whole stack (function and instruction of each frame), and
where in the user's code that stands."""

RECENT: Final = 16
RECENT_AT: Final = FRAME_AT + FRAME.size
RECENT_WORDS: Final = 2
KIND_BITS: Final = 8
"""The last RECENT collectives of each group, number n at place n % RECENT: a word of the number
and, in the KIND_BITS below it, its kind; then its fingerprint. Both words 0: none yet."""

LOOKS_AT: Final = RECENT_AT + 8 * RECENT_WORDS * RECENT * GROUP_SLOTS
LOOK_WORDS: Final = 3
"""Of what the rank itself brought into a group's reductions (`looks`): the number of the last one
where that was numbers; of the first since then where it was none (0: it was none since), and the
step that this was in."""

MEMBERS_AT: Final = LOOKS_AT + 8 * LOOK_WORDS * GROUP_SLOTS
SIZE: Final = MEMBERS_AT + 4 * MEMBER_SLOTS

KINDS: Final = tuple(
    "collective all_reduce broadcast reduce all_gather reduce_scatter all_to_all barrier scatter "
    "gather all_reduce_coalesced all_gather_base all_gather_coalesced "
    "all_gather_into_tensor_coalesced reduce_scatter_base reduce_scatter_tensor_coalesced "
    "all_to_all_base".split()
)
"""Names of collectives by the number that a GROUP record holds; 0: it is not known which, as of
what DDP reduces with torch 2.13 and older."""

SAVING: Final = "saves"
LOADING: Final = "loads"
PAUSES: Final = (
    "",
    SAVING,
    "saves its state",
    LOADING,
    "compiles",
    "starts a data loader",
    "evaluates",
    "pauses",
)
"""What a rank says it does while it does no step, by the number in the word PAUSE: after "it"."""

CALLS: Final = (
    "",
    "waits for a child process",
    "waits for bytes",
    "waits for another thread or a lock",
    "sleeps",
)
"""What a main thread does that stands in a system call, by the number in the word CALL."""
