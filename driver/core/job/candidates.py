"""Which free nodes a job may be given, whose turn it is, which are near each other, and which could
not reach each other.

Called by `allocation`, and with pairs by the recovery and by tests of nodes. Pure. No node is asked
for again before every other that may be had was: a job remembers, in order, which ones it had to do
without, until it runs. Ranks talk all the time, and best within a rack; one that nobody named is a
rack like any other.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from holdfast.driver.core.evidence import book
from holdfast.driver.core.state.fact import About, Bearing, Fact, OfLink, OfNode
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Fault, Job, Tried
from holdfast.driver.core.turn import Turn


class Supply:
    """What one turn has to give out to all who wait: `free`, those that are left."""

    def __init__(self, turn: Turn) -> None:
        self.free = turn.census.free(turn.now)

    def take_out(self, nodes: Iterable[str]) -> None:
        taken = set(nodes)
        self.free = [node for node in self.free if node not in taken]


def fitting(turn: Turn, job: Job, free: list[str], use: Use = Use.PLACE) -> list[str]:
    """Those of the free nodes that did not lately prove unable to run this job; first those that
    it never had to do without, as they came, then the others, longest ago first.
    """
    if job.barred is not None and job.barred.until_s > turn.now:
        return []
    if not (job.unfit or job.tried):
        return list(free)
    nodes, now = turn.nodes, turn.now
    may = [node for node in free if node not in job.unfit or fits(use, job, nodes[node], now)]
    return sorted(may, key=lambda node: job.tried[node].at if node in job.tried else 0)


def untried(job: Job, nodes: list[str]) -> list[str]:
    """Those that the job did not have to do without since it ran last."""
    return [node for node in nodes if node not in job.tried]


def of_a_start(turn: Turn, job: Job, fit: list[str]) -> list[str]:
    """So many as the job has places, that can meet if so many can; near each other where that
    leaves nobody's turn out.
    """
    meet = meeting(turn, fit)
    new = untried(job, meet)
    if len(new) >= job.layout.nodes:
        return together(turn, new, job.layout.nodes)
    known = set(meet)
    return [*meet, *(node for node in fit if node not in known)][: job.layout.nodes]


def nearest(turn: Turn, job: Job, fit: list[str]) -> list[str]:
    """Those whose turn it is, first those that are near the job's own; then the others; then those
    that it has moved off, and last those that cannot reach one of its own.
    """
    if not fit:
        return []
    new, known = untried(job, fit), moved_off(turn, job)
    cut_off = apart_from(turn, job.nodes)
    in_turn = near(turn, job, new) + fit[len(new) :]
    if not (known or cut_off):
        return in_turn
    return sorted(in_turn, key=lambda node: (node in cut_off, node in known))


class Nearest:
    """The free nodes that a job may have, for one of its places after the other: each time the
    first of `nearest`, without a look along all of them. `taken`: those that were."""

    def __init__(self, turn: Turn, job: Job, fit: list[str]) -> None:
        self._turn = turn
        self.left = dict.fromkeys(fit)
        self.taken: list[str] = []
        self._own = Counter(turn.nodes[node].rack for node in job.nodes)
        self._racks: dict[str, list[tuple[int, str]]] = {}  # the first of each stands last
        for number, node in reversed(list(enumerate(untried(job, fit)))):
            self._racks.setdefault(turn.nodes[node].rack, []).append((number, node))

    def first(self, job: Job) -> str | None:
        """None where there is none."""
        if not self.left:
            return None
        return (
            self._beside(unwanted(self._turn, job)) or nearest(self._turn, job, list(self.left))[0]
        )

    def seated(self, node: str) -> None:
        """It has a place now, whether it was one of these or not."""
        self._own[self._turn.nodes[node].rack] += 1
        if node in self.left:
            del self.left[node]
            self.taken.append(node)

    def _beside(self, others: frozenset[str]) -> str | None:
        """Of those whose turn it is, but for these, the first in whose rack the job has most."""
        firsts: list[tuple[int, int, str]] = []
        for rack, nodes in self._racks.items():
            while nodes and (nodes[-1][1] in others or nodes[-1][1] not in self.left):
                nodes.pop()
            firsts += [(-self._own[rack], *nodes[-1])] if nodes else []
        return min(firsts)[2] if firsts else None


def moved_off(turn: Turn, job: Job) -> frozenset[str]:
    """Nodes that it left lately without proof against them, see `move_on_suspicion`."""
    left = book.moved_off(job.facts, turn.now)
    return frozenset(each.name for each in left if not _void(turn, each))


def _void(turn: Turn, left: OfNode) -> bool:
    """Whether another machine has its name, or people have cleared it since."""
    node = turn.nodes.get(left.name)
    return node is not None and node.subject != left


def unwanted(turn: Turn, job: Job, *, without: str = "") -> frozenset[str]:
    """Nodes that no place of it moves to: it has moved off them, or they cannot reach its others.
    `without`: the node of that place.
    """
    others = [node for node in job.nodes if node != without]
    return moved_off(turn, job) | apart_from(turn, others)


def note(turn: Turn, job: str, *nodes: str, in_vain: bool = False) -> None:
    """The job did without these nodes now: it is the turn of all others first. `in_vain`: it waited
    for them, as long as the cluster tries.
    """
    known = {node: tried for node, tried in turn.jobs[job].tried.items() if node in turn.nodes}
    for node in nodes:
        waits = (known[node].waits if node in known else 0) + in_vain
        known[node] = Tried(at=turn.sequence, waits=waits)
    turn.job(job, tried=known)


def rest_s(turn: Turn, job: str, node: str) -> float:
    """Until the job may ask for the node again: twice as long after each wait in vain, so that two
    jobs do not for ever hold what the other lacks, each while it waits for a node that is full.
    """
    tried = turn.jobs[job].tried.get(node)
    doubled = turn.policy.rest_s * 2 ** max(0, tried.waits - 1) if tried else turn.policy.rest_s
    return min(doubled, turn.policy.refused_longest_s)


def forget(turn: Turn, name: str) -> None:
    """The job runs: what it had to do without before says little of the next time."""
    job = turn.jobs[name]
    still = {node: at for node, at in job.tried.items() if node in job.unfit}
    if still != job.tried:
        turn.job(name, tried=still)


def together(turn: Turn, nodes: Sequence[str], count: int) -> list[str]:
    """So many of the nodes in few racks: the smallest rack that has all, else the largest first."""
    racks: dict[str, list[str]] = {}
    for node in nodes:
        racks.setdefault(turn.nodes[node].rack, []).append(node)
    whole = [rack for rack in racks.values() if len(rack) >= count]
    if whole:
        return min(whole, key=len)[:count]
    largest_first = sorted(racks.values(), key=len, reverse=True)
    return [node for rack in largest_first for node in rack][:count]


def near(turn: Turn, job: Job, nodes: Sequence[str]) -> list[str]:
    """The nodes, those first in whose rack the job has most of its own; else as they came."""
    own = Counter(turn.nodes[node].rack for node in job.nodes)
    racks = [turn.nodes[node].rack for node in nodes]
    beside = [own[rack] for rack in racks]
    return [nodes[k] for k in sorted(range(len(nodes)), key=beside.__getitem__, reverse=True)]


# ---------------------------------------------------------------- pairs that cannot meet
#
# Each of the two could be reached by others. It is a fact of the link, nothing against either node,
# and of no one job: the next one would stand still there as well. It is a preference: where no
# other node is free the two are seated together, and that is said.


def note_pair(
    turn: Turn,
    two: Collection[str],
    fact: str,
    bearing: Bearing,
    about: About,
    *,
    one_way: bool = False,
) -> None:
    """The first could not reach the second now, nor, but for `one_way`, the second the first."""
    known = [turn.nodes[each].subject for each in two if each in turn.nodes]
    ways = [known] if one_way else [known, known[::-1]]
    for source, target in ways if len(known) == 2 else ():
        link = OfLink(source=source, target=target)
        _add_pair(turn, Fact(subject=link, what=fact, bearing=bearing, about=about))


def _add_pair(turn: Turn, fact: Fact) -> None:
    """The newest of the same words stands: a pair that is told of again and again, for its job has
    no other nodes, displaces no other pair."""
    again = (fact.subject, fact.what, fact.about, fact.by)
    others = (x for x in turn.facts if (x.subject, x.what, x.about, x.by) != again)
    turn.put_facts(others)
    turn.add_fact(fact)


def meeting(turn: Turn, nodes: list[str]) -> list[str]:
    """Those of the nodes that can all meet, as far as is known, in their order. Left out is who is
    in most of the pairs; of two in as many the later one.
    """
    place = {node: k for k, node in enumerate(nodes)}
    out: set[str] = set()
    while left := [pair for pair in pairs_among(turn, place) if out.isdisjoint(pair)]:
        often = Counter(node for pair in left for node in pair)
        out.add(max(often, key=lambda node: (often[node], place[node])))
    return [node for node in nodes if node not in out]


def apart_from(turn: Turn, nodes: Iterable[str]) -> frozenset[str]:
    """Who could not reach one of these, or be reached by it."""
    known = set(nodes) if turn.apart else ()
    ends = (pair for two in turn.apart for pair in (two, two[::-1]))
    return frozenset(second for first, second in ends if first in known)


def pairs_among(turn: Turn, nodes: Collection[str]) -> list[tuple[str, str]]:
    """The pairs both of whose nodes are among these."""
    return [pair for pair in turn.apart if pair[0] in nodes and pair[1] in nodes]


def cut_off(turn: Turn, job: Job, fault: Fault) -> tuple[str, ...]:
    """Two of its nodes that cannot reach each other: the fault says so, or it names nobody and that
    was found before; () where there are none.
    """
    known = pairs_among(turn, job.nodes) if fault.node is None else []
    told = [fault.apart] if set(fault.apart) <= set(job.nodes) else []
    return next(filter(None, [*told, *known]), ())


def say_pairs(turn: Turn, name: str, nodes: Collection[str]) -> None:
    """Say which pairs the job has got with these nodes: there was no other choice."""
    for first, second in pairs_among(turn, turn.jobs[name].nodes):
        if first in nodes or second in nodes:
            told = f"{first} and {second} could not reach each other lately"
            turn.say(f"{told}, and no other node is free for {name}", name)
