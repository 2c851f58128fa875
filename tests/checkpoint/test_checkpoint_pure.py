"""What is pure in checkpoints: layouts, plans, manifests, retention, the rotation of slots."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint.layout import (
    ALIGNMENT,
    ITEM_BYTES,
    Shard,
    Spec,
    folder_name,
    key_in_store,
    lay_out,
    parse_folder,
    parse_head,
)
from holdfast.checkpoint.manifest import (
    BadManifest,
    File,
    Manifest,
    Part,
    decode_manifest,
    decode_part,
    encode,
    merge,
)
from holdfast.checkpoint.plan import writers
from holdfast.checkpoint.retention import Kept, expendable
from holdfast.checkpoint.rotation import candidates, due, in_need
from holdfast.checkpoint.settings import from_environment
from holdfast.protocol.topology import Axis, Topology

specs = st.builds(
    Spec, st.sampled_from(sorted(ITEM_BYTES)), st.lists(st.integers(0, 5), max_size=3).map(tuple)
)
tensors = st.dictionaries(st.text(min_size=1, max_size=8), specs, max_size=12)


# ---------------------------------------------------------------- layout


@given(tensors, st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2))
def test_tensors_lie_aligned_and_without_a_gap_and_the_header_tells_it(
    tensors: dict[str, Spec], metadata: dict[str, str]
) -> None:
    layout = lay_out(tensors, metadata)
    assert len(layout.head) % ALIGNMENT == 0
    at = len(layout.head)
    for name, placed in sorted(layout.tensors.items(), key=lambda one: (one[1].begin, one[1].end)):
        assert placed.spec == tensors[name]
        assert placed.begin == at
        assert placed.begin % ITEM_BYTES[placed.spec.dtype] == 0
        at = placed.end
    assert at == layout.size_bytes
    assert parse_head(layout.head + b"and tensors") == layout
    assert layout.metadata == metadata


@given(tensors, st.data())
def test_a_torn_header_is_refused(tensors: dict[str, Spec], data: st.DataObject) -> None:
    head = lay_out(tensors, {}).head
    with pytest.raises(ValueError, match="header"):
        parse_head(head[: data.draw(st.integers(0, len(head) - 1))])


@given(st.integers(0, 10**12), st.integers(0, 10**6))
def test_a_folder_tells_its_step_and_epoch(step: int, epoch: int) -> None:
    assert parse_folder(folder_name(step, epoch)) == (step, epoch)


def test_what_is_not_ours_in_a_store_is_not_taken_for_a_checkpoint() -> None:
    assert folder_name(120, 3) == "step-00000120-epoch-3"
    assert parse_folder("step-120-epoch-3") is None
    assert parse_folder("step-00000120-epoch-3.tmp") is None


def test_only_rank_0_and_declared_shards_keep_their_names() -> None:
    assert key_in_store("model.w", 3, declared=True) == "model.w"
    assert key_in_store("model.w", 0, declared=False) == "model.w"
    assert key_in_store("model.w", 3, declared=False) == "rank-00003.model.w"


# ---------------------------------------------------------------- plan


@given(
    st.tuples(*[st.integers(1, 4)] * 3),
    st.lists(st.tuples(st.integers(1, 1_000), st.sets(st.sampled_from(list(Axis)))), max_size=20),
)
def test_each_tensor_is_written_by_exactly_one_of_those_that_share_it(
    shape: tuple[int, int, int], given_tensors: list[tuple[int, set[Axis]]]
) -> None:
    topology = Topology(dp=shape[0], pp=shape[1], tp=shape[2])
    sizes = {f"t{place}": size for place, (size, _) in enumerate(given_tensors)}
    shards = {
        f"t{place}": Shard((size,), (0,), tuple(axes))
        for place, (size, axes) in enumerate(given_tensors)
        if axes
    }
    plans = {rank: writers(sizes, shards, topology, rank) for rank in range(topology.world_size)}
    for rank, plan in plans.items():
        for name, writer in plan.items():
            group = topology.group(rank, *shards[name].replicas) if name in shards else (rank,)
            assert writer in group
            assert {plans[member][name] for member in group} == {writer}


def test_the_writing_is_shared_out_evenly() -> None:
    sizes = {f"t{place}": 100 for place in range(8)}
    shards = {name: Shard((100,), (0,), (Axis.DP,)) for name in sizes}
    plan = writers(sizes, shards, Topology(dp=4), 2)
    assert sorted(plan.values()) == [0, 0, 1, 1, 2, 2, 3, 3]


# ---------------------------------------------------------------- manifest


def part(rank: int, world_size: int = 2, **changes: object) -> Part:
    shard = File(f"shard-{rank}", 10, "00")
    fields = {"rank": rank, "step": 5, "epoch": 1, "world_size": world_size, "shard": shard}
    return Part(**{**fields, "tree": msgspec.Raw(b'{"lr":0.1}'), **changes})  # type: ignore[arg-type]


def test_a_manifest_is_what_its_parts_were() -> None:
    manifest = merge(
        "job", [part(1, elsewhere={"w": 0}, replicas={"w": "1"}), part(0, replicas={"w": "1"})]
    )
    again = decode_manifest(encode(manifest), step=5, epoch=1)
    assert [one.rank for one in again.parts] == [0, 1]
    assert bytes(again.parts[0].tree) == b'{"lr":0.1}'
    assert again.parts[1].elsewhere == {"w": 0}
    assert again.parts[1].replicas == {}
    assert json.loads(encode(manifest))["content"]["job"] == "job"


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([], "it has no parts"),
        ([part(0)], "it has parts of ranks 0, its world is 2"),
        ([part(0), part(1, step=6)], "rank 1's part is of step 6"),
        ([part(0), part(1, epoch=2)], "order 2"),
        ([part(0), part(1, 3)], "world 3"),
        ([part(0), part(0)], "it has parts of ranks 0, 0"),
        ([part(0, shard=None), part(1, elsewhere={"w": 0})], "rank 1 needs a shard of rank 0"),
        ([part(0), part(1, elsewhere={"w": 7})], "rank 1 needs a shard of rank 7"),
        (
            [part(0, replicas={"w": "1"}), part(1, elsewhere={"w": 0}, replicas={"w": "2"})],
            "'w' is declared the same on ranks 0 and 1, and is not. Leave it out of `replicated`",
        ),
        ([part(0), part(1, elsewhere={"w": 0}, replicas={"w": "2"})], "on ranks 0 and 1, and is"),
    ],
)
def test_parts_that_are_not_one_whole_checkpoint_are_refused(parts: list[Part], why: str) -> None:
    with pytest.raises(BadManifest, match=why):
        merge("job", parts)


@given(st.data())
def test_a_manifest_with_any_byte_changed_or_cut_is_refused_or_says_the_same(
    data: st.DataObject,
) -> None:
    good = merge("job", [part(0), part(1)])
    text = bytearray(encode(good))
    place = data.draw(st.integers(0, len(text) - 2))
    if data.draw(st.booleans()):
        text[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del text[place:]
    with contextlib.suppress(BadManifest):
        assert decode_manifest(bytes(text), step=5, epoch=1) == good


def test_a_manifest_of_another_step_or_format_is_refused() -> None:
    good = merge("job", [part(0), part(1)])
    with pytest.raises(BadManifest, match="it is of step 5, order 1"):
        decode_manifest(encode(good), step=6, epoch=1)
    later = msgspec.structs.replace(good, format=2)
    with pytest.raises(BadManifest, match="format 2, this Holdfast reads 1"):
        decode_manifest(encode(later), step=5, epoch=1)
    with pytest.raises(BadManifest, match="cannot be read"):
        decode_part(b"{}")
    with pytest.raises(BadManifest):
        decode_manifest(encode(good).replace(b"job", b"\xe3ob"), step=5, epoch=1)
    assert isinstance(good, Manifest)


# ---------------------------------------------------------------- retention


def test_the_newest_whole_ones_stay_and_what_nobody_writes_any_more_goes() -> None:
    folders = [
        Kept(10, 1, whole=True),
        Kept(20, 1, whole=True),
        Kept(30, 1, whole=False),  # torn by the end of epoch 1
        Kept(25, 2, whole=True),
        Kept(35, 2, whole=False),  # given up
        Kept(45, 2, whole=True),  # just committed
        Kept(55, 2, whole=False),  # being written
        Kept(50, 3, whole=True),  # of a newer epoch
    ]
    gone = expendable(folders, step=45, epoch=2, keep=2)
    assert gone == (Kept(10, 1, True), Kept(20, 1, True), Kept(30, 1, False), Kept(35, 2, False))


def test_the_furthest_stays_until_whoever_began_again_is_as_far() -> None:
    first = [Kept(40, 1, whole=True), Kept(50, 1, whole=True)]
    again = [*first, Kept(10, 2, whole=True), Kept(20, 2, whole=True)]
    assert expendable(again, step=20, epoch=2, keep=2) == (Kept(40, 1, True),)
    again = [Kept(50, 1, whole=True), Kept(40, 2, whole=True), Kept(50, 2, whole=True)]
    assert expendable(again, step=50, epoch=2, keep=2) == (Kept(50, 1, True),)


def test_checkpoints_at_multiples_are_kept_for_ever_and_count_among_the_newest() -> None:
    whole = [Kept(step, 1, whole=True) for step in range(10, 100, 10)]
    torn = Kept(40, 0, whole=False)
    gone = expendable([*whole, torn], step=90, epoch=1, keep=2, keep_every_steps=40)
    assert [one.step for one in gone if one.whole] == [10, 20, 30, 50, 60, 70]
    assert torn in gone, "what is torn is no checkpoint"


@given(
    st.lists(st.builds(Kept, st.integers(1, 50), st.integers(1, 4), st.booleans()), unique=True),
    st.integers(1, 4),
)
def test_as_many_whole_ones_stay_as_are_wanted_the_one_just_committed_first(
    folders: list[Kept], keep: int
) -> None:
    new = Kept(60, 3, whole=True)
    stays = {*folders, new} - set(expendable([*folders, new], step=60, epoch=3, keep=keep))
    assert new in stays
    known = [one for one in (*folders, new) if one.whole and one.epoch <= 3]
    kept = {one for one in stays if one.whole and one.epoch <= 3}
    assert kept == set(sorted(known, key=lambda one: (one.epoch, one.step))[-keep:])
    assert {one for one in folders if one.epoch > 3} <= stays


# ---------------------------------------------------------------- rotation


@given(
    st.fixed_dictionaries(
        dict.fromkeys(range(4), st.none() | st.tuples(st.integers(1, 3), st.integers(1, 30)))
    ),
    st.integers(0, 10),
    st.tuples(st.integers(1, 3), st.integers(0, 30)),
)
def test_the_two_newest_are_never_given_up(
    held: dict[int, tuple[int, int] | None], interval: int, uploaded: tuple[int, int]
) -> None:
    found = candidates(held, store_interval_steps=interval, uploaded=uploaded)
    newest = sorted({age for age in held.values() if age}, reverse=True)[:2]
    assert not any(held[number] in newest for number in found)
    assert len(set(found)) == len(found)
    assert {number for number, age in held.items() if age is None} <= set(found)


ages = st.none() | st.tuples(st.integers(1, 3), st.integers(1, 30))


@given(
    st.fixed_dictionaries(dict.fromkeys(range(4), ages)),
    st.integers(0, 10),
    st.tuples(st.integers(1, 3), st.integers(0, 30)),
    st.integers(1, 3),
)
def test_in_short_memory_one_of_the_two_newest_may_go_and_seldom_both(
    held: dict[int, tuple[int, int] | None], interval: int, uploaded: tuple[int, int], epoch: int
) -> None:
    newest = sorted({age for age in held.values() if age}, reverse=True)[:2]
    waits = [age[0] == epoch and due(age[1], interval) and age > uploaded for age in newest]
    turns = in_need(held, store_interval_steps=interval, uploaded=uploaded, epoch=epoch)
    assert {held[turn.number] for turn in turns} <= set(newest)
    if not turns:
        assert not newest or waits == [True], "only what the store alone waits for stays"
    for turn in turns:
        gone = {held[turn.number], *(held[number] for number in turn.gives)}
        if gone == set(newest):
            assert not any(waits), "what the store waits for is not emptied for another"
            assert turn == turns[-1], "all goes last"
    if waits == [False, True]:
        assert [held[turn.number] for turn in turns] == [newest[0]]


def test_the_oldest_goes_first_and_what_the_store_waits_for_last() -> None:
    held = {0: (1, 10), 1: (1, 11), 2: (1, 13), 3: (1, 14)}
    assert candidates(held, store_interval_steps=10, uploaded=(1, 0)) == (1, 0)
    assert candidates(held, store_interval_steps=10, uploaded=(1, 10)) == (0, 1)
    assert candidates({**held, 3: None}, store_interval_steps=0, uploaded=(0, 0)) == (3, 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=50, max_size=200))
def test_with_one_slot_held_by_an_upload_every_save_still_finds_a_slot(
    moments: list[tuple[int, bool]],
) -> None:
    """However long the agent holds one slot, and whichever: the newest always moves on."""
    held: dict[int, tuple[int, int] | None] = dict.fromkeys(range(4))
    uploaded = (1, 0)
    pinned: int | None = None
    for step, (choice, change) in enumerate(moments, start=1):
        if change:
            pinned = choice if pinned is None and held[choice] else None
        free = [
            number
            for number in candidates(held, store_interval_steps=5, uploaded=uploaded)
            if number != pinned
        ]
        assert free
        held[free[0]] = (1, step)
        if step > 1:
            assert (1, step - 1) in held.values()


@pytest.mark.parametrize(("step", "every", "is_due"), [(0, 5, False), (5, 5, True), (5, 0, False)])
def test_an_interval_falls_on_its_multiples(step: int, every: int, is_due: bool) -> None:
    assert due(step, every) is is_due


# ---------------------------------------------------------------- settings


def test_the_environment_of_a_rank_is_read() -> None:
    settings = from_environment(
        {
            "HOLDFAST_SLOTS": "/slots",
            "HOLDFAST_EPOCH": "3",
            "WORLD_SIZE": "4",
            "RANK": "2",
            "HOLDFAST_RESTORE": '{"source": "memory", "step": 7, "epoch": 2}',
        }
    )
    assert (str(settings.slots), settings.epoch, settings.rank) == ("/slots", 3, 2)
    assert settings.restore is not None
    assert settings.restore.step == 7
    assert settings.topology == Topology(dp=4)


@pytest.mark.parametrize(
    ("name", "value"), [("HOLDFAST_EPOCH", "-1"), ("RANK", "two"), ("HOLDFAST_TOPOLOGY", "{")]
)
def test_a_malformed_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        from_environment({name: value})
