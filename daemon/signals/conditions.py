"""Which conditions a Node is to get, from what was found and what it has already. Pure.

Called by the loop of signals. Each message ends with the boot that it was said in, so that a fault
outlives a restart of the process, which knows nothing any more, and not one of its node.
"""

import re
from collections.abc import Mapping
from datetime import datetime

import msgspec

from holdfast.daemon.signals.findings import Found
from holdfast.protocol.xids import CONDITIONS

Condition = dict[str, str]
"""As it is written."""

BOOT = re.compile(r" \[boot (?P<boot>[^\]]*)\]$")
LONGEST = 400
"""Characters of a message, but for the boot."""
NOTHING = "nothing found in the kernel log and by DCGM since the node started"


class Seen(msgspec.Struct, frozen=True, rename="camel"):
    """A condition that the Node has."""

    type: str
    status: str
    message: str = ""
    last_transition_time: str | None = None


def due(
    seen: Mapping[str, Seen], found: Mapping[str, Found], *, boot: str, now: datetime
) -> list[Condition]:
    """What is to be written; nothing where the Node says it all already. By type, both of them."""
    made = (_due(each, seen.get(each), found.get(each), boot) for each in CONDITIONS.values())
    return [_timed(each, seen.get(each["type"]), now) for each in made if each is not None]


def _due(kind: str, seen: Seen | None, found: Found | None, boot: str) -> Condition | None:
    if seen is not None and seen.status == "True" and _boot_of(seen) in (boot, None):
        return None  # said in this boot; or by another detector, which takes it back itself
    if found is not None:
        return _condition(kind, "True", found.reason, found.message, boot)
    if seen is not None and seen.status == "False" and _boot_of(seen) == boot:
        return None
    return _condition(kind, "False", "NoXid", NOTHING, boot)


def _boot_of(seen: Seen) -> str | None:
    """None where it is not ours."""
    match = BOOT.search(seen.message)
    return match["boot"] if match is not None else None


def _condition(kind: str, status: str, reason: str, message: str, boot: str) -> Condition:
    short = " ".join(message.split())[:LONGEST]
    said = {"type": kind, "status": status, "reason": reason}
    return {**said, "message": f"{short} [boot {boot}]"}


def _timed(condition: Condition, seen: Seen | None, now: datetime) -> Condition:
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    same = seen is not None and seen.status == condition["status"]
    since = (seen.last_transition_time if seen is not None and same else None) or at
    return {**condition, "lastHeartbeatTime": at, "lastTransitionTime": since}
