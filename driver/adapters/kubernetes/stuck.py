"""Deleted pods that stay because their node, which is away, never confirms their end. Pure.

Used by `cluster`. Times are by our own clock from when we saw it: that of the API server, or ours
for people, may be stepped. The pod's process, if it still runs, is fenced by its epoch.
"""

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.driver.adapters.kubernetes import pods

Object = dict[str, Any]

STUCK_S = 5.0
"""Beyond its grace, until such a pod is removed without its node's consent."""


class Stuck:
    """Asked again and again; `is_there` says whether a node is."""

    def __init__(self, is_there: Callable[[str], bool]) -> None:
        self._is_there = is_there
        self._since_s: dict[str, float] = {}  # by UID

    def due(self, known: Iterable[Object], now_s: float) -> list[Object]:
        """Of all `known` pods those to be removed now; `now_s` is monotonic."""
        stuck = {
            pod["metadata"]["uid"]: pod
            for pod in known
            if pods.ending(pod) and not self._is_there(pods.node_of(pod))
        }
        self._since_s = {uid: self._since_s.get(uid, now_s) for uid in stuck}
        return [
            pod
            for uid, pod in stuck.items()
            if now_s - self._since_s[uid] > pods.grace_s(pod) + STUCK_S
        ]
