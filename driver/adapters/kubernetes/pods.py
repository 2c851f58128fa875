"""What can be read off a pod of a job, or of one that tests its node. Pure.

Used by `cluster`, `identity` and all that look at pods. How one is made is in `podspec`.
"""

from collections.abc import Mapping
from datetime import datetime
from math import inf
from signal import SIGKILL
from typing import Any

from holdfast.driver.adapters.kubernetes import names, podspec
from holdfast.protocol.exitcodes import of_signal

Json = Mapping[str, Any]

OUT_OF_MEMORY = "OOMKilled"
"""The reason that container runtimes give where the kernel killed for memory in the cgroup."""


def owner_uid(pod: Json) -> str:
    """UID of the TrainingJob that controls the pod, or of the Node that it tests; "" where neither
    does.
    """
    for owner in pod["metadata"].get("ownerReferences", ()):
        tests = of_exam(pod) and owner["kind"] == "Node"
        if owner.get("controller") and (tests or owner["apiVersion"].startswith(f"{names.GROUP}/")):
            return str(owner["uid"])
    return ""


def works_for(pod: Json, owner: Json) -> bool:
    """Whether this TrainingJob controls the pod. One of another namespace may only say so."""
    same = pod["metadata"]["namespace"] == owner["metadata"]["namespace"]
    return bool(same and owner_uid(pod) == owner["metadata"]["uid"])


def of_exam(pod: Json) -> bool:
    """Whether it tests its node, and is no job's."""
    return names.TRIAL in pod["metadata"].get("labels", {})


def node_of(pod: Json) -> str:
    """The node that a pod of ours is for; "" for a pod that is none of ours."""
    return str(pod["metadata"].get("annotations", {}).get(names.NODE, ""))


def number(pod: Json, label: str) -> int:
    """Slot or incarnation of a pod of ours; 0 where somebody wrote over it what is no number."""
    said = str(pod["metadata"].get("labels", {}).get(label, ""))
    return int(said) if said.isdecimal() else 0


def bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def gated(pod: Json) -> bool:
    """Whether it has our gate, which waits for the others of its job's start."""
    gates = pod.get("spec", {}).get("schedulingGates", ())
    return any(gate["name"] == names.GATE for gate in gates)


def group_of(pod: Json) -> str:
    """Name of the PodGroup that it is in, "" where it is in none."""
    return str(pod["spec"].get(podspec.GROUP, {}).get("podGroupName", ""))


def held(pod: Json) -> bool:
    """Whether no scheduler places it before the others of its job's start are there."""
    return gated(pod) or (bool(group_of(pod)) and not bound(pod))


def ending(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def grace_s(pod: Json) -> float:
    """From its deletion until its node kills what is left of it, in seconds."""
    return float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)


def works_for_s(pod: Json, now: datetime) -> float:
    """How long its processes may still work, in seconds: for ever, until it is being deleted."""
    if pod.get("status", {}).get("phase") != "Running":
        return 0.0
    if not ending(pod):
        return inf
    due = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
    return max(0.0, (due - now).total_seconds())


def disruption(pod: Json) -> str:
    """Why the cluster evicts the pod, in its own words; "" where it does not."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return str(condition.get("message") or condition.get("reason", "no reason given"))
    return ""


def end(pod: Json) -> str:
    """Why the pod ends, or is over, in a sentence; "" while it is to stay. It restarts Always."""
    status = pod.get("status", {})
    if said := disruption(pod):
        return f"pod {pod['metadata']['name']} is evicted: {said}"
    if ending(pod):
        return f"pod {pod['metadata']['name']} is deleted"
    if status.get("phase") not in ("Failed", "Succeeded"):
        return ""
    said = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
    return f"pod {pod['metadata']['name']} is {status['phase']}{f' ({said})' if said else ''}"


def starved(pod: Json) -> str:
    """ID of the last container of the executor that ended, where that was killed for memory; "" of
    any other end. It is said for good, of the newest alone.

    Where the kernel had killed but a rank for memory, what its container ends of later has the same
    reason: it did not die of that unless by SIGKILL.
    """
    for container in pod.get("status", {}).get("containerStatuses", ()):
        if container["name"] == podspec.EXECUTOR:
            ended = container.get("state", {}).get("terminated")
            ended = ended or container.get("lastState", {}).get("terminated") or {}
            killed = ended.get("exitCode") == of_signal(SIGKILL)
            if killed and ended.get("reason") == OUT_OF_MEMORY:
                return str(ended.get("containerID") or ended.get("finishedAt", ""))
    return ""


def hindrance(pod: Json) -> str:
    """What keeps the pod from running, as its scheduler or its kubelet says it; "" if nothing.

    Our own gate is none: what it waits for is said of the job.
    """
    status = pod.get("status", {})
    for condition in () if gated(pod) else status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason", ""))
    for container in status.get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason", "ContainerCreating") != "ContainerCreating":
            return ": ".join(filter(None, (waiting["reason"], waiting.get("message"))))
    return ""


def ready(pod: Json) -> bool:
    """Whether its kubelet says that it runs."""
    conditions = pod.get("status", {}).get("conditions", ())
    said = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return said and not ending(pod)
