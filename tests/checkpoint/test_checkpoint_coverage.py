"""The shards of a tensor that a manifest tells of are the whole of it, or it is refused."""

import itertools
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint.checked import encode as checked
from holdfast.checkpoint.coverage import Box, Place, first_wrong, wrong
from holdfast.checkpoint.layout import shard_name
from holdfast.checkpoint.manifest import BadManifest, File, Manifest, Part, decode_manifest, merge
from holdfast.protocol.topology import Axis, Topology

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@st.composite
def any_boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Box]]:
    """A small whole, and boxes anywhere in it: overlapping, missing some, empty, alike."""
    whole = draw(shapes)
    side = [st.lists(st.integers(0, size), min_size=2, max_size=2).map(sorted) for size in whole]
    return whole, draw(st.lists(st.tuples(*(s.map(tuple) for s in side)), max_size=6))


@st.composite
def tiled(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Box]]:
    """A whole that is cut again and again, unevenly: what shards of a mesh are."""
    whole = draw(shapes)
    boxes = [tuple((0, size) for size in whole)]
    for _ in range(draw(st.integers(0, 6)) if whole else 0):
        box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axis = draw(st.integers(0, len(whole) - 1))
        begin, end = box[axis]
        cut = draw(st.integers(begin, end))
        boxes += [(*box[:axis], side, *box[axis + 1 :]) for side in ((begin, cut), (cut, end))]
    return whole, boxes


def places(whole: tuple[int, ...], boxes: list[Box]) -> dict[int, Place]:
    return {
        rank: Place(whole, tuple(b for b, _ in box), tuple(e - b for b, e in box))
        for rank, box in enumerate(boxes)
    }


def counted(whole: tuple[int, ...], boxes: set[Box]) -> dict[tuple[int, ...], int]:
    """How often each element is covered, element by element."""
    return {
        at: sum(all(b <= i < e for (b, e), i in zip(box, at, strict=True)) for box in boxes)
        for at in itertools.product(*map(range, whole))
    }


@given(any_boxes())
def test_the_first_element_that_is_not_covered_once_is_found(found) -> None:
    whole, boxes = found
    full = {box for box in boxes if all(b < e for b, e in box)}
    counts = counted(whole, full)
    bad = [(at, times - 1) for at, times in counts.items() if times != 1]
    if 0 not in whole:
        assert first_wrong(whole, dict.fromkeys(full)) == (bad[0] if bad else None)
    told = wrong("w", places(whole, boxes))
    each_has_all = all(place.shape == whole for place in places(whole, boxes).values())
    assert bool(told) == (bool(bad) and not each_has_all)


@given(tiled(), st.data())
def test_what_is_cut_into_shards_is_whole_and_is_not_without_one_of_them(found, data) -> None:
    whole, boxes = found
    assert wrong("w", places(whole, boxes)) == ""
    again = [*boxes, data.draw(st.sampled_from(boxes))]
    assert wrong("w", places(whole, again)) == "", "a replica that nobody declared"
    full = [box for box in boxes if all(b < e for b, e in box)]
    if len(full) > 1:
        lost = data.draw(st.sampled_from(full))
        assert "no shard has" in wrong("w", places(whole, [box for box in boxes if box != lost]))


@pytest.mark.parametrize(
    ("grid", "whole"),
    [((10_000,), (10_007,)), ((100, 100), (1_000, 1_003)), ((10, 10, 10, 10), (20, 21, 22, 23))],
)
def test_ten_thousand_shards_take_no_time(grid: tuple[int, ...], whole: tuple[int, ...]) -> None:
    cuts = [
        [size * k // parts for k in range(parts + 1)]
        for parts, size in zip(grid, whole, strict=True)
    ]
    boxes = list(itertools.product(*(list(itertools.pairwise(cut)) for cut in cuts)))
    held = places(whole, boxes)
    began_s = perf_counter()
    assert wrong("w", held) == ""
    assert "no shard has" in wrong("w", dict(list(held.items())[:-1]))
    assert perf_counter() - began_s < 10


# ---------------------------------------------------------------- in manifests


def parts(topology: Topology, placed: dict[int, Place]) -> list[Part]:
    world = topology.world_size
    return [
        Part(
            rank=rank,
            step=5,
            epoch=1,
            world_size=world,
            topology=topology,
            shard=File(shard_name(rank, world), 1, "0"),
            places={"model.w": placed[rank]} if rank in placed else {},
        )
        for rank in range(world)
    ]


def rows(*sides: tuple[int, int], of: int = 8) -> dict[int, Place]:
    return {rank: Place((of, 3), (b, 0), (e - b, 3)) for rank, (b, e) in enumerate(sides)}


FIRST, SECOND = (shard_name(rank, 2) for rank in range(2))


@pytest.mark.parametrize(
    ("placed", "why"),
    [
        (
            rows((0, 5), (4, 8)),
            f"'model.w': the shard of rank 0 in {FIRST} is [0:5, 0:3] of [8, 3], and the shard of "
            f"rank 1 in {SECOND} is [4:8, 0:3] of [8, 3]: they overlap. Correct `shards` in "
            "the script",
        ),
        (
            rows((0, 3), (4, 8)),
            "'model.w': no shard has the element at [3, 0] of [8, 3]: the shard of rank 0 in "
            f"{FIRST} is [0:3, 0:3] of [8, 3]; the shard of rank 1 in {SECOND} is [4:8, 0:3] of "
            "[8, 3]. Correct `shards` in the script",
        ),
        (
            rows((0, 4), (4, 9)),
            f"'model.w': the shard of rank 1 in {SECOND} is [4:9, 0:3] of [8, 3]: it lies "
            "outside. Correct `shards` in the script",
        ),
        (
            {**rows((0, 4)), 1: Place((9, 3), (4, 0), (5, 3))},
            f"'model.w': the shard of rank 0 in {FIRST} is [0:4, 0:3] of [8, 3], and the shard of "
            f"rank 1 in {SECOND} is [4:9, 0:3] of [9, 3]: another whole. Correct `shards` in the "
            "script",
        ),
    ],
    ids=["overlap", "gap", "outside", "two wholes"],
)
def test_shards_that_are_not_the_whole_are_refused_when_written_and_when_read(
    placed: dict[int, Place], why: str
) -> None:
    topology = Topology(tp=2)
    with pytest.raises(BadManifest) as refused:
        merge("job", parts(topology, placed))
    assert str(refused.value) == why
    written = Manifest(
        job="job",
        step=5,
        epoch=1,
        world_size=2,
        topology=topology,
        parts=tuple(parts(topology, placed)),
    )
    with pytest.raises(BadManifest) as refused:
        decode_manifest(checked(written), step=5, epoch=1)
    assert str(refused.value) == why


def test_stages_of_a_pipeline_may_have_the_same_names() -> None:
    topology = Topology(tp=2, pp=2)
    placed = {}
    for rank in range(4):
        at = topology.coordinates(rank)
        size = 8 + 8 * at[Axis.PP]
        placed[rank] = Place((size, 3), (at[Axis.TP] * size // 2, 0), (size // 2, 3))
    merge("job", parts(topology, placed))
    placed[3] = Place((16, 3), (4, 0), (8, 3))
    with pytest.raises(BadManifest, match=r"'model\.w'"):
        merge("job", parts(topology, placed))


def test_what_replicas_write_whole_for_each_group_is_no_overlap() -> None:
    """`replicated=` with tensors that differ along another axis than the data's."""
    topology = Topology(dp=2, tp=2)
    merge("job", parts(topology, {0: Place((4, 3), (0, 0), (4, 3)), 1: Place((2,), (0,), (2,))}))


@pytest.mark.torch
@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_torchs_own_uneven_shards_are_the_whole(size: int, ranks: int) -> None:
    """As DTensor's `Shard(0)` and FSDP2 cut a tensor: by `torch.chunk`, the last ones empty."""
    torch = pytest.importorskip("torch")
    pieces = list(torch.arange(size * 3).reshape(size, 3).chunk(ranks)) if size else []
    placed, at = {}, 0
    for rank in range(ranks):
        rows_here = len(pieces[rank]) if rank < len(pieces) else 0
        placed[rank] = Place((size, 3), (at, 0), (rows_here, 3))
        at += rows_here
    merge("job", parts(Topology(dp=ranks), placed))
