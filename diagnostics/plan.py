"""Which node runs which test with whom. Pure; called by the driver's core.

Must not know what became of a test: that is `verdict`'s. The nodes under test stand in a ring and
every edge of the ring is one all-reduce between neighbours, so each node is tested with two
different partners: in two rounds where the ring is even, in three where it is odd.
"""

from collections.abc import Mapping, Sequence

from holdfast.protocol.messages import DiagnosticOrder, Rendezvous

COMPUTE = "compute"
ALLREDUCE = "allreduce"

COMPUTE_ROUNDS = 2
"""One result alone, which may be a lie, never convicts: the compute test is run twice."""

FIRST_PORT = 23_000
"""Below the range from which Linux picks ports by itself (32768 up)."""

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
) -> dict[str, tuple[DiagnosticOrder, ...]]:
    """The tests of each node, in the order in which it runs them, all ended within `limit_s`.

    `healthy` are nodes nobody suspects; as many as help (two a suspect) are tested along. Give the
    nodes of `verdict.undecided` as suspects again, with those found good as `healthy`, to go on.
    `addresses` has every node; each test of several nodes gets a port of its own from `first_port`
    up, served by its first member. Raises `ValueError` without suspects.
    """
    if not suspects:
        raise ValueError("suspects: empty, there is nothing to diagnose. Name at least one node.")
    nodes = ring(suspects, healthy)
    pairs = rounds(nodes)
    boxes = sum(range(1, len(pairs) + 1)) + COMPUTE_ROUNDS
    box_s = min(LONGEST_BOX_S, limit_s / boxes)
    plan: dict[str, list[DiagnosticOrder]] = {node: [] for node in nodes}
    for node in nodes:
        for turn in range(COMPUTE_ROUNDS):
            plan[node].append(DiagnosticOrder(id=id, test=COMPUTE, round=turn, time_box_s=box_s))
    port = first_port
    for turn, matches in enumerate(pairs):
        for first, second in matches:
            order = DiagnosticOrder(
                id=id,
                test=ALLREDUCE,
                round=turn,
                members=(first, second),
                rendezvous=Rendezvous(address=addresses[first], port=port),
                listen_port=port,
                # A partner may have spent the earlier rounds' boxes on another that is dead.
                time_box_s=box_s * (turn + 1),
            )
            plan[first].append(order)
            plan[second].append(order)
            port += 1
    return {node: tuple(tests) for node, tests in plan.items()}


def alone(*, id: str, node: str, limit_s: float) -> tuple[DiagnosticOrder, ...]:  # noqa: A002
    """The tests of one node with nobody beside it; `verdict.judge_alone` says what they mean."""
    return orders(id=id, suspects=[node], healthy=[], addresses={}, limit_s=limit_s)[node]


def ring(suspects: Sequence[str], healthy: Sequence[str]) -> tuple[str, ...]:
    """The nodes under test, each beside its two partners.

    Two healthy nodes stand together between suspects, as far as they go: their own edge shows that
    they are good, which makes a failure beside them tell. One more makes the ring even, if it can.
    """
    known = set(suspects)
    helpers = [node for node in healthy if node not in known]
    wanted = 2 * len(suspects)
    wanted += (len(suspects) + wanted) % 2
    helpers = helpers[:wanted]
    if (len(suspects) + len(helpers)) % 2 and len(helpers) > 2:
        helpers.pop()
    nodes: list[str] = []
    for suspect in suspects:
        nodes += [suspect, *helpers[:2]]
        del helpers[:2]
    return (*nodes, *helpers)


def rounds(nodes: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """The ring's edges, sorted into rounds in which no node is twice. No round for one node."""
    count = len(nodes)
    if count < 2:
        return ()
    if count == 2:
        return (((nodes[0], nodes[1]),),) * 2
    edges = [(nodes[place], nodes[(place + 1) % count]) for place in range(count)]
    even, odd = edges[0 : count - count % 2 : 2], edges[1::2]
    last = (edges[-1],) if count % 2 else ()
    return tuple(tuple(part) for part in (even, odd, last) if part)
