"""What keeps the pods of a start from being placed until all are there: our gate, or a PodGroup.

Used by `placing`. A PodGroup (scheduling.k8s.io/v1alpha2, an alpha of Kubernetes 1.36 behind the
feature gates GenericWorkload and GangScheduling) has the scheduler place all pods at one moment, or
none: also where pods of others take room that we do not see. It is asked for only where a person
wants it, and a server that does not have it is told of once; gates do then.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from holdfast.driver.adapters.kubernetes import names, podspec
from holdfast.driver.adapters.kubernetes.gang import Gang
from holdfast.driver.adapters.kubernetes.retry import retry
from holdfast.kit.logs import LazyLogger
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.errors import NotFound

Object = dict[str, Any]
Json = Mapping[str, Any]

_log = LazyLogger()


class PodGroups:
    """Makes a PodGroup for each start, and removes that of the start before."""

    def __init__(self, client: Client, *, wanted: bool) -> None:
        self._client = client
        self._usable = wanted
        self._latest: dict[str, str] = {}  # name by UID of the job
        self._making = asyncio.Lock()

    async def held(self, job: Json, gang: Gang) -> Json:
        """Fields for the spec of a pod of the job's start. Raises what the API server answers."""
        async with self._making:
            if self._usable and not gang.group:
                gang.group = await self._made(job)
        return {podspec.GROUP: {"podGroupName": gang.group}} if self._usable else podspec.GATED

    def has(self, pod: Json, order: podspec.Order) -> bool:
        """Read back: whether the pod that was made is in the group that was ordered. Where a server
        or a policy drops the field in silence, our gates do from then on.
        """
        group = (order.held or {}).get(podspec.GROUP)
        if group is None or pod["spec"].get(podspec.GROUP) == group:
            return True
        self._without(f"the API server leaves {podspec.GROUP} out of pods")
        return False

    async def _made(self, job: Json) -> str:
        """The name of a new group; "" where the server has none."""
        if not await retry(self._served):
            self._without("the API server has no podgroups of scheduling.k8s.io/v1alpha2")
            return ""
        at, uid = paths.pod_groups(job["metadata"]["namespace"]), job["metadata"]["uid"]
        made = await retry(lambda: self._client.create(at, manifest(job)))
        if former := self._latest.pop(uid, ""):
            await retry(lambda: self._gone(job, former))
        name: str = made["metadata"]["name"]
        self._latest[uid] = name
        return name

    async def _gone(self, job: Json, name: str) -> None:
        with suppress(NotFound):
            await self._client.delete(paths.pod_groups(job["metadata"]["namespace"], name))

    async def _served(self) -> bool:
        try:
            found = await self._client.get(paths.pod_groups_api())
        except NotFound:
            return False
        return any(each["name"] == "podgroups" for each in found.get("resources", ()))

    def _without(self, why: str) -> None:
        if self._usable:
            _log.warning("pod groups absent", why=why, instead="gates: pods are placed one by one")
        self._usable = False


def manifest(job: Json) -> Object:
    """What is posted to have a PodGroup: it is placed from so many pods on as the job has nodes,
    for its standbys may come later. Its name is the server's to choose: pods of an earlier start
    that are still ending would count for a group of the same name.
    """
    metadata = job["metadata"]
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": {"app.kubernetes.io/managed-by": names.MANAGER, names.JOB: metadata["name"]},
            "ownerReferences": [podspec.owned_by(job)],
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": job["spec"].get("nodes", 1)}}},
    }
