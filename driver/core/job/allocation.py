"""Who gets which node: gangs for jobs that wait, replacements for those that miss one, standbys.

Called by `decide` after every event that may have freed a node or emptied a place. Pure. A start is
all or nothing, so two jobs never hold half of the cluster each; a replacement is taken at once.
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from holdfast.driver.core import exams
from holdfast.driver.core.attempt.quiet import is_ending, is_quiet, without_nodes
from holdfast.driver.core.effects import Allocate, Release
from holdfast.driver.core.job import candidates
from holdfast.driver.core.job.candidates import (
    Nearest,
    Supply,
    fitting,
    nearest,
    note,
    of_a_start,
    rest_s,
    untried,
    unwanted,
)
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Job, Phase, Purpose, Timer, Unfit
from holdfast.driver.core.state.node import Against, Node, Promised, Returning, Source
from holdfast.driver.core.turn import Turn

SAID_NODES = 3
"""Of the nodes that a job cannot have, those that are told with their reason."""
SAID_JOBS = 3
"""Of the jobs that have nodes which another waits for, those that are told."""


def ready(node: Node) -> bool:
    """True once the node works for its job: confirmed by the cluster, its executor connected."""
    return node.allocated and node.connected


def there(job: Job, node: Node) -> bool:
    """Whether the job has, or had in this epoch, an executor on the node."""
    at_work = job.seated and node.name in job.places
    return at_work or is_quiet(node, job) or is_ending(node) or ready(node)


def came(job: Job, node: Node) -> bool:
    """Whether the node's executor was ever there since the job was given the node."""
    return (node.held is not None and node.held.came) or there(job, node)


def schedule(turn: Turn) -> None:
    """Give free nodes to whoever waits: replacements, then jobs in their order, then standbys."""
    lacking = [job for job in turn.jobs.values() if _lacks(job)]
    if not lacking:
        return
    waiting = [job.name for job in sorted(lacking, key=lambda job: job.number)]
    supply = Supply(turn)
    for name in turn.each_job(waiting):
        _fill_places(turn, name, supply)
    for name in turn.each_job(waiting):
        if turn.jobs[name].phase is Phase.PENDING:
            _start(turn, name, supply)
    for name in turn.each_job(waiting):
        _fill_standbys(turn, name, supply)


def _lacks(job: Job) -> bool:
    if not job.goes_on or job.finished or job.parked:
        return False
    if job.phase is Phase.PENDING or job.vacant:
        return True
    return bool(job.places) and len(job.standbys) < _standbys_wanted(job)


def _standbys_wanted(job: Job) -> int:
    """Those of its plan, and one for each node that it has to leave: so that is warm by then."""
    return max(job.plan.standbys, len(job.leaving))


def _start(turn: Turn, name: str, supply: Supply) -> None:
    job = turn.jobs[name]
    may = fitting(turn, job, supply.free)
    if len(may) < job.layout.nodes or _comes_first(turn, job, may):
        why = job.barred.why if job.barred else _too_few(turn, job, len(may))
        turn.wait_for(name, why)
        return
    places = tuple(of_a_start(turn, job, may))
    supply.take_out(places)
    turn.move(name, Phase.ALLOCATING)
    turn.places(name, places)
    turn.say(f"{name} gets {', '.join(places)}", name)
    candidates.say_pairs(turn, name, places)
    take(turn, name, places)


def _comes_first(turn: Turn, job: Job, may: list[str]) -> bool:
    """Whether it is the turn of one that is on its way back, before that of one of these."""
    if len(untried(job, may)) >= job.layout.nodes:
        return False
    return any(node not in job.tried for node in turn.census.coming(turn.now))


def _too_few(turn: Turn, job: Job, free: int) -> str:
    """How many nodes there are for the job, who has others, and why the rest is not usable."""
    said = [_counted(job, free, turn.census.known), *_have(turn, job), *_barred(turn, job)]
    return "; ".join(said)


def _counted(job: Job, free: int, known: int) -> str:
    wanted = job.layout.nodes
    needs = f"it needs {wanted} node{'' if wanted == 1 else 's'}, and"
    if 0 < known < wanted:
        return f"{needs} only {known} {_are(known)} known: it cannot start until more join"
    return f"{needs} {free or 'none'} {_are(free)} free"


def _are(count: int) -> str:
    return "are" if count > 1 else "is"


def _barred(turn: Turn, job: Job) -> list[str]:
    """Why nodes that nobody has are not the job's: a few of them, those that come back last."""
    number, found = turn.census.barred(job, turn.now, SAID_NODES)
    more = number - SAID_NODES
    said = [f"{node}: {why.whole}" for node, why in found.items()]
    return [*said, f"{more} more {_are(more)} not to be had"] if more > 0 else said


def _have(turn: Turn, job: Job) -> list[str]:
    """Whom the job waits for, it seems: the jobs that have most of the nodes that it could have."""
    if job.barred is not None and job.barred.until_s > turn.now:
        return []
    owners = turn.census.owners(job, tuple(turn.jobs), turn.now)
    most = owners.most_common(SAID_JOBS)
    return [f"{other} has {count} of them" for other, count in most]


def _fill_places(turn: Turn, name: str, supply: Supply) -> None:
    """Put a standby, else a free node, on each empty place."""
    job = turn.jobs[name]
    if not job.vacant:
        return
    may = Nearest(turn, job, _for_a_place(turn, job, supply.free))
    for index in [index for index, node in enumerate(job.places) if not node]:
        job = turn.jobs[name]
        if standby := _best_standby(turn, job, may.left):
            turn.job(name, standbys=tuple(s for s in job.standbys if s != standby))
            exams.leave(turn, standby, but=Purpose.DIAGNOSIS)
            turn.say(f"standby {standby} takes over {job.layout.told(index)} of {name}", name)
        elif standby := may.first(job):
            turn.say(f"free node {standby} takes over {job.layout.told(index)} of {name}", name)
            take(turn, name, [standby])
        else:
            _borrow(turn, job)
            whose = job.layout.told(index)
            turn.wait_for(name, f"there is no node for {whose}, and {_lack(turn, job)}")
            break
        places = turn.jobs[name].places
        turn.places(name, (*places[:index], standby, *places[index + 1 :]))
        may.seated(standby)
        candidates.say_pairs(turn, name, [standby])
    supply.take_out(may.taken)


def _for_a_place(turn: Turn, job: Job, free: list[str]) -> list[str]:
    """A start holds its other nodes meanwhile, which others may need: it tries each node once, and
    not for ever.
    """
    may = fitting(turn, job, free)
    if job.phase is not Phase.ALLOCATING:
        return may
    in_time = turn.now - job.since_s < turn.policy.connect_s
    return untried(job, may) if in_time else []


def _borrow(turn: Turn, job: Job) -> None:
    """Have other jobs' standbys given back, one for each empty place that no node comes for."""
    if job.barred is not None or job.phase is Phase.ALLOCATING:
        return
    for _ in range(job.vacant - len(turn.census.coming(turn.now))):
        if (lent := _lent(turn, job)) is None:
            return
        lender = turn.nodes[lent].job or ""
        turn.say(f"{lender} lends {job.name} its standby {lent}", job.name, lender)
        leave(turn, lent)


def _lack(turn: Turn, job: Job) -> str:
    """Why a place stays empty for now."""
    if job.barred is not None:
        return job.barred.why
    if turn.census.coming(turn.now):
        return "one is on its way"
    return "; ".join(["no node is free", *_barred(turn, job)])


def _lent(turn: Turn, job: Job) -> str | None:
    """The last standby of the job that has the most to spare; None where nobody has any.

    What a job needs for its empty places and for nodes that it has to leave is not to spare.
    """
    lenders = [each for each in turn.jobs.values() if each.name != job.name]
    lenders.sort(key=lambda each: (len(each.standbys) - _needed(each), each.number))
    for lender in reversed(lenders):
        spare = lender.standbys[_needed(lender) :]
        lent = [node for node in spare if fits(Use.BORROW, job, turn.nodes[node], turn.now)]
        if may := fitting(turn, job, lent, Use.BORROW):
            cut_off = candidates.apart_from(turn, job.nodes)
            may = [node for node in may if node not in cut_off] or may
            return (untried(job, may) or may[:1])[-1]
    return None


def _needed(job: Job) -> int:
    """Standbys that take a place soon: in the decision in which a node is left it has an empty
    one, and another job may be served first."""
    return job.vacant + len(job.leaving)


def _best_standby(turn: Turn, job: Job, may: Collection[str]) -> str | None:
    """A standby that is there; first those that passed their self-test, then those that are quiet
    in this epoch already. One that is not tested is better than none; where the job does not want
    it, one of the free nodes that it may have is better."""
    known = unwanted(turn, job)
    own = [turn.nodes[standby] for standby in job.standbys]
    there = [node for node in own if fits(Use.PLACE, job, node, turn.now)]
    if not known.issuperset(may):
        there = [node for node in there if node.name not in known]
    there.sort(key=lambda node: _last(job, node, unwanted=node.name in known))
    return there[0].name if there else None


def _last(job: Job, node: Node, *, unwanted: bool) -> tuple[bool, ...]:
    tested = node.held is not None and node.held.tested
    return unwanted, not ready(node), not tested, not is_quiet(node, job)


def _fill_standbys(turn: Turn, name: str, supply: Supply) -> None:
    job = turn.jobs[name]
    missing = _standbys_wanted(job) - len(job.standbys)
    if missing <= 0 or not job.places or job.vacant:
        return
    standbys = nearest(turn, job, fitting(turn, job, supply.free, Use.STANDBY))[:missing]
    if not standbys:
        return
    supply.take_out(standbys)
    turn.job(name, standbys=(*job.standbys, *standbys))
    stand = "stands" if len(standbys) == 1 else "stand"
    turn.say(f"{', '.join(standbys)} {stand} by for {name}", name)
    take(turn, name, standbys)


def take(turn: Turn, name: str, nodes: Sequence[str]) -> None:
    """Have the cluster give these nodes to the job."""
    by_s = turn.now + turn.policy.connect_s
    for node in nodes:
        if turn.nodes[node].exam is not None:
            exams.leave(turn, node)
        turn.ask_for(node, Promised(job=name, by_s=by_s))
        turn.order(Allocate(job=name, node=node))
    if Timer.CONNECT not in turn.jobs[name].timers:  # else others are due before
        turn.set_timer(name, Timer.CONNECT, turn.policy.connect_s)


def leave(turn: Turn, *nodes: str) -> None:
    """Take the nodes from their jobs, and give them back to the cluster."""
    by_job: dict[str, list[Node]] = {}
    for node in nodes:
        known = turn.nodes[node]
        _release(turn, node)
        if known.job is not None:
            by_job.setdefault(known.job, []).append(known)
    for name, left in by_job.items():
        _without(turn, turn.jobs[name], left)


def _without(turn: Turn, job: Job, left: Sequence[Node]) -> None:
    """The job has these nodes no longer: one change of it, for it may have thousands."""
    gone = {node.name for node in left}
    if not gone.isdisjoint(job.places):
        turn.places(job.name, tuple(["" if node in gone else node for node in job.places]))
    turn.job(
        job.name,
        standbys=_but(job.standbys, gone),
        leaving=_but(job.leaving, gone),
        suspects=_but(job.suspects, gone),
        tally=without_nodes(job.tally, job, left),
    )


def _but(names: tuple[str, ...], gone: set[str]) -> tuple[str, ...]:
    """Those names but for these; the same tuple where none of them is there."""
    return names if gone.isdisjoint(names) else tuple(name for name in names if name not in gone)


def _release(turn: Turn, node: str, forget: str | None = None) -> None:
    if turn.nodes[node].exam is not None:
        exams.leave(turn, node)
    turn.ask_for(node, Returning(forget=forget))
    turn.look_at_silence(node, None)
    turn.object_to(node, Source.EXECUTOR, None)
    turn.order(Release(node=node))


def give_back(turn: Turn, name: str, *, forget: str | None = None) -> None:
    """Take every node from the job."""
    exams.drop(turn, turn.jobs[name].exam)
    for node in turn.jobs[name].members:
        _release(turn, node, forget)
    turn.places(name, ())
    turn.job(
        name,
        standbys=(),
        leaving=(),
        swaps="",
        suspects=(),
        tally=replace(turn.jobs[name].tally, quiet=0, ending=0),
        rendezvous_host="",
        seats=(),
        rendezvous=None,
        exam=None,
    )


def drop_unready(turn: Turn, name: str, nodes: Sequence[str], why: str) -> None:
    """Do without nodes that did not come: no proof against them, so they only rest."""
    if not nodes:
        return
    turn.say(f"{name} does without {', '.join(nodes)}: {why}", name)
    leave(turn, *nodes)
    for node in nodes:
        rest(turn, node, why)
    note(turn, name, *nodes)


def rest(turn: Turn, node: str, why: str) -> None:
    """Let the node be for a while: it failed, and nothing is proved against it."""
    until_s = turn.now + turn.policy.rest_s
    turn.object_to(node, Source.REST, Against(why=why, until_s=until_s))


def drop_unfit(
    turn: Turn,
    name: str,
    nodes: Sequence[str],
    why: str,
    *,
    for_s: float | None = None,
    late: bool = False,
) -> None:
    """Do without nodes that cannot run this job as it is. Other jobs may have them at once."""
    turn.say(f"{name} does without {', '.join(nodes)}: {why}", name)
    leave(turn, *nodes)
    find_unfit(turn, name, dict.fromkeys(nodes, why), for_s=for_s, late=late)


def find_unfit(
    turn: Turn,
    name: str,
    nodes: Mapping[str, str],
    *,
    for_s: float | None = None,
    late: bool = False,
) -> None:
    """Note that these nodes cannot run this job as it is, and why: it has others first. `late`: it
    waited for them.
    """
    if not nodes:
        return
    note(turn, name, *nodes, in_vain=late)
    unfit = dict(turn.jobs[name].unfit)
    for node, why in nodes.items():
        until_s = turn.now + (rest_s(turn, name, node) if for_s is None else for_s)
        unfit[node] = Unfit(until_s=until_s, why=why)
    turn.job(name, unfit=unfit)


def undo_start(turn: Turn, name: str, why: str) -> None:
    """Give all nodes back of a start that is not whole: others may have them meanwhile."""
    give_back(turn, name)
    turn.drop_timers(name, Timer.CONNECT)
    turn.move(name, Phase.PENDING)
    turn.say(f"{name} gives its nodes back: {why}", name)


def drop_start(turn: Turn, name: str, nodes: Sequence[str], why: str) -> None:
    """Do without nodes none of which came: the job may itself be why (its image, a volume), so that
    nobody else does without them. It has others first for a while, then tries other nodes.
    """
    drop_unfit(turn, name, nodes, why, for_s=2 * turn.policy.rest_s)
    turn.job(name, barred=Unfit(until_s=turn.now + turn.policy.rest_s, why=why))


def bar(turn: Turn, name: str, node: str, why: str) -> None:
    """Do without any further node for a while: what hindered this one would hinder every other."""
    turn.say(f"{name} does without {node}: {why}", name)
    leave(turn, node)
    turn.job(name, barred=Unfit(until_s=turn.now + turn.policy.rest_s, why=why))


def ask_again(turn: Turn, name: str) -> None:
    """Let the job have nodes again that could not run it a while ago: much may have changed."""
    job = turn.jobs[name]
    if job.barred is not None and job.barred.until_s <= turn.now:
        turn.job(name, barred=None)
    if any(unfit.until_s <= turn.now for unfit in job.unfit.values()):
        still = {node: unfit for node, unfit in job.unfit.items() if unfit.until_s > turn.now}
        turn.job(name, unfit=still)
