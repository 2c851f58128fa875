"""Where the page has its facts from: `Facts`, and `Here`, a running driver.

The other one is a run's folder, in `cli.page`. Dicts as the REST interface answers with them.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from holdfast.driver.adapters.page.past import Past, between, last_of
from holdfast.driver.adapters.rest import burst_views, telling
from holdfast.driver.adapters.rest.curves import curves
from holdfast.driver.adapters.rest.goodput import DEFAULT_LIMIT, fleet_goodput, goodput_of_job
from holdfast.driver.adapters.rest.guard import meant
from holdfast.driver.adapters.rest.jobs import job_of, told, view_of
from holdfast.driver.adapters.rest.logs import FIRST_ATTEMPT, RankLog
from holdfast.driver.adapters.rest.nodes import node_of, node_view_of, nodes_of
from holdfast.driver.adapters.rest.spans import axes_of, until_found
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.adapters.rest.views import brake_view, incident_view
from holdfast.driver.people import job_lives
from holdfast.driver.people.access import Rebuff, Right
from holdfast.driver.people.control import Control
from holdfast.driver.people.story import about
from holdfast.driver.ports import TemporaryError
from holdfast.page.logs import READ_BYTES, pane
from holdfast.page.pages import Log
from holdfast.page.words import outcome

Dict = dict[str, Any]

LOG_WITHIN_S = 0.4
"""The rest of the page does not wait longer for a node that hangs, which may be asked twice: a page
is to be there within a second."""


class Facts(Protocol):
    """What pages are made of. Each may raise `Problem`, a `Rebuff` or `TemporaryError`."""

    @property
    def live(self) -> bool:
        """Whether a driver runs."""
        ...

    @property
    def sequence(self) -> int:
        """Of the newest entry of the journal."""
        ...

    def said(self) -> str:
        """Why what is told may be old, or no new work is taken; "" where all is well."""
        ...

    async def may(self, token: str, right: Right, job: str = "") -> str:
        """The whole name of the job that is meant, of those for which the token has the right."""
        ...

    async def jobs(self) -> list[Dict]: ...

    async def job(self, name: str) -> Dict: ...

    async def incidents(self, job: str) -> list[Dict]: ...

    async def why_job(self, name: str) -> Dict: ...

    async def goodput(self, job: str) -> Dict:
        """Where its time went."""
        ...

    async def fleet_goodput(self, since_s: float) -> Dict:
        """Where the time of all jobs went, so far back."""
        ...

    async def story(self, job: str) -> Dict: ...

    async def curves(self, job: str) -> Dict:
        """Its loss, speed and memory."""
        ...

    async def spans(self, job: str, last_s: float) -> Past:
        """What its ranks did last."""
        ...

    async def spans_until(self, job: str, incident: int) -> Past:
        """What its ranks did until that incident was found."""
        ...

    async def bursts(self, job: str) -> list[Dict]:
        """Those of its nodes that are kept."""
        ...

    async def burst(self, job: str, number: int) -> Dict: ...

    async def nodes(self) -> list[Dict]: ...

    async def node(self, name: str) -> Dict: ...

    async def why_node(self, name: str) -> Dict: ...

    async def brake(self) -> Dict: ...

    async def log(
        self, token: str, job: str, rank: int, stream: str, attempt: int | None = None
    ) -> Log:
        """Its end; of the newest attempt where none is named."""
        ...

    async def done(self, name: str, sequence: int) -> str:
        """What came of a request about this name, by its entry of the journal; "" of any other."""
        ...


class Here:
    """A running driver. On its event loop; what reads the journal is in a thread."""

    live = True

    def __init__(self, control: Control) -> None:
        self._control = control

    @property
    def sequence(self) -> int:
        return self._control.sequence

    def said(self) -> str:
        why = self._control.accepting or self._control.away()
        return f"This may be old. {why}" if self._control.stale else why

    async def may(self, token: str, right: Right, job: str = "") -> str:
        if job:
            return await meant(self._control, token, right, job)
        await self._control.people.check(token, right)
        return ""

    async def jobs(self) -> list[Dict]:
        known = sorted(self._control.state.jobs.values(), key=lambda job: job.number)
        return [plain(view_of(self._control, job)) for job in known]

    async def job(self, name: str) -> Dict:
        return plain(view_of(self._control, job_of(self._control, name)))

    async def incidents(self, job: str) -> list[Dict]:
        found = job_lives.incidents_of(self._control.state, job)
        return [plain(incident_view(each)) for each in found]

    async def why_job(self, name: str) -> Dict:
        control, job = self._control, told(self._control, job_of(self._control, name))
        return await _read(
            lambda: telling.why_job(control.journal, control.state, job, now=control.now())
        )

    async def goodput(self, job: str) -> Dict:
        return await _read(lambda: goodput_of_job(job, self._control))

    async def fleet_goodput(self, since_s: float) -> Dict:
        return await _read(lambda: fleet_goodput(self._control, since_s, most=DEFAULT_LIMIT))

    async def story(self, job: str) -> Dict:
        control, known = self._control, job_of(self._control, job)
        return await _read(lambda: telling.story_of(control.journal, control.state, known))

    async def curves(self, job: str) -> Dict:
        return await _read(lambda: curves(job, self._control))

    async def spans(self, job: str, last_s: float) -> Past:
        root, age_s = self._control.settings.state, (await self.job(job))["age_s"]
        axes = axes_of(job_of(self._control, job))
        return await asyncio.to_thread(last_of, root, job, age_s=age_s, last_s=last_s, axes=axes)

    async def spans_until(self, job: str, incident: int) -> Past:
        root, known = self._control.settings.state, job_of(self._control, job)
        from_s, to_s = until_found(self._control.state, known, incident)
        axes = axes_of(known)
        return await asyncio.to_thread(
            between, root, known.name, from_s=from_s, to_s=to_s, axes=axes
        )

    async def bursts(self, job: str) -> list[Dict]:
        root = self._control.settings.state
        items: list[Dict] = (await _read(lambda: burst_views.listed(root, job)))["items"]
        return items

    async def burst(self, job: str, number: int) -> Dict:
        root = self._control.settings.state
        return await _read(lambda: burst_views.one(root, job, number))

    async def nodes(self) -> list[Dict]:
        nodes = nodes_of(self._control)
        return [plain(node_view_of(self._control, nodes[name])) for name in sorted(nodes)]

    async def node(self, name: str) -> Dict:
        return plain(node_view_of(self._control, node_of(self._control, name)))

    async def why_node(self, name: str) -> Dict:
        control, node = self._control, node_of(self._control, name)
        absent, now = control.absent().get(name, ""), control.now()
        return await _read(
            lambda: telling.why_node(control.journal, control.state, node, now=now, absent=absent)
        )

    async def brake(self) -> Dict:
        control = self._control
        return plain(brake_view(control.state, dry_run=control.settings.dry_run_evictions))

    async def log(
        self, token: str, job: str, rank: int, stream: str, attempt: int | None = None
    ) -> Log:
        """Why there is none, or none for this person, is told as well."""
        known = job_of(self._control, job)
        newest = max(known.attempt, FIRST_ATTEMPT)
        meant = newest if attempt is None else attempt
        none = Log(rank, stream, meant, pane(b"", whole=True))
        if not 0 <= rank < known.world_size:
            why = f"{job} has {known.world_size} ranks, from rank 0 on; there is no rank {rank}."
            return none._replace(missing=why)
        log = RankLog(self._control, known, meant, rank, stream)
        try:
            await self._control.people.check(token, Right.READ_LOGS, job)
            async with asyncio.timeout(LOG_WITHIN_S):
                came = await log.read(-READ_BYTES) if meant <= newest else None
        except TimeoutError:
            why = f"the node of rank {rank} has not sent it within {LOG_WITHIN_S:g} s."
            return none._replace(missing=why)
        except (Rebuff, TemporaryError) as error:
            return none._replace(missing=str(error))
        if came is None:
            return none._replace(missing=log.missing().detail)
        data, end = came
        return none._replace(pane=pane(data, whole=len(data) == end))

    async def done(self, name: str, sequence: int) -> str:
        journal = self._control.journal
        entries = await asyncio.to_thread(journal.entries, after=sequence - 1, limit=1)
        for entry in entries:
            if entry.sequence == sequence and name in (*entry.jobs, *entry.nodes, "brake"):
                return outcome(name, about({name, *entry.jobs}, entry.why, entry.jobs))
        return ""


async def _read(tell: Callable[[], View]) -> Dict:
    return plain(await asyncio.to_thread(tell))


def plain(view: View) -> Dict:
    """As JSON has it."""
    return view.model_dump()
