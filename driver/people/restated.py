"""What an entry says of its own event and no more: nothing that a reader has to be told. Pure.

Asked as an entry is made, for its mark, and by `story`, for those that have none.
"""

import re
from collections.abc import Mapping

from holdfast.driver.core import events as e

RESTATED: Mapping[type[e.Event], str] = {
    e.NodeAllocated: r"\S+ is allocated to \S+",
    e.NodeReleased: r"\S+ is given back",
    e.NodeDistrusted: r"the cluster keeps work off \S+",
    e.NodeTrusted: r"the cluster may use \S+ again",
    e.NodeAppeared: r"\S+ is there",
    e.NodeQuiet: r"no earlier rank is left on \S+|\S+ is quiet",
    e.CheckpointStored: r"(the checkpoint of )?step \d+ is in the store",
    e.RendezvousReady: r"the (rendezvous of attempt|store of epoch) \d+ listens on \S+",
    e.RanksRunning: r"the ranks on \S+ run",
    e.RanksExited: r"rank [\d, ]+ on \S+ ended",
    e.ExecutorConnected: r"(the|every) executor of \S+ is (new|connected)",
    e.DiagnosticEnded: r"\S+ ended its tests",
    e.FasterSeen: r"\S+ is faster than ever: .*",
}
"""What the core says of the event itself: it was neither decided nor is it news to a reader. With
the words of older drivers, whose journals are told alike."""

TOLD = (e.RanksExited, e.DiagnosticEnded)
"""Of these a story has what was seen as well."""


def restates(event: e.Event, why: str, incident: int | None) -> bool:
    """Whether an entry with these is no news to a reader, whatever other entries say. One of an
    incident may have opened it, and tells to which one ends of ranks belong."""
    kind = type(event)
    known = RESTATED.get(kind)
    if known is None or kind in TOLD or incident is not None:
        return False
    return all(re.fullmatch(known, part) for part in why.split("; ") if part)
