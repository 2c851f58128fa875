"""The TrainingJobs of the API server, by the names of their core jobs.

Made by the wiring; read by `cluster` (whose pods they own) and `operator` (who follows them).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from holdfast.driver.adapters.kubernetes.names import JOB, Jobs, Object
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.reflector import Reflector, Synced


class TrainingJobs:
    """A copy of all TrainingJobs that this driver is for. `changes` has to be read for it."""

    def __init__(self, client: Client, jobs: Jobs) -> None:
        self._jobs = jobs
        self._reflector = Reflector(client, paths.training_jobs(jobs.namespace))
        self._listed = asyncio.Event()

    @property
    def reflectors(self) -> dict[str, Reflector]:
        """By collection, for figures."""
        return {"trainingjobs": self._reflector}

    async def seen(self) -> None:
        """Return once all that there are were listed."""
        await self._listed.wait()

    def owner(self, job: str) -> dict[str, Any] | None:
        """The object of a core job; None where there is none."""
        at = self._jobs.object(job)
        return self._reflector.store.get(f"{at.namespace}/{at.name}")

    def job_of(self, pod: dict[str, Any]) -> str:
        """Core name of the job that a pod of ours was made for; "" for one that tests a node."""
        metadata = pod["metadata"]
        name = metadata["labels"].get(JOB, "")
        return self._jobs.job(Object(metadata["namespace"], name)) if name else ""

    def names(self) -> list[str]:
        """Core names of all objects."""
        return [self._name(each) for each in self._reflector.store.values()]

    async def changes(self) -> AsyncIterator[str]:
        """Core name of each object that changed or went; "" once all were listed."""
        async for change in self._reflector.changes():
            if isinstance(change, Synced):
                self._listed.set()
                yield ""
            else:
                yield self._name(change.object)

    def _name(self, told: dict[str, Any]) -> str:
        metadata = told["metadata"]
        return self._jobs.job(Object(metadata["namespace"], metadata["name"]))
