"""The status of a pod, from the lives of its containers and what it said before. Pure.

Used by `pod`. A terminal phase never goes back; a time of change stays until there is a change.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.lab.emulator.kubelet.orders import Life, Phase
from holdfast.lab.emulator.kubelet.times import stamp

Object = dict[str, Any]
TERMINAL = ("Succeeded", "Failed")


class Waiting(NamedTuple):
    """Why a container does not run and has not ended for good."""

    reason: str = "ContainerCreating"
    message: str = ""


class Seen(NamedTuple):
    """One container now. `waiting` is None where it runs, or has ended for good."""

    life: Life | None
    waiting: Waiting | None
    previous: Life | None = None
    """The life before that one, where this kubelet saw it end."""
    ready: bool = False
    started: bool = False


def status(
    pod: Object,
    seen: Mapping[str, Seen],
    *,
    address: str,
    now_s: float,
    started_at: str,
    failure: tuple[str, str] | None = None,
) -> Object:
    """What to tell. `started_at`: when this node took the pod. `failure`: reason and message of a
    pod that this node refuses.
    """
    before = pod.get("status", {})
    told = {item["name"]: item for item in before.get("containerStatuses", [])}
    containers = [
        _container(container, seen.get(container["name"]), told.get(container["name"], {}))
        for container in pod["spec"]["containers"]
    ]
    phase = "Failed" if failure else _phase(before.get("phase", "Pending"), seen)
    made: Object = {
        "phase": phase,
        "observedGeneration": pod["metadata"].get("generation", 0),
        "startTime": before.get("startTime") or started_at,
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(pod, phase, seen, now_s),
        "containerStatuses": containers,
    }
    if failure:
        made["reason"], made["message"] = failure
    return made


def exit_is_final(policy: str, life: Life) -> bool:
    """Whether a container that ended so stays ended under the pod's restartPolicy."""
    return policy == "Never" or (policy == "OnFailure" and life.exit_code == 0)


def _phase(before: str, seen: Mapping[str, Seen]) -> str:
    if before in TERMINAL:
        return before
    if any(one.waiting and one.life is None for one in seen.values()):
        return "Pending"
    if any(
        one.waiting or one.life is None or one.life.phase is Phase.RUNNING for one in seen.values()
    ):
        return "Running"
    failed = any(one.life and one.life.exit_code for one in seen.values())
    return "Failed" if failed else "Succeeded"


def _container(container: Object, seen: Seen | None, before: Object) -> Object:
    seen = seen or Seen(None, Waiting())
    state, last = _state(seen, before)
    life = seen.life
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"emulated://{container['image']}" if life else "",
        "containerID": f"process://{life.uid}/{life.container}/{life.attempt}" if life else "",
        "restartCount": life.attempt if life else before.get("restartCount", 0),
        "ready": seen.ready,
        "started": seen.started,
        "state": state,
        "lastState": last,
    }


def _state(seen: Seen, before: Object) -> tuple[Object, Object]:
    """`state` and `lastState`."""
    life = seen.life
    ended = {"terminated": _terminated(life)} if life and life.phase is Phase.EXITED else {}
    if seen.waiting is not None:
        waiting = {"reason": seen.waiting.reason}
        waiting |= {"message": seen.waiting.message} if seen.waiting.message else {}
        return {"waiting": waiting}, ended or before.get("lastState", {})
    known = {"terminated": _terminated(seen.previous)} if seen.previous else {}
    last = known or before.get("lastState", {})
    if ended or life is None:
        return ended, last
    return {"running": {"startedAt": stamp(life.started_at_s)}}, last


def _terminated(life: Life) -> Object:
    made: Object = {
        "exitCode": life.exit_code,
        "reason": life.reason,
        "startedAt": stamp(life.started_at_s),
        "finishedAt": stamp(life.finished_at_s),
        "containerID": f"process://{life.uid}/{life.container}/{life.attempt}",
    }
    made |= {"message": life.message} if life.message else {}
    return made | ({"signal": life.signal} if life.signal else {})


def _conditions(pod: Object, phase: str, seen: Mapping[str, Seen], now_s: float) -> list[Object]:
    before = {item["type"]: item for item in pod.get("status", {}).get("conditions", [])}
    ready = bool(seen) and all(one.ready for one in seen.values()) and phase == "Running"
    over = "PodCompleted" if phase == "Succeeded" else "PodFailed" if phase == "Failed" else ""
    reason = over or ("" if ready else "ContainersNotReady")
    made = []
    for kind, holds in (("Initialized", True), ("ContainersReady", ready), ("Ready", ready)):
        word = "True" if holds else "False"
        since = before.get(kind, {})
        same = since.get("status") == word
        made.append(
            {
                "type": kind,
                "status": word,
                "reason": "" if holds else reason,
                "observedGeneration": pod["metadata"].get("generation", 0),
                "lastTransitionTime": since["lastTransitionTime"] if same else stamp(now_s),
            }
        )
    return made
