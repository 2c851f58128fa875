"""What is known of one node: who is connected, when it was heard, what the cluster says. Pure.

Used by `Watch`, which is told of it. Times are the driver's.
"""

from collections.abc import Iterable
from typing import Unpack

import msgspec

from holdfast.driver.watch.model import NodeSeen, SeenChanges
from holdfast.protocol.messages import Heartbeat


def connected(seen: NodeSeen, process: str, now: float) -> NodeSeen:
    left = {name: at for name, at in seen.left_s.items() if name != process}
    why = {name: text for name, text in seen.why.items() if name != process}
    return changed(seen, left_s=left, connected_s={**seen.connected_s, process: now}, why=why)


def disconnected(seen: NodeSeen, process: str, now: float, why: str) -> NodeSeen:
    since = {name: at for name, at in seen.connected_s.items() if name != process}
    left, whys = {**seen.left_s, process: now}, {**seen.why, process: why}
    return changed(seen, connected_s=since, left_s=left, why=whys)


def heard(seen: NodeSeen, beat: Heartbeat, now: float) -> NodeSeen:
    return changed(
        seen,
        heard_s=now,
        probes=beat.probes,
        executor_alive=beat.executor_alive,
        unreadable=beat.unreadable,
    )


def unheard(seen: NodeSeen, now: float) -> NodeSeen:
    """Nobody listened until now: it has to be heard again before it can be silent."""
    connected_s = dict.fromkeys(seen.connected_s, now)
    left_s = dict.fromkeys(seen.left_s, now)
    return changed(seen, known_s=now, heard_s=None, connected_s=connected_s, left_s=left_s)


def most_have_reported(nodes: Iterable[NodeSeen]) -> bool:
    """Of those that the cluster does not say are gone."""
    known = [seen for seen in nodes if seen.present is not False]
    return 2 * sum(seen.heard_s is not None for seen in known) > len(known)


def changed(seen: NodeSeen, **changes: Unpack[SeenChanges]) -> NodeSeen:
    return msgspec.structs.replace(seen, **changes)
