"""The datagrams by which a node's host renews its lease with the keeper. Pure.

Used by the host and the keeper. JSON of the standard library, for the host must start at once and
imports as little as it can. What is not ours is `None`: a datagram needs no answer.
"""

import json
from typing import NamedTuple

RENEW_EVERY_S = 0.2
"""Pause between two renewals: many may be lost before a node counts as absent."""

ABSENT_AFTER_S = 1.5
"""A node whose lease was not renewed for this long is absent, where its host has ended."""

CUT_OFF_AFTER_S = 5.0
"""The same where its host lives: a link that flaps is down for three seconds, and then is back."""

HOST_OUTLIVES_KEEPER_S = 30.0
"""A host that had no keeper for this long ends its node; one whose link is cut still has one."""

MAX_DATAGRAM_BYTES = 1_024


class Renewal(NamedTuple):
    """One datagram. An answer repeats what it answers."""

    node: str
    incarnation: str  # new for each start of the host
    token: str  # shared by keeper and hosts, so that no other process keeps a node alive


def pack(renewal: Renewal) -> bytes:
    return json.dumps(renewal._asdict()).encode()


def unpack(datagram: bytes) -> Renewal | None:
    """The renewal in `datagram`, or None where it is not one."""
    try:
        fields = json.loads(datagram)
        renewal = Renewal(**fields)
    except (ValueError, TypeError):
        return None
    return renewal if all(isinstance(part, str) for part in renewal) else None
