"""A job's attempts, told from the journal's entries alone."""

from msgspec.structs import replace

from holdfast.driver.adapters.rest.attempts import attempts_of
from holdfast.driver.core.effects import AnyEffect, Instruct
from holdfast.driver.core.events import Ticked
from holdfast.driver.core.state.model import Attempt
from holdfast.driver.ports import Entry
from holdfast.protocol.messages import Desired, Restore, Seat


def order(attempt: int, *, seats: bool, step: int | None = None) -> Instruct:
    where = Seat(rank=0, local_rank=0, node=f"node-{attempt}", address="127.0.0.1")
    desired = Desired(
        node=where.node,
        generation=1,
        term=1,
        epoch=attempt,
        job="speech",
        attempt=attempt,
        seats=(where,) if seats else (),
        restore=None if step is None else Restore(source="memory", step=step, epoch=1),
    )
    return Instruct(desired=desired)


def entry(sequence: int, why: str, *effects: AnyEffect) -> Entry:
    at = f"2026-01-01T00:00:0{sequence}"
    return Entry(
        sequence=sequence,
        term=1,
        now=float(sequence),
        at=at,
        policy=1,
        event=Ticked(),
        effects=effects,
        why=why,
    )


def test_an_attempt_lasts_from_its_seats_to_the_next_order_without() -> None:
    told = attempts_of(
        "speech",
        [
            entry(1, "gets node-1", order(1, seats=False)),
            entry(2, "starts", order(1, seats=True)),
            entry(3, "rank 0 died", order(1, seats=False)),
            entry(4, "starts again", order(2, seats=True, step=310)),
        ],
        [Attempt(epoch=2, number=2, version=3, layout=4)],
    )
    assert [(each.attempt, each.nodes, each.source, each.step) for each in told] == [
        (1, ["node-1"], "beginning", 0),
        (2, ["node-2"], "memory", 310),
    ]
    assert [(each.version, each.layout) for each in told] == [(1, 0), (3, 4)]
    assert (told[0].ended[-1], told[0].why) == ("3", "rank 0 died")
    assert told[1].ended == ""


def test_what_a_standby_is_told_ends_no_attempt() -> None:
    test_itself = order(9, seats=False)
    (told,) = attempts_of(
        "speech", [entry(1, "starts", order(1, seats=True)), entry(2, "runs", test_itself)], []
    )
    assert told.ended == ""


def test_the_nodes_of_an_attempt_are_those_of_all_its_orders_in_rank_order() -> None:
    seats = [Seat(rank=r, local_rank=0, node=f"n{r}", address="127.0.0.1") for r in (2, 0, 1)]
    parts = [order(1, seats=True).desired for _ in seats]
    orders = [
        Instruct(desired=replace(part, node=seat.node, seats=(seat,)))
        for part, seat in zip(parts, seats, strict=True)
    ]
    (told,) = attempts_of("speech", [entry(1, "starts", *orders)], [])
    assert told.nodes == ["n0", "n1", "n2"]
