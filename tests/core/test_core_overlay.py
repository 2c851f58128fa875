"""A mapping in layers is, to whoever reads it, the dict that was copied and written to."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.core.state.census import FEW, Overlay, plain

KEYS = st.integers(0, 3 * FEW).map(str)
VALUES = st.integers(0, 9)
WRITES = st.lists(st.tuples(KEYS, VALUES), max_size=4 * FEW)


@given(st.dictionaries(KEYS, VALUES), st.lists(WRITES, max_size=6), KEYS)
def test_it_reads_as_the_dict_does(first: dict[str, int], turns: list, key: str) -> None:
    layered, copied = first, dict(first)
    for writes in turns:
        before, kept = layered, list(layered.items())
        layered = Overlay(before)
        for name, value in writes:
            layered.put(name, value)
            copied[name] = value
        assert list(before.items()) == kept, "what it was made of is as it was"
        assert list(layered) == list(copied)
        assert list(layered.values()) == list(copied.values())
        assert len(layered) == len(copied)
        assert layered.get(key) == copied.get(key)
        assert layered.get(key, -1) == copied.get(key, -1)
        assert (key in layered) == (key in copied)
    assert list(plain(layered).items()) == list(copied.items())
    assert type(plain(layered)) is dict


def test_what_differs_stays_little() -> None:
    """Else each turn would copy what all turns before it wrote."""
    layered: Overlay[int] = Overlay({})
    for number in range(100 * FEW):
        layered = Overlay(layered)
        layered.put(str(number), number)
        assert len(layered._top) <= 3 + max(FEW, len(layered) // 32)
