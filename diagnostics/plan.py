"""Which node runs which test with whom. Pure; called by the driver's core.

Must not know what became of a test: that is `verdict`'s. The nodes under test stand in a circle and
every edge of it is one run of each test of two, so each node is tested with two different
partners: in two rounds where the circle is even, in three where it is odd.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, count

from holdfast.diagnostics.registry import Test, tests_of
from holdfast.protocol.messages import DiagnosticOrder, Rendezvous

FIRST_PORT = 23_000
"""Below the range from which Linux picks ports by itself (32768 up)."""

Rounds = tuple[tuple[tuple[str, str], ...], ...]
"""Pairs, by the round in which they run."""

MOST_AGAIN = 3
"""Rounds of pairs that are tried once more: enough for all edges of one circle."""

LONGEST_BOX_S = 5.0
"""A healthy pair on a 100 Mbit/s link needs 1.9 s for five all-reduces of 4 MB and their start."""


def orders(
    *,
    id: str,  # noqa: A002 - the name that the message has for it
    suspects: Sequence[str],
    healthy: Sequence[str],
    addresses: Mapping[str, str],
    first_port: int = FIRST_PORT,
    limit_s: float = 60.0,
    again: Sequence[tuple[str, str]] = (),
    thorough: bool = False,
) -> dict[str, tuple[DiagnosticOrder, ...]]:
    """The tests of each node, in the order in which it runs them, all ended within `limit_s`.

    `healthy` are nodes nobody suspects; as many as help (two a suspect) are tested along. Give the
    nodes of `verdict.undecided` as suspects again, with those found good as `healthy`, to go on.
    `again`: pairs of them that are tried once more. `thorough`: with all tests. `addresses` has
    every node; each test of several nodes gets a port of its own, of its address, from
    `first_port` up, served by its first member. Raises `ValueError` without suspects.
    """
    if not suspects:
        raise ValueError("suspects: empty, there is nothing to diagnose. Name at least one node.")
    nodes = circle(suspects, healthy)
    pairs = rounds(nodes) + (_diagonals(nodes) if thorough else ())
    pairs += _apart([two for two in again if set(two) <= set(nodes)])
    box_s = min(LONGEST_BOX_S, limit_s / _boxes(len(pairs), thorough=thorough))
    alike = tuple(_each_alone(id, box_s, thorough=thorough))
    plan = {node: [*alike] for node in nodes}
    for order in _in_pairs(id, pairs, addresses, first_port, box_s, thorough=thorough):
        for member in order.members:
            plan[member].append(order)
    return {node: tuple(tests) for node, tests in plan.items()}


def _apart(pairs: Sequence[tuple[str, str]]) -> Rounds:
    """Pairs in so few rounds that no node is twice in one; those beyond `MOST_AGAIN` are left."""
    found: list[list[tuple[str, str]]] = []
    for two in pairs:
        free = (each for each in found if set(two).isdisjoint(name for run in each for name in run))
        if (first := next(free, None)) is not None:
            first.append(two)
        elif len(found) < MOST_AGAIN:
            found.append([two])
    return tuple(map(tuple, found))


def _each_alone(exam: str, box_s: float, *, thorough: bool) -> Iterator[DiagnosticOrder]:
    """What every node runs by itself."""
    for test in tests_of(1, thorough=thorough):
        for turn in range(_times(test, thorough=thorough)):
            time_box_s = box_s * test.cost
            yield DiagnosticOrder(id=exam, test=test.name, round=turn, time_box_s=time_box_s)


def _times(test: Test, *, thorough: bool) -> int:
    """How often a node runs it by itself: of very many some are convicted by lies that agree."""
    return test.rounds + thorough


def _in_pairs(
    exam: str,
    pairs: Rounds,
    addresses: Mapping[str, str],
    first_port: int,
    box_s: float,
    *,
    thorough: bool,
) -> Iterator[DiagnosticOrder]:
    """What two run together, in the order of their rounds."""
    ports: dict[str, Iterator[int]] = defaultdict(lambda: count(first_port))
    boxes = 0.0
    for test in tests_of(2, thorough=thorough):
        for turn, runs in enumerate(pairs * test.rounds):
            # A partner may have spent the earlier rounds' boxes on another that is dead.
            boxes += test.cost
            for members in runs:
                address = addresses[members[0]]
                port = next(ports[address])
                yield DiagnosticOrder(
                    id=exam,
                    test=test.name,
                    round=turn,
                    members=members,
                    rendezvous=Rendezvous(address=address, port=port),
                    listen_port=port,
                    time_box_s=box_s * boxes,
                )


def _boxes(pair_rounds: int, *, thorough: bool) -> float:
    """How many time boxes share out the limit; see `orders` on why later rounds take more."""
    found = tests_of(1, thorough=thorough)
    single = sum(test.cost * _times(test, thorough=thorough) for test in found)
    found = tests_of(2, thorough=thorough)
    pairs = [test.cost for test in found for _ in range(pair_rounds * test.rounds)]
    return single + sum(accumulate(pairs))


def alone(
    *,
    id: str,  # noqa: A002
    node: str,
    limit_s: float,
    thorough: bool = False,
) -> tuple[DiagnosticOrder, ...]:
    """The tests of one node with nobody beside it; `verdict.judge_alone` says what they mean."""
    found = orders(
        id=id, suspects=[node], healthy=[], addresses={}, limit_s=limit_s, thorough=thorough
    )
    return found[node]


def circle(suspects: Sequence[str], healthy: Sequence[str]) -> tuple[str, ...]:
    """The nodes under test, each beside its two partners.

    Two healthy nodes stand together between suspects, as far as they go: their own edge shows that
    they are good, which makes a failure beside them tell. One more makes it even, if it can.
    """
    helpers = list(partners(suspects, healthy))
    nodes: list[str] = []
    for suspect in suspects:
        nodes += [suspect, *helpers[:2]]
        del helpers[:2]
    return (*nodes, *helpers)


def partners(
    subjects: Collection[str], healthy: Sequence[str], before: Collection[str] = ()
) -> tuple[str, ...]:
    """Which of the healthy help, as they are sorted, but those in `before` last: a second failure
    tells more beside nodes that were not there at the first.
    """
    known, met = set(subjects), set(before)
    helpers = [node for node in healthy if node not in known]
    helpers.sort(key=met.__contains__)
    wanted = 2 * len(subjects)
    wanted += (len(subjects) + wanted) % 2
    helpers = helpers[:wanted]
    if (len(subjects) + len(helpers)) % 2 and len(helpers) > 2:
        helpers.pop()
    return tuple(helpers)


def rounds(nodes: Sequence[str]) -> Rounds:
    """Its edges, sorted into rounds in which no node is twice. No round for one node."""
    size = len(nodes)
    if size < 2:
        return ()
    if size == 2:
        return (((nodes[0], nodes[1]),),) * 2
    edges = [(nodes[place], nodes[(place + 1) % size]) for place in range(size)]
    even, odd = edges[0 : size - size % 2 : 2], edges[1::2]
    last = (edges[-1],) if size % 2 else ()
    return tuple(tuple(part) for part in (even, odd, last) if part)


def _diagonals(nodes: Sequence[str]) -> Rounds:
    """Of four: two bad ones that stand apart are on every edge, and all would be as slow. (Not
    where a job waits: who fails there is tested again beside somebody that it has not met.)"""
    return (((nodes[0], nodes[2]), (nodes[1], nodes[3])),) if len(nodes) == 4 else ()
