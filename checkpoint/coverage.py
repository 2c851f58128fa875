"""Whether the shards of a tensor are the whole of it: none overlaps another, nothing is missing.

Asked before a manifest is written and whenever one is read. Pure, and linear in the number of
shards: each adds the corners of its box with alternating signs, and where the sum is that of the
whole's own corners, the boxes cover it once everywhere. (Such a sum determines how often each
element is covered, as the mixed difference of that count.)
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod

import msgspec

Box = tuple[tuple[int, int], ...]
"""From and to in each dimension."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a shard lies in the whole tensor of its name."""

    whole: tuple[int, ...]
    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def box(self) -> Box:
        return tuple((at, at + size) for at, size in zip(self.offsets, self.shape, strict=True))

    def __str__(self) -> str:
        ranges = ", ".join(f"{begin}:{end}" for begin, end in self.box)
        return f"[{ranges}] of {list(self.whole)}"


def wrong(name: str, places: Mapping[int, Place], told: Callable[[int], str] = str) -> str:
    """What is wrong with the shards of this tensor, by who has them; "" where nothing is. `told`:
    who that is, for people.

    A shard that several have alike counts once, and those that each have the whole are no shards.
    """
    if all(place.shape == place.whole for place in places.values()):
        return ""
    shown = _Shown(places, told)
    first = next(iter(places))
    whole, boxes = places[first].whole, {}
    for who, place in places.items():
        if place.whole != whole:
            return f"{name!r}: {shown(first)}, and {shown(who)}: another whole"
        if not _inside(place):
            return f"{name!r}: {shown(who)}: it lies outside"
        if 0 not in place.shape:
            boxes[place.box] = who
    return _uncovered(name, whole, boxes, shown) if prod(whole) else ""


class _Shown:
    """A shard, for people."""

    def __init__(self, places: Mapping[int, Place], told: Callable[[int], str]) -> None:
        self._places = places
        self._told = told

    def __call__(self, who: int) -> str:
        return f"the shard of {self._told(who)} is {self._places[who]}"


def _inside(place: Place) -> bool:
    if not len(place.whole) == len(place.offsets) == len(place.shape):
        return False
    for begin, size, whole in zip(place.offsets, place.shape, place.whole, strict=True):
        if not 0 <= begin <= begin + size <= whole:
            return False
    return True


def _uncovered(name: str, whole: tuple[int, ...], boxes: Mapping[Box, int], shown: _Shown) -> str:
    found = first_wrong(whole, boxes)
    if found is None:
        return ""
    at, times = found
    if times > 0:
        one, other, *_ = (who for box, who in boxes.items() if _holds(box, at))
        return f"{name!r}: {shown(one)}, and {shown(other)}: they overlap"
    before = max((box for box in boxes if _start(box) < at), default=None)
    after = min((box for box in boxes if _start(box) > at), default=None)
    near = "; ".join(shown(boxes[box]) for box in (before, after) if box is not None)
    lacks = f"{name!r}: no shard has the element at {list(at)} of {list(whole)}"
    return f"{lacks}: {near or 'all are empty'}"


def first_wrong(
    whole: tuple[int, ...], boxes: Mapping[Box, object]
) -> tuple[tuple[int, ...], int] | None:
    """The first element, in the order of its indices, that not exactly one of the boxes has, and
    how many more than one have it; None where each has its one. All must lie in the whole.
    """
    full = tuple((0, size) for size in whole)
    split = [
        axis for axis, side in enumerate(full) if any(box[axis] != side for box in boxes)
    ]  # in all other dimensions there is nothing to tell
    if not boxes:
        return (0,) * len(whole), -1
    sums: dict[tuple[int, ...], int] = {}
    for box in boxes:
        _add(sums, [box[axis] for axis in split], 1)
    _add(sums, [full[axis] for axis in split], -1)
    corner = min((corner for corner, sum_ in sums.items() if sum_), default=None)
    if corner is None:
        return None
    at = dict(zip(split, corner, strict=True))
    return tuple(at.get(axis, 0) for axis in range(len(whole))), sums[corner]


def _add(sums: dict[tuple[int, ...], int], sides: list[tuple[int, int]], sign: int) -> None:
    for corner, odd in _corners(sides):
        sums[corner] = sums.get(corner, 0) + (-sign if odd else sign)


def _corners(sides: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Each with whether it is the end of an odd number of sides."""
    if len(sides) == 1:
        ((begin, end),) = sides
        yield (begin,), False
        yield (end,), True
        return
    for ends in product((0, 1), repeat=len(sides)):
        yield tuple(side[end] for side, end in zip(sides, ends, strict=True)), sum(ends) % 2 == 1


def _holds(box: Box, at: tuple[int, ...]) -> bool:
    return all(begin <= index < end for (begin, end), index in zip(box, at, strict=True))


def _start(box: Box) -> tuple[int, ...]:
    return tuple(begin for begin, _ in box)
