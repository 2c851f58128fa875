"""A job's transitions as Events of Kubernetes, so that `kubectl describe tj` reads as a story.

Used by `operator`. Told once and never read back: the journal remembers, so an Event that cannot be
written is let go, and that is logged.
"""

import asyncio
from datetime import datetime
from typing import Any, NamedTuple

import structlog

from holdfast.driver.acting import acting_for
from holdfast.driver.adapters.kubernetes import names, paths
from holdfast.driver.adapters.kubernetes.client import Client
from holdfast.driver.adapters.kubernetes.errors import AlreadyExists
from holdfast.driver.adapters.kubernetes.insist import insist
from holdfast.driver.core.model import Job, Phase
from holdfast.driver.ports import PermanentError, TemporaryError

Object = dict[str, Any]

MAX_NOTE_BYTES = 1_024
"""As the API server counts it."""

_log = structlog.get_logger()


class Turned(NamedTuple):
    """The job of an object came to a phase, by journal entry `entry` of `term`.

    `news`: the incident that it met on the way, in a sentence; "" where it met none.
    """

    wanted: Object
    job: Job
    news: str
    term: int
    entry: int
    at: datetime


class Teller:
    """Writes Events in their order; whoever tells does not wait."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: asyncio.Queue[Turned] = asyncio.Queue()

    def tell(self, turned: Turned) -> None:
        self._told.put_nowait(turned)

    async def run(self) -> None:
        """For ever."""
        while True:
            turned = await self._told.get()
            doing = f"Event {turned.job.name}"
            with acting_for(term=turned.term, entry=turned.entry, doing=doing):
                await self._write(event_of(turned))

    async def _write(self, event: Object) -> None:
        at = paths.events(event["metadata"]["namespace"])
        try:
            await insist(lambda: self._client.create(at, event))
        except AlreadyExists:
            return  # an answer was lost
        except (TemporaryError, PermanentError) as error:
            _log.warning("event.let_go", name=event["metadata"]["name"], why=str(error))


def event_of(turned: Turned) -> Object:
    """The Event, named by object and entry: written twice it is still one.

    kubectl tells Events of one second in the order of their names, hence the zeros.
    """
    metadata, job = turned.wanted["metadata"], turned.job
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{metadata['uid'][:8]}.{turned.entry:012}",
            "namespace": metadata["namespace"],
        },
        "eventTime": turned.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": f"{names.GROUP}/driver",
        "reportingInstance": f"term-{turned.term}",
        "action": "Turn",
        "reason": job.phase.value,
        "type": "Warning" if _troubled(job) else "Normal",
        "note": _note(job, turned.news),
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            **{key: metadata[key] for key in ("namespace", "name", "uid")},
        },
    }


def _troubled(job: Job) -> bool:
    """Whether it failed, or is on its way back from an incident."""
    return job.phase is Phase.FAILED or (
        job.incident is not None and job.phase is not Phase.RUNNING
    )


def _note(job: Job, news: str) -> str:
    """Why, in the words of the journal: a reason stands before a traceback, which may be long."""
    why = f"{job.failure.reason}\n{job.failure.traceback}" if job.failure else job.why
    said = "; ".join(filter(None, [news, why.strip()]))
    return said.encode()[:MAX_NOTE_BYTES].decode(errors="ignore")
