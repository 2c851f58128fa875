"""The number of a group of ranks: the same on all of them, and for whoever knows its members. Pure.

Ranks put it into their rings and spans (`telemetry`); `traces` finds by it which group it is.
"""

import hashlib
from collections.abc import Sequence
from struct import pack


def members_hash(members: Sequence[int], ordinal: int) -> int:
    """A number for a group of `members`, in order.

    `ordinal` tells groups of the same members apart; all ranks make groups in the same order.
    """
    data = pack(f"<{len(members) + 1}I", ordinal, *members)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
