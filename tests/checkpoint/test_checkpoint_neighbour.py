"""Each node leaves a token in the store, and looks for its neighbour's. In virtual time."""

from pathlib import Path

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.neighbour import LATE_S, neighbour
from holdfast.kit.clock import SystemClock


class Virtual(SystemClock):
    now = 0.0

    def monotonic_s(self) -> float:
        return self.now


def order(root: Path, *ranks: int, world_size: int = 6, epoch: int = 1) -> AgentOrder:
    return AgentOrder(
        id=1,
        job="job",
        epoch=epoch,
        ranks=ranks,
        world_size=world_size,
        store_url=f"file://{root}",
        store_interval_steps=10,
    )


def after(clock: Virtual, looked_s: float, *ring) -> list[bool | None]:
    """What each of them knows after so many seconds of looking."""
    for _ in range(int(looked_s)):
        clock.now += 1
        for one in ring:
            one.advance()
    return [one.seen for one in ring]


def nodes(clock: Virtual, *roots: Path, epoch: int = 1):
    return [
        neighbour(order(root, 2 * k, 2 * k + 1, epoch=epoch), clock) for k, root in enumerate(roots)
    ]


def test_nodes_of_one_store_see_each_other_and_leave_one_token_each(tmp_path: Path) -> None:
    clock = Virtual()
    for epoch in (1, 2):
        ring = nodes(clock, *[tmp_path] * 3, epoch=epoch)
        assert after(clock, 5, *ring) == [True, True, True]
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "rank-00000",
        "rank-00002",
        "rank-00004",
    ]


def test_who_has_another_folder_is_found_but_not_before_a_slow_store_had_its_time(
    tmp_path: Path,
) -> None:
    clock = Virtual()
    ring = nodes(clock, tmp_path / "a", tmp_path / "a", tmp_path / "b")
    assert after(clock, LATE_S, *ring) == [None, True, None]
    assert after(clock, 2 * LATE_S, *ring) == [False, True, False]
    assert ring[2].missing == f"what the node of rank 2 left in file://{tmp_path}/b"
    (tmp_path / "b" / "nodes" / "rank-00002").write_text("1")
    assert after(clock, LATE_S, *ring)[2] is True
    assert ring[2].missing == ""


def test_what_an_earlier_attempt_left_is_not_taken_for_the_neighbours(tmp_path: Path) -> None:
    clock = Virtual()
    after(clock, 5, *nodes(clock, *[tmp_path] * 3, epoch=1))
    alone = nodes(clock, *[tmp_path] * 3, epoch=2)[:1]
    assert after(clock, 3 * LATE_S, *alone) == [False]


def test_a_store_that_fails_is_nothing_to_stop_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    clock = Virtual()
    assert after(clock, 3 * LATE_S, *nodes(clock, *[tmp_path / "file"] * 3)) == [None] * 3


def test_a_job_on_one_node_leaves_none(tmp_path: Path) -> None:
    assert neighbour(order(tmp_path, 0, 1, world_size=2), Virtual()) is None
