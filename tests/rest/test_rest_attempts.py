"""A job's attempts, told from the journal's entries alone."""

from holdfast.driver.adapters.rest.attempts import attempts_of
from holdfast.driver.core.effects import AnyEffect, Instruct
from holdfast.driver.core.events import Ticked
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
            entry(3, "rank 0 died", order(2, seats=False)),
            entry(4, "starts again", order(2, seats=True, step=310)),
        ],
    )
    assert [(each.attempt, each.nodes, each.source, each.step) for each in told] == [
        (1, ["node-1"], "beginning", 0),
        (2, ["node-2"], "memory", 310),
    ]
    assert (told[0].ended[-1], told[0].why) == ("3", "rank 0 died")
    assert told[1].ended == ""
