"""A job's transitions as Events of Kubernetes, so that `kubectl describe tj` reads as a story.

Used by `operator`. Told once and never read back: the journal remembers, so an Event that cannot be
written is let go, and that is logged.
"""

import asyncio
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.driver.adapters.kubernetes import names, notes
from holdfast.driver.adapters.kubernetes.retry import retry
from holdfast.driver.cluster.cause import acting_for
from holdfast.driver.core.state.model import Brake, Incident, Job, Phase
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kit.logs import LazyLogger
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.errors import AlreadyExists
from holdfast.protocol.faults import Kind

Object = dict[str, Any]

_log = LazyLogger()


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


class Met(NamedTuple):
    """The job of an object met an incident, whatever its phase."""

    wanted: Object
    incident: Incident
    term: int
    entry: int
    at: datetime


class Rejected(NamedTuple):
    """No job was made of an object, for `why`."""

    wanted: Object
    why: str
    term: int
    entry: int
    at: datetime


class Braked(NamedTuple):
    """The brake on eviction was put on or released, which concerns the job of this object."""

    wanted: Object
    brake: Brake
    term: int
    entry: int
    at: datetime


News = Turned | Met | Rejected | Braked


class Teller:
    """Writes Events in their order; whoever tells does not wait."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: asyncio.Queue[News] = asyncio.Queue()

    def tell(self, news: News) -> None:
        self._told.put_nowait(news)

    async def run(self) -> None:
        """For ever."""
        while True:
            news = await self._told.get()
            doing = f"Event {news.wanted['metadata']['name']}"
            with acting_for(term=news.term, entry=news.entry, doing=doing):
                await self._write(event_of(news))

    async def _write(self, event: Object) -> None:
        at = paths.events(event["metadata"]["namespace"])
        try:
            await retry(lambda: self._client.create(at, event))
        except AlreadyExists:
            return  # an answer was lost
        except (TemporaryError, PermanentError) as error:
            _log.warning("event let go", name=event["metadata"]["name"], why=str(error))


def event_of(news: News) -> Object:
    """The Event, named by object and entry: written twice it is still one.

    kubectl tells Events of one second in the order of their names, hence the zeros.
    """
    metadata, said = news.wanted["metadata"], _said(news)
    name = f"{metadata['name']}.{metadata['uid'][:8]}.{said.number:012}{said.beside}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
        },
        "eventTime": news.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": f"{names.GROUP}/driver",
        "reportingInstance": f"term-{news.term}",
        "action": "Turn",
        "reason": said.reason,
        "type": "Warning" if said.warns else "Normal",
        "note": notes.short(said.note),
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            **{key: metadata[key] for key in ("namespace", "name", "uid")},
        },
    }


class _Said(NamedTuple):
    """What an Event says, and its part of the name: `number`, and `beside` others of that."""

    warns: bool
    reason: str
    note: str
    number: int
    beside: str = ""


def _said(news: News) -> _Said:
    match news:
        case Turned(_, job, met):
            return _Said(_troubled(job), job.phase.value, _note(job, met), news.entry)
        case Met(_, incident):
            warns = incident.kind not in (Kind.MAINTENANCE, Kind.REQUESTED)
            reason = incident.kind.value.title().replace("-", "")
            return _Said(warns, reason, incident.summary, news.entry, ".incident")
        case Rejected(wanted, why):
            return _Said(True, "Refused", why, wanted["metadata"]["generation"], ".refused")
        case Braked(_, brake):
            reason = "BrakeApplied" if brake.on else "BrakeReleased"
            note = f"the brake on eviction: {brake.why}"
            return _Said(brake.on, reason, note, news.entry, ".brake")


def _troubled(job: Job) -> bool:
    """Whether it failed, or is on its way back from an incident."""
    return job.phase is Phase.FAILED or (
        job.incident is not None and job.phase is not Phase.RUNNING
    )


def _note(job: Job, news: str) -> str:
    """Why, in the words of the journal: a reason stands before a traceback, which may be long."""
    why = f"{job.failure.reason}\n{job.failure.traceback}" if job.failure else job.why
    return "; ".join(filter(None, [news, why.strip()]))
