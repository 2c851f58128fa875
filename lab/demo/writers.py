"""Who wrote the status of pods, by the API server's audit log. Pure.

Used by `demo.kubernetes`. A pod's status is its node's to write. Parts of Kubernetes itself write
it too: when a node is silent, the node controller says of its pods that they are not ready.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.lab.demo.summary import Summary

NODE = "system:node:"
CONTROL_PLANE = ("system:serviceaccount:kube-system:", "system:kube-scheduler")
READS = ("get", "list", "watch")


class Writers(msgspec.Struct, frozen=True):
    """How often each identity wrote the status of a pod, and which had no business to."""

    counts: dict[str, int]
    strangers: list[str]
    """Neither nodes nor parts of Kubernetes, and nodes that wrote of another node's pod."""


class OnKubernetes(Summary, frozen=True, kw_only=True):
    """The last line of `holdfast demo --cluster kubernetes --json`."""

    pod_status_writers: dict[str, int] | None  # None: the cluster does not show who wrote


def writers_of(events: Iterable[Mapping[str, Any]]) -> Writers:
    """Of the events of an audit log, those that wrote the status of a pod and were let."""
    counts: Counter[str] = Counter()
    strangers: set[str] = set()
    for event in filter(_wrote_status, events):
        user = event["user"].get("username", "")
        counts[user] += 1
        if not _may(user, event["responseObject"].get("spec", {}).get("nodeName", "")):
            strangers.add(user)
    return Writers(dict(sorted(counts.items())), sorted(strangers))


def with_writers(summary: Summary, writers: Writers | None) -> OnKubernetes:
    """The summary, not passed where somebody wrote what is not theirs, or nobody at all.

    Without `writers`, for nobody shows them, it is as it was.
    """
    wrong = _wrong(writers) if writers and summary.verdict == "passed" else ""
    known = msgspec.structs.asdict(summary) | {"verdict": wrong or summary.verdict}
    return OnKubernetes(**known, pod_status_writers=writers.counts if writers else None)


def _wrong(writers: Writers) -> str:
    if writers.strangers:
        return f"the status of pods was written by {', '.join(writers.strangers)}"
    if not any(user.startswith(NODE) for user in writers.counts):
        return "no node wrote the status of a pod"
    return ""


def _wrote_status(event: Mapping[str, Any]) -> bool:
    about = event.get("objectRef", {})
    return (
        (about.get("resource"), about.get("subresource")) == ("pods", "status")
        and event["verb"] not in READS
        and event.get("responseStatus", {}).get("code", 0) in range(200, 300)
    )


def _may(user: str, node: str) -> bool:
    return (node != "" and user == f"{NODE}{node}") or user.startswith(CONTROL_PLANE)
