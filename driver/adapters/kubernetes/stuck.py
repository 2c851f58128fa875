"""Pods that nobody ends: deleted ones whose node is away and never confirms it, and strays. Pure.

Used by `cluster`, which tells of them. Times are by our own clock from when we saw it: that of the
API server, or ours for people, may be stepped. Must not remove anything.
"""

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.driver.adapters.kubernetes import pods

Object = dict[str, Any]

STUCK_S = 5.0
"""Beyond its grace, if it is deleted, until such a pod is told of; after as long again it is told
of anew."""


class Stuck:
    """Asked again and again; `is_there` says whether a node is, `is_stray` of a pod that is to stay
    whether nobody wants it.
    """

    def __init__(self, is_there: Callable[[str], bool], is_stray: Callable[[Object], bool]) -> None:
        self._is_there = is_there
        self._is_stray = is_stray
        self._since_s: dict[str, float] = {}  # by UID
        self._told_s: dict[str, float] = {}  # by UID; before it is told, as `_since_s`

    def due(self, known: Iterable[Object], now_s: float) -> list[tuple[Object, float]]:
        """Of all `known` pods those to be told of now, and for how many seconds they are stuck;
        `now_s` is monotonic.
        """
        stuck = {pod["metadata"]["uid"]: pod for pod in known if self._stuck(pod)}
        self._since_s = {uid: self._since_s.get(uid, now_s) for uid in stuck}
        self._told_s = {uid: self._told_s.get(uid, now_s) for uid in stuck}
        due = [
            uid
            for uid, pod in stuck.items()
            if now_s - self._told_s[uid] > pods.grace_s(pod) + STUCK_S
        ]
        self._told_s |= dict.fromkeys(due, now_s)
        return [(stuck[uid], now_s - self._since_s[uid]) for uid in due]

    def _stuck(self, pod: Object) -> bool:
        """One that is still there without any grace has a finalizer, and its node has no say."""
        if not pods.ending(pod):
            return self._is_stray(pod)
        return pods.grace_s(pod) > 0 and not self._is_there(pods.node_of(pod))
