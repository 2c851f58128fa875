"""Every operation of the driver. Written by `python -m holdfast.lab.client`."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from holdfast.client import models


class Asks(Protocol):
    """Puts a question to the driver; see `client.sync`."""

    def _ask(
        self,
        method: str,
        parts: Sequence[str | int],
        kind: Any,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Any: ...


class AsksLater(Protocol):
    """The same for who awaits the answer; see `client.asynchronous`."""

    async def _ask(
        self,
        method: str,
        parts: Sequence[str | int],
        kind: Any,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Any: ...


class Operations(Asks):
    """Each operation."""

    def submit_document(
        self, document: Mapping[str, Any], *, key: str | None = None
    ) -> models.Done:
        """Submit a TrainingJob. All mistakes are told at once; then nothing was changed."""
        told: models.Done = self._ask(
            "POST", ("v1alpha1", "jobs"), models.Done, body=document, key=key
        )
        return told

    def jobs_page(
        self,
        *,
        phase: Sequence[str] | None = None,
        label: Sequence[str] | None = None,
        name: str | None = None,
        limit: int | None = None,
        page: str | None = None,
    ) -> models.JobList:
        """Jobs in the order in which they were submitted, page by page."""
        told: models.JobList = self._ask(
            "GET",
            ("v1alpha1", "jobs"),
            models.JobList,
            query={"phase": phase, "label": label, "name": name, "limit": limit, "continue": page},
        )
        return told

    def job(self, job: str) -> models.Job:
        """One job as it is now."""
        told: models.Job = self._ask("GET", ("v1alpha1", "jobs", job), models.Job)
        return told

    def update_document(
        self, job: str, document: Mapping[str, Any], *, key: str | None = None
    ) -> models.Done:
        """Have the job run another version of itself: the whole TrainingJob, as it is to be.
        What runs saves and ends first. Where the new version fails again and again the one
        before runs again.
        """
        told: models.Done = self._ask(
            "PUT", ("v1alpha1", "jobs", job), models.Done, body=document, key=key
        )
        return told

    def delete(self, job: str, *, key: str | None = None) -> models.Done:
        """End the job if it runs, and forget it. Its logs stay."""
        told: models.Done = self._ask("DELETE", ("v1alpha1", "jobs", job), models.Done, key=key)
        return told

    def progress(self, job: str) -> models.JobProgress | None:
        """What the detectors see live: step, loss, tokens/s, and each rank. Null before the
        first.
        """
        told: models.JobProgress | None = self._ask(
            "GET", ("v1alpha1", "jobs", job, "progress"), models.JobProgress | None
        )
        return told

    def suspend(self, job: str, *, key: str | None = None) -> models.Done:
        """Hold the job: it gives its nodes back and keeps its place."""
        told: models.Done = self._ask(
            "POST", ("v1alpha1", "jobs", job, "suspend"), models.Done, key=key
        )
        return told

    def resume(
        self, job: str, *, from_step: int | None = None, key: str | None = None
    ) -> models.Done:
        """Let a suspended job go on, or say where one begins that waits to know what its store
        has.
        """
        told: models.Done = self._ask(
            "POST",
            ("v1alpha1", "jobs", job, "resume"),
            models.Done,
            query={"from_step": from_step},
            key=key,
        )
        return told

    def stop(
        self, job: str, *, interrupt: bool | None = None, key: str | None = None
    ) -> models.Done:
        """End the job: SIGTERM, its grace, SIGKILL. It stays in the list as Stopped."""
        told: models.Done = self._ask(
            "POST",
            ("v1alpha1", "jobs", job, "stop"),
            models.Done,
            query={"interrupt": interrupt},
            key=key,
        )
        return told

    def ranks(self, job: str) -> Any:
        """One row a rank: where, how far, what it does, for whom it waits, where its time went
        lately, and what detectors hold against it. `spent` is null before the second look.
        """
        told: Any = self._ask("GET", ("v1alpha1", "jobs", job, "ranks"), Any)
        return told

    def view3d(self, job: str) -> Any:
        """Where each rank stands in dp x pp x tp, and who waits for whom."""
        told: Any = self._ask("GET", ("v1alpha1", "jobs", job, "view3d"), Any)
        return told

    def curves(self, job: str) -> models.Curves:
        """Its loss, speed and memory so far, thinned. In a thread: it may read a file."""
        told: models.Curves = self._ask("GET", ("v1alpha1", "jobs", job, "curves"), models.Curves)
        return told

    def attempts(self, job: str) -> list[models.Attempt]:
        """What each attempt ran, from which step, and what ended it. In a thread: it reads."""
        told: list[models.Attempt] = (
            self._ask("GET", ("v1alpha1", "jobs", job, "attempts"), models.AttemptList)
        ).items
        return told

    def spans(
        self,
        job: str,
        *,
        from_s: float | None = None,
        to_s: float | None = None,
        incident: int | None = None,
        ranks: str | None = None,
        limit: int | None = None,
    ) -> models.SpanList:
        """What its ranks did when. In a thread: it reads files."""
        told: models.SpanList = self._ask(
            "GET",
            ("v1alpha1", "jobs", job, "spans"),
            models.SpanList,
            query={
                "from_s": from_s,
                "to_s": to_s,
                "incident": incident,
                "ranks": ranks,
                "limit": limit,
            },
        )
        return told

    def take_burst(self, node: str, *, seconds: float | None = None) -> models.TakenBurst:
        """Count what each rail of the node moves, each millisecond, from now on; answered at
        its end.  Nothing is stopped for it, and nothing written down but the burst.
        """
        told: models.TakenBurst = self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "burst"),
            models.TakenBurst,
            body={"seconds": seconds},
        )
        return told

    def bursts(self, job: str) -> models.BurstList:
        """The bursts of a job's nodes that are kept."""
        told: models.BurstList = self._ask(
            "GET", ("v1alpha1", "jobs", job, "bursts"), models.BurstList
        )
        return told

    def burst_svg(self, job: str, burst: int) -> str:
        """One burst as a picture."""
        told: str = self._ask("GET", ("v1alpha1", "jobs", job, "bursts", f"{burst}.svg"), None)
        return told

    def burst(self, job: str, burst: int) -> models.Burst:
        """One burst with all its samples."""
        told: models.Burst = self._ask(
            "GET", ("v1alpha1", "jobs", job, "bursts", burst), models.Burst
        )
        return told

    def stacks(self, job: str, *, ranks: Sequence[int]) -> models.Stacks:
        """Take the stacks of ranks that run, now. Nothing is stopped, and nothing written
        down.
        """
        told: models.Stacks = self._ask(
            "POST", ("v1alpha1", "jobs", job, "stacks"), models.Stacks, body={"ranks": ranks}
        )
        return told

    def story(
        self,
        job: str,
        *,
        after: int | None = None,
        whole: bool | None = None,
        earlier: bool | None = None,
    ) -> models.Story:
        """All that was decided about the job, each with its reason."""
        told: models.Story = self._ask(
            "GET",
            ("v1alpha1", "jobs", job, "story"),
            models.Story,
            query={"after": after, "all": whole, "earlier": earlier},
        )
        return told

    def why(self, job: str) -> models.Why:
        """Why the job is as it is, in sentences, from its last incident on."""
        told: models.Why = self._ask("GET", ("v1alpha1", "jobs", job, "why"), models.Why)
        return told

    def why_node(self, node: str) -> models.Why:
        """Why the node is as it is, in sentences."""
        told: models.Why = self._ask("GET", ("v1alpha1", "nodes", node, "why"), models.Why)
        return told

    def evidence(self, *, limit: int | None = None) -> models.Worst:
        """The nodes, links and versions of jobs against which most is held, the worst first."""
        told: models.Worst = self._ask(
            "GET", ("v1alpha1", "evidence"), models.Worst, query={"limit": limit}
        )
        return told

    def tell_of_node(
        self,
        node: str,
        *,
        words: str,
        says: str | None = None,
        to: str | None = None,
        key: str | None = None,
    ) -> models.Done:
        """Tell what you know of the node: `says` accuses, clears (all before is void), or
        context. With `to`, the name of another node: of the link from this one to that.
        """
        told: models.Done = self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "facts"),
            models.Done,
            body={"words": words, "says": says, "to": to},
            key=key,
        )
        return told

    def tell_of_job(
        self,
        job: str,
        *,
        words: str,
        says: str | None = None,
        version: int | None = None,
        key: str | None = None,
    ) -> models.Done:
        """Tell what you know of a version of the job, the newest where none is named."""
        told: models.Done = self._ask(
            "POST",
            ("v1alpha1", "jobs", job, "facts"),
            models.Done,
            body={"words": words, "says": says, "version": version},
            key=key,
        )
        return told

    def goodput(self, job: str) -> models.Goodput:
        """Where each second of the job went, by what it was spent on, by incident and by
        cause.
        """
        told: models.Goodput = self._ask(
            "GET", ("v1alpha1", "jobs", job, "goodput"), models.Goodput
        )
        return told

    def goodput_of_all(
        self, *, since_s: float | None = None, limit: int | None = None
    ) -> models.FleetGoodput:
        """Where the time of all jobs went: which kinds of faults, and which nodes, cost most."""
        told: models.FleetGoodput = self._ask(
            "GET",
            ("v1alpha1", "goodput"),
            models.FleetGoodput,
            query={"since_s": since_s, "limit": limit},
        )
        return told

    def nodes(self) -> list[models.Node]:
        """Every node, by name."""
        told: list[models.Node] = (self._ask("GET", ("v1alpha1", "nodes"), models.NodeList)).items
        return told

    def node(self, node: str) -> models.Node:
        """One node as it is now."""
        told: models.Node = self._ask("GET", ("v1alpha1", "nodes", node), models.Node)
        return told

    def evict(self, node: str, *, reason: str, key: str | None = None) -> models.Done:
        """Use the node no more: its ranks move to another one, and it is quarantined."""
        told: models.Done = self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "evict"),
            models.Done,
            body={"reason": reason},
            key=key,
        )
        return told

    def restore(self, node: str, *, reason: str, key: str | None = None) -> models.Done:
        """Use a node again that is quarantined, or kept free for maintenance."""
        told: models.Done = self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "restore"),
            models.Done,
            body={"reason": reason},
            key=key,
        )
        return told

    def maintain(
        self, node: str, *, reason: str, within_s: float | None = None, key: str | None = None
    ) -> models.Done:
        """Have the node free, within `within_s` if there is a limit: what trains there saves
        first.
        """
        told: models.Done = self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "maintain"),
            models.Done,
            body={"reason": reason, "within_s": within_s},
            key=key,
        )
        return told

    def diagnose(
        self,
        *,
        nodes: Sequence[str] | None = None,
        whole: bool | None = None,
        key: str | None = None,
    ) -> models.Done:
        """Test these nodes, or all that can be. `sequence` is the number of the diagnosis.
        Nobody is evicted for what is found; it can be asked for until ten minutes after its
        end.
        """
        told: models.Done = self._ask(
            "POST",
            ("v1alpha1", "diagnoses"),
            models.Done,
            body={"nodes": nodes, "all": whole},
            key=key,
        )
        return told

    def diagnosis(self, diagnosis: int) -> models.Diagnosis:
        """How far it is, and what was found."""
        told: models.Diagnosis = self._ask(
            "GET", ("v1alpha1", "diagnoses", diagnosis), models.Diagnosis
        )
        return told

    def end_diagnosis(self, diagnosis: int) -> models.Done:
        """End it at once: its nodes are free again."""
        told: models.Done = self._ask("DELETE", ("v1alpha1", "diagnoses", diagnosis), models.Done)
        return told

    def calibrate(self, diagnosis: int) -> models.Done:
        """What its good nodes reached is what nodes have to reach from now on, where a person
        has them tested.
        """
        told: models.Done = self._ask(
            "POST", ("v1alpha1", "diagnoses", diagnosis, "calibrate"), models.Done
        )
        return told

    def calibrations(self) -> models.Calibrations:
        """What nodes have to reach where a person has them tested, by test."""
        told: models.Calibrations = self._ask(
            "GET", ("v1alpha1", "calibrations"), models.Calibrations
        )
        return told

    def brake(self) -> models.Brake:
        """Whether nodes are evicted by themselves, and why not."""
        told: models.Brake = self._ask("GET", ("v1alpha1", "brake"), models.Brake)
        return told

    def apply_brake(self, *, reason: str, key: str | None = None) -> models.Done:
        """Have no node evicted any more but by people."""
        told: models.Done = self._ask(
            "POST", ("v1alpha1", "brake", "apply"), models.Done, body={"reason": reason}, key=key
        )
        return told

    def release_brake(self, *, reason: str, key: str | None = None) -> models.Done:
        """Have bad nodes evicted again. What was evicted until now counts no more."""
        told: models.Done = self._ask(
            "POST", ("v1alpha1", "brake", "release"), models.Done, body={"reason": reason}, key=key
        )
        return told

    def incidents(self, *, job: str | None = None) -> list[models.Incident]:
        """Open incidents and the latest of the rest, oldest first."""
        told: list[models.Incident] = (
            self._ask("GET", ("v1alpha1", "incidents"), models.IncidentList, query={"job": job})
        ).items
        return told

    def incident(self, number: int) -> models.Incident:
        """One incident with its evidence and the stacks that were taken."""
        told: models.Incident = self._ask("GET", ("v1alpha1", "incidents", number), models.Incident)
        return told

    def digest(self, *, since_s: float | None = None) -> models.Digest:
        """Jobs, faults by kind, and the nodes that cost most, of the last week or another
        time.
        """
        told: models.Digest = self._ask(
            "GET", ("v1alpha1", "digest"), models.Digest, query={"since_s": since_s}
        )
        return told

    def webhooks(self) -> list[models.Webhook]:
        """Who is told what happens, and how that goes."""
        told: list[models.Webhook] = (
            self._ask("GET", ("v1alpha1", "webhooks"), models.WebhookList)
        ).items
        return told

    def test_webhook(self, webhook: str) -> models.Taken:
        """Send it an example now, once. Its id is `test`."""
        told: models.Taken = self._ask(
            "POST", ("v1alpha1", "webhooks", webhook, "test"), models.Taken
        )
        return told

    def make_code(self) -> models.Code:
        """Make a code with which a browser sees the page, with the rights of your token."""
        told: models.Code = self._ask("POST", ("v1alpha1", "codes"), models.Code)
        return told

    def schema(self) -> dict[str, Any]:
        """The JSON schema of a TrainingJob: each field with its sentence, default and bound."""
        told: dict[str, Any] = self._ask("GET", ("v1alpha1", "schema"), dict[str, Any])
        return told

    def healthz(self) -> str:
        """The process answers."""
        told: str = self._ask("GET", ("healthz",), None)
        return told

    def metrics(self) -> str:
        """For Prometheus, in its text format."""
        told: str = self._ask("GET", ("metrics",), None)
        return told


class AsyncOperations(AsksLater):
    """Each operation, to be awaited."""

    async def submit_document(
        self, document: Mapping[str, Any], *, key: str | None = None
    ) -> models.Done:
        """Submit a TrainingJob. All mistakes are told at once; then nothing was changed."""
        told: models.Done = await self._ask(
            "POST", ("v1alpha1", "jobs"), models.Done, body=document, key=key
        )
        return told

    async def jobs_page(
        self,
        *,
        phase: Sequence[str] | None = None,
        label: Sequence[str] | None = None,
        name: str | None = None,
        limit: int | None = None,
        page: str | None = None,
    ) -> models.JobList:
        """Jobs in the order in which they were submitted, page by page."""
        told: models.JobList = await self._ask(
            "GET",
            ("v1alpha1", "jobs"),
            models.JobList,
            query={"phase": phase, "label": label, "name": name, "limit": limit, "continue": page},
        )
        return told

    async def job(self, job: str) -> models.Job:
        """One job as it is now."""
        told: models.Job = await self._ask("GET", ("v1alpha1", "jobs", job), models.Job)
        return told

    async def update_document(
        self, job: str, document: Mapping[str, Any], *, key: str | None = None
    ) -> models.Done:
        """Have the job run another version of itself: the whole TrainingJob, as it is to be.
        What runs saves and ends first. Where the new version fails again and again the one
        before runs again.
        """
        told: models.Done = await self._ask(
            "PUT", ("v1alpha1", "jobs", job), models.Done, body=document, key=key
        )
        return told

    async def delete(self, job: str, *, key: str | None = None) -> models.Done:
        """End the job if it runs, and forget it. Its logs stay."""
        told: models.Done = await self._ask(
            "DELETE", ("v1alpha1", "jobs", job), models.Done, key=key
        )
        return told

    async def progress(self, job: str) -> models.JobProgress | None:
        """What the detectors see live: step, loss, tokens/s, and each rank. Null before the
        first.
        """
        told: models.JobProgress | None = await self._ask(
            "GET", ("v1alpha1", "jobs", job, "progress"), models.JobProgress | None
        )
        return told

    async def suspend(self, job: str, *, key: str | None = None) -> models.Done:
        """Hold the job: it gives its nodes back and keeps its place."""
        told: models.Done = await self._ask(
            "POST", ("v1alpha1", "jobs", job, "suspend"), models.Done, key=key
        )
        return told

    async def resume(
        self, job: str, *, from_step: int | None = None, key: str | None = None
    ) -> models.Done:
        """Let a suspended job go on, or say where one begins that waits to know what its store
        has.
        """
        told: models.Done = await self._ask(
            "POST",
            ("v1alpha1", "jobs", job, "resume"),
            models.Done,
            query={"from_step": from_step},
            key=key,
        )
        return told

    async def stop(
        self, job: str, *, interrupt: bool | None = None, key: str | None = None
    ) -> models.Done:
        """End the job: SIGTERM, its grace, SIGKILL. It stays in the list as Stopped."""
        told: models.Done = await self._ask(
            "POST",
            ("v1alpha1", "jobs", job, "stop"),
            models.Done,
            query={"interrupt": interrupt},
            key=key,
        )
        return told

    async def ranks(self, job: str) -> Any:
        """One row a rank: where, how far, what it does, for whom it waits, where its time went
        lately, and what detectors hold against it. `spent` is null before the second look.
        """
        told: Any = await self._ask("GET", ("v1alpha1", "jobs", job, "ranks"), Any)
        return told

    async def view3d(self, job: str) -> Any:
        """Where each rank stands in dp x pp x tp, and who waits for whom."""
        told: Any = await self._ask("GET", ("v1alpha1", "jobs", job, "view3d"), Any)
        return told

    async def curves(self, job: str) -> models.Curves:
        """Its loss, speed and memory so far, thinned. In a thread: it may read a file."""
        told: models.Curves = await self._ask(
            "GET", ("v1alpha1", "jobs", job, "curves"), models.Curves
        )
        return told

    async def attempts(self, job: str) -> list[models.Attempt]:
        """What each attempt ran, from which step, and what ended it. In a thread: it reads."""
        told: list[models.Attempt] = (
            await self._ask("GET", ("v1alpha1", "jobs", job, "attempts"), models.AttemptList)
        ).items
        return told

    async def spans(
        self,
        job: str,
        *,
        from_s: float | None = None,
        to_s: float | None = None,
        incident: int | None = None,
        ranks: str | None = None,
        limit: int | None = None,
    ) -> models.SpanList:
        """What its ranks did when. In a thread: it reads files."""
        told: models.SpanList = await self._ask(
            "GET",
            ("v1alpha1", "jobs", job, "spans"),
            models.SpanList,
            query={
                "from_s": from_s,
                "to_s": to_s,
                "incident": incident,
                "ranks": ranks,
                "limit": limit,
            },
        )
        return told

    async def take_burst(self, node: str, *, seconds: float | None = None) -> models.TakenBurst:
        """Count what each rail of the node moves, each millisecond, from now on; answered at
        its end.  Nothing is stopped for it, and nothing written down but the burst.
        """
        told: models.TakenBurst = await self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "burst"),
            models.TakenBurst,
            body={"seconds": seconds},
        )
        return told

    async def bursts(self, job: str) -> models.BurstList:
        """The bursts of a job's nodes that are kept."""
        told: models.BurstList = await self._ask(
            "GET", ("v1alpha1", "jobs", job, "bursts"), models.BurstList
        )
        return told

    async def burst_svg(self, job: str, burst: int) -> str:
        """One burst as a picture."""
        told: str = await self._ask(
            "GET", ("v1alpha1", "jobs", job, "bursts", f"{burst}.svg"), None
        )
        return told

    async def burst(self, job: str, burst: int) -> models.Burst:
        """One burst with all its samples."""
        told: models.Burst = await self._ask(
            "GET", ("v1alpha1", "jobs", job, "bursts", burst), models.Burst
        )
        return told

    async def stacks(self, job: str, *, ranks: Sequence[int]) -> models.Stacks:
        """Take the stacks of ranks that run, now. Nothing is stopped, and nothing written
        down.
        """
        told: models.Stacks = await self._ask(
            "POST", ("v1alpha1", "jobs", job, "stacks"), models.Stacks, body={"ranks": ranks}
        )
        return told

    async def story(
        self,
        job: str,
        *,
        after: int | None = None,
        whole: bool | None = None,
        earlier: bool | None = None,
    ) -> models.Story:
        """All that was decided about the job, each with its reason."""
        told: models.Story = await self._ask(
            "GET",
            ("v1alpha1", "jobs", job, "story"),
            models.Story,
            query={"after": after, "all": whole, "earlier": earlier},
        )
        return told

    async def why(self, job: str) -> models.Why:
        """Why the job is as it is, in sentences, from its last incident on."""
        told: models.Why = await self._ask("GET", ("v1alpha1", "jobs", job, "why"), models.Why)
        return told

    async def why_node(self, node: str) -> models.Why:
        """Why the node is as it is, in sentences."""
        told: models.Why = await self._ask("GET", ("v1alpha1", "nodes", node, "why"), models.Why)
        return told

    async def evidence(self, *, limit: int | None = None) -> models.Worst:
        """The nodes, links and versions of jobs against which most is held, the worst first."""
        told: models.Worst = await self._ask(
            "GET", ("v1alpha1", "evidence"), models.Worst, query={"limit": limit}
        )
        return told

    async def tell_of_node(
        self,
        node: str,
        *,
        words: str,
        says: str | None = None,
        to: str | None = None,
        key: str | None = None,
    ) -> models.Done:
        """Tell what you know of the node: `says` accuses, clears (all before is void), or
        context. With `to`, the name of another node: of the link from this one to that.
        """
        told: models.Done = await self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "facts"),
            models.Done,
            body={"words": words, "says": says, "to": to},
            key=key,
        )
        return told

    async def tell_of_job(
        self,
        job: str,
        *,
        words: str,
        says: str | None = None,
        version: int | None = None,
        key: str | None = None,
    ) -> models.Done:
        """Tell what you know of a version of the job, the newest where none is named."""
        told: models.Done = await self._ask(
            "POST",
            ("v1alpha1", "jobs", job, "facts"),
            models.Done,
            body={"words": words, "says": says, "version": version},
            key=key,
        )
        return told

    async def goodput(self, job: str) -> models.Goodput:
        """Where each second of the job went, by what it was spent on, by incident and by
        cause.
        """
        told: models.Goodput = await self._ask(
            "GET", ("v1alpha1", "jobs", job, "goodput"), models.Goodput
        )
        return told

    async def goodput_of_all(
        self, *, since_s: float | None = None, limit: int | None = None
    ) -> models.FleetGoodput:
        """Where the time of all jobs went: which kinds of faults, and which nodes, cost most."""
        told: models.FleetGoodput = await self._ask(
            "GET",
            ("v1alpha1", "goodput"),
            models.FleetGoodput,
            query={"since_s": since_s, "limit": limit},
        )
        return told

    async def nodes(self) -> list[models.Node]:
        """Every node, by name."""
        told: list[models.Node] = (
            await self._ask("GET", ("v1alpha1", "nodes"), models.NodeList)
        ).items
        return told

    async def node(self, node: str) -> models.Node:
        """One node as it is now."""
        told: models.Node = await self._ask("GET", ("v1alpha1", "nodes", node), models.Node)
        return told

    async def evict(self, node: str, *, reason: str, key: str | None = None) -> models.Done:
        """Use the node no more: its ranks move to another one, and it is quarantined."""
        told: models.Done = await self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "evict"),
            models.Done,
            body={"reason": reason},
            key=key,
        )
        return told

    async def restore(self, node: str, *, reason: str, key: str | None = None) -> models.Done:
        """Use a node again that is quarantined, or kept free for maintenance."""
        told: models.Done = await self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "restore"),
            models.Done,
            body={"reason": reason},
            key=key,
        )
        return told

    async def maintain(
        self, node: str, *, reason: str, within_s: float | None = None, key: str | None = None
    ) -> models.Done:
        """Have the node free, within `within_s` if there is a limit: what trains there saves
        first.
        """
        told: models.Done = await self._ask(
            "POST",
            ("v1alpha1", "nodes", node, "maintain"),
            models.Done,
            body={"reason": reason, "within_s": within_s},
            key=key,
        )
        return told

    async def diagnose(
        self,
        *,
        nodes: Sequence[str] | None = None,
        whole: bool | None = None,
        key: str | None = None,
    ) -> models.Done:
        """Test these nodes, or all that can be. `sequence` is the number of the diagnosis.
        Nobody is evicted for what is found; it can be asked for until ten minutes after its
        end.
        """
        told: models.Done = await self._ask(
            "POST",
            ("v1alpha1", "diagnoses"),
            models.Done,
            body={"nodes": nodes, "all": whole},
            key=key,
        )
        return told

    async def diagnosis(self, diagnosis: int) -> models.Diagnosis:
        """How far it is, and what was found."""
        told: models.Diagnosis = await self._ask(
            "GET", ("v1alpha1", "diagnoses", diagnosis), models.Diagnosis
        )
        return told

    async def end_diagnosis(self, diagnosis: int) -> models.Done:
        """End it at once: its nodes are free again."""
        told: models.Done = await self._ask(
            "DELETE", ("v1alpha1", "diagnoses", diagnosis), models.Done
        )
        return told

    async def calibrate(self, diagnosis: int) -> models.Done:
        """What its good nodes reached is what nodes have to reach from now on, where a person
        has them tested.
        """
        told: models.Done = await self._ask(
            "POST", ("v1alpha1", "diagnoses", diagnosis, "calibrate"), models.Done
        )
        return told

    async def calibrations(self) -> models.Calibrations:
        """What nodes have to reach where a person has them tested, by test."""
        told: models.Calibrations = await self._ask(
            "GET", ("v1alpha1", "calibrations"), models.Calibrations
        )
        return told

    async def brake(self) -> models.Brake:
        """Whether nodes are evicted by themselves, and why not."""
        told: models.Brake = await self._ask("GET", ("v1alpha1", "brake"), models.Brake)
        return told

    async def apply_brake(self, *, reason: str, key: str | None = None) -> models.Done:
        """Have no node evicted any more but by people."""
        told: models.Done = await self._ask(
            "POST", ("v1alpha1", "brake", "apply"), models.Done, body={"reason": reason}, key=key
        )
        return told

    async def release_brake(self, *, reason: str, key: str | None = None) -> models.Done:
        """Have bad nodes evicted again. What was evicted until now counts no more."""
        told: models.Done = await self._ask(
            "POST", ("v1alpha1", "brake", "release"), models.Done, body={"reason": reason}, key=key
        )
        return told

    async def incidents(self, *, job: str | None = None) -> list[models.Incident]:
        """Open incidents and the latest of the rest, oldest first."""
        told: list[models.Incident] = (
            await self._ask(
                "GET", ("v1alpha1", "incidents"), models.IncidentList, query={"job": job}
            )
        ).items
        return told

    async def incident(self, number: int) -> models.Incident:
        """One incident with its evidence and the stacks that were taken."""
        told: models.Incident = await self._ask(
            "GET", ("v1alpha1", "incidents", number), models.Incident
        )
        return told

    async def digest(self, *, since_s: float | None = None) -> models.Digest:
        """Jobs, faults by kind, and the nodes that cost most, of the last week or another
        time.
        """
        told: models.Digest = await self._ask(
            "GET", ("v1alpha1", "digest"), models.Digest, query={"since_s": since_s}
        )
        return told

    async def webhooks(self) -> list[models.Webhook]:
        """Who is told what happens, and how that goes."""
        told: list[models.Webhook] = (
            await self._ask("GET", ("v1alpha1", "webhooks"), models.WebhookList)
        ).items
        return told

    async def test_webhook(self, webhook: str) -> models.Taken:
        """Send it an example now, once. Its id is `test`."""
        told: models.Taken = await self._ask(
            "POST", ("v1alpha1", "webhooks", webhook, "test"), models.Taken
        )
        return told

    async def make_code(self) -> models.Code:
        """Make a code with which a browser sees the page, with the rights of your token."""
        told: models.Code = await self._ask("POST", ("v1alpha1", "codes"), models.Code)
        return told

    async def schema(self) -> dict[str, Any]:
        """The JSON schema of a TrainingJob: each field with its sentence, default and bound."""
        told: dict[str, Any] = await self._ask("GET", ("v1alpha1", "schema"), dict[str, Any])
        return told

    async def healthz(self) -> str:
        """The process answers."""
        told: str = await self._ask("GET", ("healthz",), None)
        return told

    async def metrics(self) -> str:
        """For Prometheus, in its text format."""
        told: str = await self._ask("GET", ("metrics",), None)
        return told
