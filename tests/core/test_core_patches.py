"""What a commit writes of the state: folded, the changes are the state, its order too."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.batch.commit import Deltas
from holdfast.driver.core.state.model import Brake, State
from holdfast.driver.formats.encode import (
    VERSION,
    LaterState,
    apply,
    decode,
    diff,
    encode,
    encode_change,
    fold,
)
from holdfast.lab.simulator import simulate
from holdfast.lab.simulator.effects import world_of
from holdfast.lab.simulator.scenario import draw

PLAIN = st.none() | st.integers(-9, 9) | st.sampled_from(["", "a", "b"])


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """As those of the model: what has its default is not written."""

    name: str = ""
    inner: "Value | None" = None
    items: dict[int, "Value | int | str | None"] = {}
    rest: tuple["Value | int | str | None", ...] = ()
    brake: tuple[int, str] = (7, "as ever")


def _values(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    holds = PLAIN | inner
    return st.builds(
        Value,
        name=st.sampled_from(["", "x"]),
        inner=st.none() | inner.filter(lambda value: isinstance(value, Value)),
        items=st.dictionaries(st.integers(0, 4), holds, max_size=4),
        rest=st.lists(holds, max_size=5).map(tuple),
        brake=st.sampled_from([(7, "as ever"), (7, ""), (0, "as ever")]),
    )


VALUES = st.recursive(st.builds(Value), _values, max_leaves=12)


def _plain(value: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


@given(VALUES, VALUES)
def test_a_patched_value_is_the_new_one(old: Value, new: Value) -> None:
    patched = apply(_plain(old), _plain(diff(old, new)))
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(patched), type=Value)
    assert repr(again) == repr(new)


@given(st.lists(st.integers(0, 9), unique=True), st.data())
def test_order_is_kept_where_keys_go_and_come_back(keys: list[int], data: st.DataObject) -> None:
    old = dict.fromkeys(keys, 0)
    new = dict.fromkeys(data.draw(st.permutations(keys)), 0)
    assert list(apply(dict(old), _plain(diff(old, new)))) == list(new)


def test_a_row_that_grows_or_shrinks_by_one_is_a_patch_of_one() -> None:
    row = tuple(f"node-{k}" for k in range(1_000))
    for new in (row[:500] + row[501:], (*row, "node-1000"), row[1:]):
        patch = msgspec.msgpack.encode(diff(row, new))
        assert len(patch) < 20
        assert apply(list(row), msgspec.msgpack.decode(patch)) == list(new)


@pytest.mark.parametrize("seed", range(12))
def test_folded_after_every_entry_of_a_life_it_is_the_state(seed: int) -> None:
    world, saving = world_of(draw(seed)), Deltas()
    journal: list[bytes] = []
    commit = world.driver._commit
    kinds = set()

    def committed(event: Any, decision: Any) -> None:
        before = world.driver.state
        commit(event, decision)
        state, change = saving.of(before, world.driver.state)
        saving.done(state, change=change)
        kinds.add(change)
        journal[:] = [*journal, state] if change else [state]
        folded = fold(journal[0], journal[1:])
        assert repr(decode(folded)) == repr(decode(encode(world.driver.state)))

    world.driver._commit = committed  # type: ignore[method-assign]
    simulate._play(world)
    simulate._converge(world)
    assert kinds == {False, True}


def test_changes_are_written_until_they_outgrow_the_whole() -> None:
    saving, state = Deltas(), State(brake=Brake(why="x" * 400))
    sizes = []
    for number in range(1, 200):
        after = msgspec.structs.replace(state, sequence=number)
        written, change = saving.of(state, after)
        saving.done(written, change=change)
        sizes.append(len(written) if change else 0)
        state = after
    assert sizes[0] == 0, "the first is whole"
    assert 3 < sizes.count(0) < 20
    assert max(sizes) < 20


def test_a_change_of_a_later_holdfast_is_refused() -> None:
    later = msgspec.msgpack.encode((VERSION + 1, [0, {}]))
    with pytest.raises(LaterState, match="written by a later one"):
        fold(encode(State()), [later])
    assert decode(fold(encode(State()), [encode_change(State(), State(term=3))])).term == 3
