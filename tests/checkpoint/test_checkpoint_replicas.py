"""Ranks that hold other bytes than their replicas: who is named, and who never is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.checkpoint.manifest import File, Part, ReplicasDiffer, merge
from holdfast.checkpoint.replicas import alike, differing, unlike
from holdfast.protocol.messages import Unlike
from holdfast.protocol.topology import Topology


def parts(*held: dict[str, str], writer: int = 0) -> list[Part]:
    """Of ranks that hold these tensors, by their checksums; one writes for all."""
    size = len(held)
    return [
        Part(
            rank=rank,
            step=20,
            epoch=1,
            world_size=size,
            topology=Topology(dp=size),
            shard=File("shard", 8, "0") if rank == writer else None,
            elsewhere={name: writer for name in tensors if rank != writer},
            replicas=tensors,
        )
        for rank, tensors in enumerate(held)
    ]


BEFORE = ("w", "m")


def told(*held: dict[str, str], writer: int = 0) -> Unlike | None:
    groups = differing(parts(*held, writer=writer))
    return unlike(groups, step=20, before=BEFORE, since=10)


SAME, OTHER = {"w": "1", "m": "2"}, {"w": "9", "m": "2"}


@pytest.mark.parametrize("writer", [0, 1, 2])
@pytest.mark.parametrize("odd", [0, 1, 2])
def test_of_three_the_one_is_named_whoever_writes(odd: int, writer: int) -> None:
    held = [OTHER if rank == odd else SAME for rank in range(3)]
    found = told(*held, writer=writer)
    assert found == Unlike(step=20, since=10, tensor="w", ranks=(0, 1, 2), odd=odd)


def test_of_two_neither_is() -> None:
    assert told(SAME, OTHER) == Unlike(step=20, since=10, tensor="w", ranks=(0, 1))


def test_several_tensors_of_one_rank_are_one_fault() -> None:
    found = told(SAME, {"w": "9", "m": "8"}, SAME)
    assert found is not None
    assert (found.odd, found.tensors) == (1, 2)


HEALTHY = {
    "all differ, as statistics that each has of its own data": ({"w": "1"}, {"w": "2"}, {"w": "3"}),
    "halves that differ, as of two kinds of processors": (SAME, SAME, OTHER, OTHER),
    "two of five": (SAME, SAME, SAME, OTHER, OTHER),
    "another one for each tensor": (SAME, OTHER, {"w": "1", "m": "8"}),
    "a tensor that never was the same": ({"w": "1", "x": "1"}, {"w": "1", "x": "1"}, {"x": "2"}),
    "it alone, though others were": (SAME | {"x": "1"}, SAME | {"x": "1"}, OTHER | {"x": "2"}),
    "one whose agent tells no checksums": (SAME, SAME, {}),
    "all the same": (SAME, SAME, SAME),
}


@pytest.mark.parametrize("held", HEALTHY.values(), ids=HEALTHY.keys())
def test_nobody_is_accused_of(held: tuple[dict[str, str], ...]) -> None:
    assert told(*held) is None


def test_a_writer_whose_agent_tells_no_checksums_is_not_named() -> None:
    groups = differing(parts({}, {"w": "1"}, {"w": "1"}))
    assert groups
    assert unlike(groups, step=20, before=BEFORE, since=10) is None


def test_what_differs_is_no_checkpoint_and_says_of_whom() -> None:
    with pytest.raises(
        ReplicasDiffer, match="'w' is declared the same on ranks 0 and 2"
    ) as refused:
        merge("job", parts(SAME, SAME, OTHER, writer=0))
    assert [group.odd for group in refused.value.groups] == [2]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=7), st.integers(0, 6))
def test_whoever_is_named_is_the_only_one_of_three_or_more(held: list[str], writer: int) -> None:
    some = [{"w": digest} for digest in held]
    found = told(*some, writer=writer % len(held))
    if found and found.odd is not None:
        others = {digest for rank, digest in enumerate(held) if rank != found.odd}
        assert len(held) >= 3
        assert len(others) == 1
        assert held[found.odd] not in others
    elif found:
        assert len(held) == 2
        assert len({*held}) == 2


def test_of_one_tensor_each_part_is_compared_with_who_writes_that_part() -> None:
    held = parts({"w": "1"}, {"w": "1"}, {"w": "9"}, {"w": "9"})
    halves = [*held[:2], replace(held[2], elsewhere={}), replace(held[3], elsewhere={"w": 2})]
    assert differing(halves) == []


def test_what_is_compared_is_what_was_declared() -> None:
    assert alike(parts({"w": "1"}, {"w": "1", "m": "2"})) == {"w", "m"}


# ---------------------------------------------------------------- with a real agent


@pytest.fixture
def three(tmp_path: Path):  # type: ignore[no-untyped-def]
    pytest.importorskip("torch")
    from checkpoint_agent import AgentProcess
    from checkpoint_job import Job

    job, agent = Job(tmp_path, 3), AgentProcess()
    agent.give(job.order(0, 1, 2))
    yield job, agent
    agent.close()


def save(job, step: int, *, flipped: int | None = None, own: float = 0.0) -> None:  # type: ignore[no-untyped-def]
    import torch

    from holdfast.checkpoint.checkpointer import Checkpointer

    for rank in range(3):
        w = torch.full((1_000,), float(step))
        if rank == flipped:
            w[7:8].view(torch.int32).bitwise_xor_(1)
        state = {
            "model": {"w": w, "mean": torch.full((9,), own * rank)},
            "own": torch.tensor([float(rank)]),
        }
        checkpointer = Checkpointer(job.checkpointer(rank)._settings, replicated=["model"])
        assert checkpointer.save(step, state)


@pytest.mark.torch
def test_a_bit_that_flips_in_one_replica_names_its_rank(three) -> None:  # type: ignore[no-untyped-def]
    job, agent = three
    save(job, 10)
    assert agent.until(lambda report: report.persisted_step == 10, "committed").unlike is None
    save(job, 20, flipped=2)
    report = agent.until(lambda report: report.unlike, "it is told")
    assert report.unlike == Unlike(step=20, since=10, tensor="model.w", ranks=(0, 1, 2), odd=2)
    assert report.skipped_saves == 1
    assert len(job.whole()) == 1
    save(job, 30, flipped=1)
    later = agent.until(lambda report: report.skipped_saves == 2, "nor is the next")
    assert later.unlike == report.unlike, "the first is the one that tells"


@pytest.mark.torch
def test_what_never_was_the_same_accuses_nobody(three) -> None:  # type: ignore[no-untyped-def]
    job, agent = three
    save(job, 10, own=1.0)
    agent.until(lambda report: report.skipped_saves == 1, "not committed")
    save(job, 20, flipped=2)
    report = agent.until(lambda report: report.skipped_saves == 2, "nor is the next")
    assert report.unlike is None, "nothing is known of before"
