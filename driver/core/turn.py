"""One decision in the making: the state so far, the effects so far, and the reasons.

Made by `decide` for one event and used by the machines, which read and replace values through it;
gone when the decision is made. Must not be kept, and nothing outside the core sees it.
"""

from collections.abc import Iterable, Iterator
from typing import Unpack

import msgspec
from msgspec.structs import replace

from holdfast.driver.core.effects import AnyEffect, Instruct
from holdfast.driver.core.evidence import book
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state import edges
from holdfast.driver.core.state.census import Census, Overlay
from holdfast.driver.core.state.changes import IncidentChanges, JobChanges
from holdfast.driver.core.state.fact import (
    Fact,
    OfCluster,
    OfLink,
    OfNode,
    OfPoint,
    OfStore,
    OfVersion,
)
from holdfast.driver.core.state.fit import job_asks_anew, node_asks_anew
from holdfast.driver.core.state.model import Exam, Incident, Job, Phase, State, Timer
from holdfast.driver.core.state.node import (
    Against,
    Awaited,
    Backoff,
    Broken,
    Fencing,
    Held,
    Holding,
    Lent,
    Link,
    Node,
    Presence,
    Promised,
    Record,
    Returning,
    Source,
    Trust,
)
from holdfast.driver.core.state.orders import desired_of, orders_key
from holdfast.protocol.messages import Desired


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from an event. `idle`: nothing did, and the journal need not know of it."""

    state: State
    effects: tuple[AnyEffect, ...] = ()
    why: str = ""
    jobs: tuple[str, ...] = ()  # whose story it belongs to
    nodes: tuple[str, ...] = ()
    incident: int | None = None
    idle: bool = False


class Subject(msgspec.Struct, frozen=True):
    """Whom a turn is looking at: what it takes to say in whose affairs a defect was met."""

    job: str | None = None
    node: str | None = None


class Turn:
    """Collects what one event leads to. Dictionaries of the old state are copied on first use."""

    def __init__(
        self, state: State, now: float, policy: Policy, census: Census | None = None
    ) -> None:
        self.before = state
        self.now = now
        self.policy = policy
        self.sequence = state.sequence + 1
        self.term = state.term
        self.epoch = state.epoch
        self.fenced = state.fenced
        self.incident_count = state.incident_count
        self.jobs = state.jobs
        self.nodes = state.nodes
        self._census = census or Census()
        self._changed: Overlay[Node] | None = None  # `nodes`, once one was put there
        self.exams = state.exams
        self.facts = state.facts
        self._apart: tuple[tuple[str, str], ...] | None = None  # once it was asked for
        self.brake = state.brake
        self.figures = state.figures
        self.incidents = state.incidents
        self.returned_s = state.returned_s
        self.back_s = state.back_s
        self.effects: list[AnyEffect] = []
        self.reasons: dict[str, None] = {}  # in order, each once
        self.touched_jobs: dict[str, None] = {}
        self.touched_nodes: dict[str, None] = {}
        self.touched_incident: int | None = None
        self.about: dict[str, None] = {}  # nodes that the event names
        self.supply = False  # who may have which node is to be asked again
        self.resend: dict[str, None] = {}  # nodes that missed what they were told
        self.subject = Subject()  # where this turn goes from one to the next

    @property
    def census(self) -> Census:
        """Of the nodes as they are now."""
        return self._census.of(self.nodes)

    # ------------------------------------------------------------ going from one to the next

    def each_job(self, names: Iterable[str], *, parked: bool = False) -> Iterator[str]:
        """Those jobs, one after the other, but for those that are parked, which are left alone;
        `parked`: those, too. One that raises stays the subject.
        """
        before = self.subject
        for name in tuple(names):
            if (job := self.jobs.get(name)) is None or parked or not job.parked:
                self.subject = Subject(job=name)
                yield name
        self.subject = before

    def each_node(self, names: Iterable[str]) -> Iterator[str]:
        """Those nodes, one after the other. One that raises stays the subject, with its job."""
        before = self.subject
        for name in tuple(names):
            node = self.nodes.get(name)
            self.subject = Subject(job=node.job if node is not None else None, node=name)
            yield name
        self.subject = before

    # ------------------------------------------------------------ changing values

    def put_job(self, job: Job) -> Job:
        if self.jobs is self.before.jobs:
            self.jobs = dict(self.jobs)
        self.supply = self.supply or job_asks_anew(self.jobs.get(job.name), job)
        self.jobs[job.name] = job
        self.touched_jobs[job.name] = None
        return job

    def job(self, name: str, **changes: Unpack[JobChanges]) -> Job:
        """Change fields of a job and give it back."""
        return self.put_job(replace(self.jobs[name], **changes))

    def places(self, name: str, places: tuple[str, ...]) -> Job:
        """Change whom a job's ranks are on. How many are missing is counted here, since that is
        asked at each event, of jobs with thousands."""
        layout = self.jobs[name].layout.with_places(places)
        return self.put_job(replace(self.jobs[name], layout=layout, vacant=places.count("")))

    def has(self, job: Job, node: str) -> bool:
        """Whether the node is the job's, as one of its places or as a standby."""
        return node in self.nodes and self.nodes[node].job == job.name

    def drop_job(self, name: str) -> None:
        self.jobs = {other: job for other, job in self.jobs.items() if other != name}
        self.touched_jobs[name] = None

    def put_node(self, node: Node) -> Node:
        """Raises `IllegalEdge` where a facet has changed in a way that no table has."""
        if (before := self.nodes.get(node.name)) is not None:
            edges.check_node(before, node)
        self.supply = self.supply or node_asks_anew(before, node)
        self._put_node(node)
        self.touched_nodes[node.name] = None
        return node

    def _put_node(self, node: Node) -> None:
        if self._changed is None:
            self.nodes = self._changed = Overlay(self.nodes)
        self._changed.put(node.name, node)

    # One function a facet, and a field beside them. Each raises `IllegalEdge` as `put_node` does.

    def set_presence(self, name: str, presence: Presence, *, rack: str | None = None) -> Node:
        """What the cluster says. `rack`: where it is; None: as before."""
        node = self.nodes[name]
        return self.put_node(
            replace(node, presence=presence, rack=node.rack if rack is None else rack)
        )

    def set_link(self, name: str, link: Link) -> Node:
        return self.put_node(replace(self.nodes[name], link=link))

    def look_at_silence(self, name: str, at_s: float | None) -> None:
        """Look at the silence of a node that is away then; None: nobody does."""
        link = self.nodes[name].link
        if isinstance(link, Awaited | Broken):
            self.set_link(name, replace(link, check_s=at_s))

    def set_holding(self, name: str, holding: Holding) -> Node:
        """What is known of who has it."""
        return self.put_node(replace(self.nodes[name], holding=holding))

    def ask_for(self, name: str, holding: Promised | Lent | Returning) -> Node:
        """Who is to have it: the cluster is asked now, and outcomes of earlier calls are late."""
        node = self.nodes[name]
        told = replace(node.told, called=self.sequence)
        return self.put_node(replace(node, holding=holding, told=told))

    def set_trust(self, name: str, trust: Trust) -> Node:
        return self.put_node(replace(self.nodes[name], trust=trust))

    def set_record(self, name: str, record: Record) -> Node:
        return self.put_node(replace(self.nodes[name], record=record))

    def set_told(self, name: str, told: Fencing) -> Node:
        return self.put_node(replace(self.nodes[name], told=told))

    def set_exam(self, name: str, exam: str | None) -> Node:
        """In which exam it takes part."""
        return self.put_node(replace(self.nodes[name], exam=exam))

    def set_retry(self, name: str, at_s: float | None) -> Node:
        """When a call to the cluster that failed is made again."""
        return self.put_node(replace(self.nodes[name], retry_s=at_s))

    def set_backoff(self, name: str, backoff: Backoff) -> Node:
        """How long what is due of it is put off, after a defect of ours."""
        return self.put_node(replace(self.nodes[name], backoff=backoff))

    def set_machine(self, name: str, machine: str, former: tuple[str, ...]) -> Node:
        """Which machine has the name now, and which had it before."""
        return self.put_node(replace(self.nodes[name], machine=machine, former=former))

    def note(self, name: str, told: Promised | Held) -> None:
        """Note what a node of a job told of itself there: nothing that it is to do, or who may have
        it, follows from that. The cheap way, for each word of thousands: of all that `put_node`
        looks at only that it is held as before. Raises `IllegalEdge` where it is not.
        """
        node = self.nodes[name]
        if type(node.holding) is not type(told) or node.job != told.job:
            raise edges.IllegalEdge(node, "holding", told)
        self._put_node(replace(node, holding=told))

    def object_to(self, name: str, source: Source, reason: Against | None) -> Node:
        """Note what this source has against the use of a node: None, nothing any more."""
        node = self.nodes[name]
        others = {each: why for each, why in node.against.items() if each is not source}
        against = others if reason is None else {**others, source: reason}
        return self.put_node(replace(node, against=against))

    def drop_node(self, name: str) -> None:
        """Forget a node that nothing else knows of; the entry still tells of it."""
        self.nodes, self._changed = {k: node for k, node in self.nodes.items() if k != name}, None
        self.touched_nodes.pop(name, None)
        self.about[name] = None
        self.supply = True

    def add_fact(self, fact: Fact) -> None:
        """Keep it with whom it concerns, as of now."""
        fact = replace(fact, at_s=self.now, entry=self.sequence)
        match fact.subject:
            case OfNode(name=name):
                record = self.nodes[name].record
                facts = book.kept((*record.facts, fact), self.now)
                self.set_record(name, replace(record, facts=facts))
            case OfVersion(job=name) | OfPoint(job=name):
                job = self.jobs[name]
                facts = book.kept((*job.facts, fact), self.now, paid_s=job.paid_s)
                self.job(name, facts=facts)
            case OfLink() | OfStore() | OfCluster():
                self.put_facts((*self.facts, fact))

    def put_facts(self, facts: Iterable[Fact]) -> None:
        """These are known now of what has no value of its own; none displaces another kind's."""
        known = tuple(facts)
        for kind in (OfLink, OfStore, OfCluster):
            others = (each for each in known if not isinstance(each.subject, kind))
            own = (each for each in known if isinstance(each.subject, kind))
            known = (*others, *book.kept(own, self.now))
        self.facts, self._apart = known, None

    def forget_stores(self, job: str) -> None:
        """What the job told of stores counts no more: it tells something newer; or it is over, and
        nobody else could take it back."""
        told = [x for x in self.facts if isinstance(x.subject, OfStore) and x.about.job == job]
        if told:
            self.put_facts(each for each in self.facts if each not in told)

    @property
    def apart(self) -> tuple[tuple[str, str], ...]:
        """Nodes that cannot reach each other, as far as is known."""
        if self._apart is None:
            links = book.cut(self.facts, self.nodes, self.now)
            names = (sorted((link.source.name, link.target.name)) for link in links)
            self._apart = tuple(dict.fromkeys((one, other) for one, other in names))
        return self._apart

    def put_exam(self, exam: Exam) -> Exam:
        self.exams = {**self.exams, exam.id: exam}
        return exam

    def drop_exam(self, number: str) -> None:
        self.exams = {other: exam for other, exam in self.exams.items() if other != number}

    def put_incident(self, incident: Incident) -> Incident:
        if self.incidents is self.before.incidents:
            self.incidents = dict(self.incidents)
        self.incidents[incident.id] = incident
        self.touched_incident = incident.id
        return incident

    def incident(self, number: int, **changes: Unpack[IncidentChanges]) -> Incident:
        """Change fields of an incident and give it back."""
        return self.put_incident(replace(self.incidents[number], **changes))

    def move(self, name: str, phase: Phase) -> Job:
        """Take the job to `phase`. Raises `IllegalTransition` where the table has no such way."""
        job = self.jobs[name]
        if job.phase is phase:
            return job
        edges.check_job(job, phase, "; ".join(self.reasons))
        if job.phase is Phase.RUNNING:
            ran = (replace(each, ran_s=job.ran_s(each, self.now)) for each in job.versions)
            job = replace(job, versions=tuple(ran))
        return self.put_job(replace(job, phase=phase, since_s=self.now, waiting=""))

    def set_timer(self, name: str, timer: Timer, after_s: float) -> None:
        """Have the job looked at again after `after_s`; replaces an earlier one of its kind."""
        timers = self.jobs[name].timers
        self.job(name, timers={**timers, timer: self.now + after_s})

    def drop_timers(self, name: str, *timers: Timer) -> None:
        old = self.jobs[name].timers
        if any(timer in old for timer in timers):
            self.job(name, timers={t: at for t, at in old.items() if t not in timers})

    # ------------------------------------------------------------ saying and ordering

    def say(self, sentence: str, *jobs: str) -> None:
        """Add a reason, once; it becomes the last decision of `jobs`."""
        self.reasons[sentence] = None
        for name in jobs:
            if name in self.jobs:
                self.job(name, why=sentence)

    def order(self, effect: AnyEffect) -> None:
        self.effects.append(effect)

    def wait_for(self, name: str, what: str) -> None:
        """Say what the job waits for, once; as one reason, which other subjects are not told."""
        if self.jobs[name].waiting != what:
            self.say(f"{name} waits: {what.replace('; ', ', ')}")
            self.job(name, waiting=what, why=f"{name} waits: {what}")

    # ------------------------------------------------------------ the end

    def state(self) -> State:
        return State(
            sequence=self.sequence,
            term=self.term,
            epoch=self.epoch,
            fenced=self.fenced,
            incident_count=self.incident_count,
            jobs=self.jobs,
            nodes=self.nodes,
            exams=self.exams,
            facts=self.facts,
            brake=self.brake,
            figures=self.figures,
            incidents=self.incidents,
            returned_s=self.returned_s,
            back_s=self.back_s,
        )

    def close(self) -> Decision:
        """The decision, with an `Instruct` for each node whose desired state has changed."""
        if self._nothing_followed():
            return Decision(state=self.before, idle=True)
        self._instruct()
        return Decision(
            state=self.state(),
            effects=tuple(self.effects),
            why="; ".join(self.reasons),
            jobs=tuple(self._whose_story()),
            nodes=tuple(self.touched_nodes | self.about),
            incident=self.touched_incident,
        )

    def _nothing_followed(self) -> bool:
        touched = self.touched_jobs or self.touched_nodes or self.touched_incident
        exams = self.exams is not self.before.exams
        return not (touched or exams or self.effects or self.resend or self.reasons)

    def _whose_story(self) -> dict[str, None]:
        """Jobs that were touched, and those that had or have a node that was."""
        names = dict(self.touched_jobs)
        for node in self.touched_nodes:
            for known in (self.before.nodes.get(node), self.nodes[node]):
                if known is not None and known.job is not None:
                    names[known.job] = None
        return names

    def _instruct(self) -> None:
        after = self.state()
        for name in self.each_node(self._affected()):
            old, new = self.before.nodes.get(name), self.nodes[name]
            wanted = _wanted_of(after, new)
            if wanted is None:
                continue
            if wanted.job is None and not (new.told.generation or wanted.diagnostics):
                continue  # never told anything, and nothing to tell
            if name not in self.resend and _was_told(self.before, old, wanted):
                continue
            generation = new.told.generation + 1
            orders = replace(new.told, generation=generation, epoch=wanted.epoch)
            self.set_told(name, orders)
            self.order(Instruct(desired=replace(wanted, generation=generation)))

    def _affected(self) -> list[str]:
        if self.term != self.before.term:
            return [name for name, node in self.nodes.items() if node.told.generation]
        names = self.touched_nodes | self.resend
        for name in self.touched_jobs:
            job, old = self.jobs.get(name), self.before.jobs.get(name)
            if job and (old is None or orders_key(old) != orders_key(job)):
                names.update(dict.fromkeys(job.members))
        return list(names)


def _wanted_of(state: State, node: Node) -> Desired | None:
    """None where its job is parked: it is told nothing, and goes on as it is."""
    job = state.jobs.get(node.job) if node.job is not None else None
    return None if job is not None and job.parked else desired_of(state, node)


def _was_told(before: State, node: Node | None, wanted: Desired) -> bool:
    """Whether the same was wanted of it before. A later epoch is news, whatever else it is."""
    if node is None or wanted.epoch > node.told.epoch:
        return False
    return _wanted_of(before, node) == wanted
