"""How far a store is with a job's last step: the whole of it, now and then, whoever reports."""

import itertools
from typing import Any

from holdfast.driver.core.events import SaveProgressed
from holdfast.driver.watch import Watch
from holdfast.driver.watch.last_step_progress import EVERY_S
from holdfast.protocol.messages import Observed

NODES = 200
REPORT_S = 5.0
"""Between two reports of a node."""


class Stores:
    """Nodes of a job whose agents report one after the other."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.now = 100.0
        self.said: list[tuple[float, int]] = []

    def report(self, node: int, taken_bytes: int, **fields: Any) -> None:
        self.watch.tick(self.now)
        seen = Observed(
            node=f"n{node}",
            incarnation="a",
            sequence=1,
            generation=1,
            saved_bytes=taken_bytes,
            **{"job": "speech", "epoch": 3, **fields},
        )
        for event in self.watch.observed(seen):
            assert isinstance(event, SaveProgressed)
            assert (event.job, event.epoch) == (seen.job, seen.epoch)
            self.said.append((self.now, event.taken_bytes))

    def round(self, taken_bytes: int) -> None:
        """All of them, once."""
        for node in range(NODES):
            self.now += REPORT_S / NODES
            self.report(node, taken_bytes)


def test_what_all_nodes_have_is_said_at_once_and_then_every_few_seconds() -> None:
    stores = Stores()
    for turn in range(1, 21):
        stores.round(turn * 1_000)
    times = [at for at, _ in stores.said]
    assert len(times) == 20 * REPORT_S / EVERY_S
    assert min(b - a for a, b in itertools.pairwise(times)) >= EVERY_S
    assert stores.said[0][1] == 1_000, "of the first node"
    for at, taken in stores.said[1:]:
        rounds = (at - 100.0) / REPORT_S
        assert abs(taken - rounds * NODES * 1_000) <= 2_000, "the sum of all, as it was then"


def test_what_a_store_refused_after_all_takes_nothing_back_from_what_was_said() -> None:
    stores = Stores()
    stores.report(0, 500)
    stores.now += 60
    stores.report(0, 100)
    stores.report(1, 50)
    assert stores.said[1:] == [(stores.now, 550)]
    stores.now += 60
    stores.report(0, 500)
    assert len(stores.said) == 2, "it is where it was"
    stores.report(0, 600)
    assert [taken for _, taken in stores.said] == [500, 550, 650]


def test_nothing_is_said_where_no_more_was_taken_and_an_attempt_begins_at_nothing() -> None:
    stores = Stores()
    stores.report(0, 500)
    stores.now += 60
    stores.report(0, 500)
    stores.report(1, 0)
    assert len(stores.said) == 1
    stores.report(1, 400)
    stores.report(0, 30, epoch=4)
    stores.report(1, 600, epoch=3)
    stores.report(0, 70, job="vision")
    assert [taken for _, taken in stores.said] == [500, 900, 30, 70]
