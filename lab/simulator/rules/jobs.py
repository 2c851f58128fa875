"""Rules about jobs: their numbers, their ranks, their budgets, and how they end."""

from holdfast.driver.core import events as e
from holdfast.driver.core.evidence import book
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.fact import OfLink
from holdfast.driver.core.state.model import FINISHED, Job, Phase, State, Timer, Wanted
from holdfast.driver.core.state.node import Node, Suspect
from holdfast.lab.simulator import checkpoints
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World
from holdfast.protocol.faults import Blame


def numbers_only_grow(before: State, after: State) -> None:
    require("sequence-grows-by-one", after.sequence == before.sequence + 1, after.sequence)
    require("term-grows", after.term >= before.term, after.term)
    require("epoch-grows", after.epoch >= before.epoch, after.epoch)
    require("incidents-grow", after.incident_count >= before.incident_count, after.incident_count)


def epochs_only_grow(old: Job | None, new: Job) -> None:
    require("job-epoch-grows", old is None or new.epoch >= old.epoch, new.name)
    seated_before = old is not None and old.seated and new.seated and old.epoch == new.epoch
    if seated_before and old is not None:
        require("one-table-an-epoch", old.seats == new.seats, f"{new.name}: {new.epoch}")


def the_newest_version_runs(new: Job) -> None:
    """Whatever else happens, no rank runs a version that was given up or taken back."""
    runs = new.history[-1].version if new.seated else new.version.number
    require("newest-version-runs", runs == new.version.number, f"{new.name}: {runs}")


def who_can_meet_is_seated(old: Job | None, new: Job, after: State, now: float) -> None:
    """Written again, apart from the core: two nodes that could not reach each other are seated
    together only where no other node is to be had.
    """
    told = [each.subject for each in after.facts if now - each.at_s < 86_400]
    links = [each for each in told if isinstance(each, OfLink)]
    there = {node.subject for node in after.nodes.values()} if links else set()
    known = [each for each in links if {each.source, each.target} <= there]
    pairs = [{each.source.name, each.target.name} for each in known]
    came = set(new.nodes) - set(old.nodes if old is not None else ())
    together = [two for two in pairs if two <= set(new.nodes) and two & came]
    if not together:
        return
    others = [
        node.name
        for node in after.nodes.values()
        if node.job is None
        and node.present
        and not (node.quarantined or node.releasing or _barred(node, now))
        and not new.barred
        and not {*new.unfit, *new.tried, *(each.name for each in book.moved_off(new.facts, now))}
        & {node.name}
        and not any(node.name in two and two & set(new.nodes) for two in pairs)
    ]
    require("who-cannot-meet-is-not-seated", not others, f"{new.name}: {together}, free: {others}")


def _barred(node: Node, now: float) -> bool:
    ends = [why.until_s for why in node.against.values()]
    return any(until_s is None or until_s > now for until_s in ends)


def no_suspect_is_seated(old: Job | None, new: Job, state: State) -> None:
    """A suspect is left, or tested in its place, before ranks run there again."""
    if new.seated and not (old is not None and old.seated and old.epoch == new.epoch):
        suspects = [n for n in new.nodes if isinstance(state.nodes[n].trust, Suspect)]
        require("no-ranks-on-a-suspect", not suspects, f"{new.name} has {suspects}")


def ranks_have_good_nodes(state: State, job: Job) -> None:
    for name in job.members:
        node = state.nodes[name]
        out = node.quarantined and not goes_later(job, node)
        require("no-rank-on-an-evicted-node", not out, f"{job.name} has {name}")
        require("holder-and-held-agree", node.job == job.name, f"{job.name} has {name}")
    require("a-node-has-one-place", len(set(job.members)) == len(job.members), job.members)


def goes_later(job: Job, node: Node) -> bool:
    """A person evicted it while its job ended for good, or was parked: the job lets it go then."""
    by_person = node.quarantine is not None and node.quarantine.by_person
    return by_person and node.name in job.leaving


def table_is_whole(job: Job) -> None:
    if job.seated:
        ranks = [seat.rank for seat in job.seats]
        require("every-rank-has-a-seat", ranks == list(range(job.world_size)), job.name)
        nodes = tuple(dict.fromkeys(seat.node for seat in job.seats))
        require("seats-are-places", nodes == job.places, f"{job.name}: {nodes} {job.places}")


def who_came_first_starts_first(world: World, old: Job | None, new: Job, after: State) -> None:
    """No job starts on nodes with which one that was submitted before it could have started."""
    if old is None or old.phase is not Phase.PENDING or new.phase is not Phase.ALLOCATING:
        return
    came_s = world.books.submitted_s
    for other in after.jobs.values():
        waits = other.phase is Phase.PENDING and other.wanted is Wanted.RUN and not other.barred
        earlier = came_s.get(other.name, world.now) < came_s.get(new.name, world.now)
        could = [node for node in new.nodes if node not in other.unfit and node not in other.tried]
        late = waits and earlier and len(could) >= other.layout.nodes
        require("who-came-first-starts-first", not late, f"{new.name} before {other.name}")


STEADY = frozenset(
    {
        *("kill-rank", "blip", "raise", "pause", "bug", "hungry", "hang", "lemon", "false-alarm"),
        *("kill-driver", "freeze-driver", "kill-executor", "lose-rendezvous", "slow-quiet"),
        *("suspend", "resume", "maintain", "restore", "stop"),
    }
)
"""Faults and wishes that leave a job its nodes, their connections and its store."""


def what_ends_is_saved(world: World, old: Job | None, new: Job) -> None:
    """A job that ends has in its store the newest step that its nodes have in memory."""
    ended = new.phase in (Phase.SUCCEEDED, Phase.FAILED) and old is not None and not old.finished
    deleted = old is not None and old.wanted is Wanted.DELETE
    if not ended or old is None or deleted or not world.jobs[new.name].store_every:
        return
    if not {fault.kind for fault in world.scenario.faults} <= STEADY or old.vacant:
        return
    newest = checkpoints.possible(world, new.name, old.nodes)
    saved = checkpoints.possible(world, new.name, ())
    require("what-ends-is-saved", saved >= newest, f"{new.name}: {saved} of {newest}, {new.why}")


def suspend_ends(job: Job, now: float) -> None:
    """A suspend that a person asked for, or that comes before a job's end, ends in bounded time,
    whatever happens; while the driver stands still, which `now` leaves out, it can end nothing.
    """
    if job.phase is Phase.SUSPENDING and not job.goes_on:
        limit_s = job.plan.grace_s + 20.0 + 15.0  # until quiet is given up; a driver that is away
        if job.ends is not None:
            limit_s += max(job.plan.grace_s, 20.0)  # while its last step is saved
        if job.leaving or (job.wanted is Wanted.SUSPEND and (Timer.SAVE in job.timers or job.ends)):
            limit_s += Policy().save_longest_s  # while its last step gets on to a slow store
        require("every-suspend-ends", now - job.since_s <= limit_s, f"{job.name} {job.since_s}")


def budget_is_kept(job: Job, now: float) -> None:
    """Written again, apart from the core: a job that goes on has not used more than it may."""
    if job.phase is Phase.FAILED:
        return
    for blame, budget in (
        (Blame.USER, job.plan.user),
        (Blame.INFRASTRUCTURE, job.plan.infrastructure),
    ):
        since = now - budget.window_s
        used = book.paid(job.facts, blame, since, earned=False)
        require("budgets-are-kept", used <= budget.restarts, f"{job.name}: {used} for {blame}")


def finished_stays_finished(name: str, old: Job | None, new: Job | None) -> None:
    if old is not None and old.phase in FINISHED:
        same = new is None or new.phase is old.phase
        require("a-finished-job-stays-finished", same, f"{name}: {old.phase} {new and new.phase}")
    if new is not None and new.phase in FINISHED:
        require("a-finished-job-holds-nothing", not new.members and not new.incident, name)


def acknowledged_is_remembered(
    world: World, event: e.AnyEvent, before: State, after: State
) -> None:
    for name in world.submitted:
        if name not in after.jobs and name in before.jobs:
            old = before.jobs[name]
            asked = old.wanted is Wanted.DELETE or isinstance(event, e.DeleteRequested)
            require("what-was-acknowledged-is-remembered", asked, name)
            world.deleted.add(name)
