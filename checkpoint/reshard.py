"""A checkpoint as ranks of another layout need it: of each tensor the part that this rank holds.

Used by the checkpointer where a checkpoint is of another number of ranks, or other axes. What was
declared (shards, DTensors, replicas) is cut anew; what was not is its rank's own, and the same on
all or nobody knows whose it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import torch

from holdfast.checkpoint import coverage, dtensors, tree
from holdfast.checkpoint.coverage import Place
from holdfast.checkpoint.layout import Shard, Spec, key_in_store
from holdfast.checkpoint.manifest import File, Manifest, apart
from holdfast.checkpoint.ranges import Ranges
from holdfast.checkpoint.tensors import empty, view_as
from holdfast.checkpoint.tree import Tree


class Wanted(msgspec.Struct, frozen=True):
    """What this rank holds. `shapes`: of its tensors by name; `places`: where they lie in whole
    ones; `kept`: of each parameter of an optimizer, under its path, where it lies (None: whole) and
    its shape, which what the optimizer will keep for it has, too.
    """

    shapes: dict[str, tuple[int, ...]]
    places: dict[str, Shard]
    kept: dict[str, tuple[Shard | None, tuple[int, ...]]]

    def place(self, name: str, whole: tuple[int, ...]) -> Place | None:
        """Where the tensor of that name lies here; None where it is not cut, or not known."""
        shard, shape = self.places.get(name), self.shapes.get(name)
        if name not in self.shapes and (known := self.kept.get(name.rpartition(".")[0])):
            own, shape = known
            fits = own is not None and own.global_shape == whole
            shard = shard or (own if fits else None)
        if shard is None or shape is None:
            return None
        return Place(shard.global_shape, shard.offsets, shape)


def wanted(state: Mapping[str, Any], shards: Mapping[str, Shard]) -> Wanted:
    """What a state of this rank holds. Raises `tree.Unsaveable`."""
    taken = tree.take_apart(state)
    shapes = {name: tuple(one.shape) for name, one in taken.tensors.items()}
    kept = dict(_kept(state, ""))
    return Wanted(shapes, {**shards, **taken.places}, kept)


def _kept(value: Any, path: str) -> Iterator[tuple[str, tuple[Shard | None, tuple[int, ...]]]]:
    if isinstance(value, torch.optim.Optimizer):
        own = [parameter for group in value.param_groups for parameter in group["params"]]
        for number, parameter in enumerate(own):
            cut = dtensors.place(parameter) if dtensors.is_dtensor(parameter) else None
            shape = tuple(dtensors.local(parameter).shape)
            yield tree.join(path, f"state.{number}"), (cut, shape)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _kept(part, tree.join(path, key))


class Resharded:
    """One checkpoint. `wrong` grows with what of it cannot be cut so. Close `ranges` after it."""

    def __init__(self, ranges: Ranges, manifest: Manifest, rank: int, holds: Wanted) -> None:
        self._ranges, self._manifest, self._holds = ranges, manifest, holds
        self._pieces, self._apart = _pieces(manifest), apart(manifest)
        self._found: dict[str, torch.Tensor] = {}
        self._rank = rank if rank < manifest.world_size else None
        order = sorted(range(manifest.world_size), key=lambda one: one != rank)
        trees = {one: tree.decode(bytes(manifest.parts[one].tree)) for one in order}
        self._holders = _holders({one: saved[0] for one, saved in trees.items()})
        self.wrong: list[str] = []
        self.tree: Tree = _merged([saved[0] for saved in trees.values()])
        self.generators: Tree = trees[rank][1] if self._rank is not None else {}
        self._ask()

    def _ask(self) -> None:
        """Have what is certainly needed read, all at once."""
        needed = [
            (place, file, name)
            for name in self._holds.shapes
            for place, file in self._pieces.get(name, ())
            if _meet(place, self._place(name, place.whole))
        ]
        for _, file, _ in needed:
            self._ranges.ask(file, 0, 1)
        for place, file, name in needed:
            if both := _meet(place, self._place(name, place.whole)):
                self._ranges.ask(file, *self._rows(file, name, place, both)[:2])

    def find(self, name: str) -> torch.Tensor:
        """This rank's part of a tensor. Raises `Refused` or `StoreError`."""
        if name not in self._found:
            declared = name in self._pieces
            self._found[name] = self._cut(name) if declared else self._same_on_all(name)
        return self._found[name]

    def own(self, name: str) -> torch.Tensor:
        """What this rank itself had saved, as of its random generators."""
        if self._rank is None:
            raise AssertionError("a rank that was not there has nothing of its own")
        return self._of_rank(name, self._rank)

    # ------------------------------------------------------------ what was declared

    def _place(self, name: str, whole: tuple[int, ...]) -> Place:
        return self._holds.place(name, whole) or Place(whole, (0,) * len(whole), whole)

    def _cut(self, name: str) -> torch.Tensor:
        pieces = self._pieces[name]
        whole = pieces[0][0].whole
        mine = self._place(name, whole)
        dtype = self._ranges.head(pieces[0][1]).tensors[name].spec.dtype
        made = empty(Spec(dtype, mine.shape))
        if mine.whole != whole:
            told = f"a part of {list(mine.whole)} here, but the checkpoint has {list(whole)}"
            self.wrong.append(f"{name}: {told}")
        elif name in self._apart:
            self.wrong.append(f"{name}: each stage of the pipeline has one of its own of that name")
        else:
            for place, file in pieces:
                if both := _meet(place, mine):
                    self._copy(made, mine, name, place, file, both)
        return made

    def _rows(
        self, file: File, name: str, place: Place, both: coverage.Box
    ) -> tuple[int, int, Spec]:
        """Which bytes of the file have this box, in whole rows of the piece, and what they are."""
        placed = self._ranges.head(file).tensors[name]
        spec = placed.spec
        if not spec.shape:
            return placed.begin, placed.end, spec
        row = (placed.end - placed.begin) // spec.shape[0]
        first, last = (side - place.offsets[0] for side in both[0])
        rows = Spec(spec.dtype, (last - first, *spec.shape[1:]))
        return placed.begin + first * row, placed.begin + last * row, rows

    def _copy(
        self,
        made: torch.Tensor,
        mine: Place,
        name: str,
        place: Place,
        file: File,
        both: coverage.Box,
    ) -> None:
        begin, end, spec = self._rows(file, name, place, both)
        rows = view_as(self._ranges.read(file, begin, end), spec)
        # Of the first dimension just these rows were read, of the others all.
        there = [
            slice(0, to - at) if n == 0 else slice(at - place.offsets[n], to - place.offsets[n])
            for n, (at, to) in enumerate(both)
        ]
        here = [
            slice(at - mine.offsets[n], to - mine.offsets[n]) for n, (at, to) in enumerate(both)
        ]
        made[tuple(here)].copy_(rows[tuple(there)])

    # ------------------------------------------------------------ what was not

    def _same_on_all(self, name: str) -> torch.Tensor:
        """A tensor that each rank had saved as its own. Of a number (a count of steps) this rank's
        is taken; more than that has to be the same, for nobody knows how it was cut."""
        first, *others = self._holders[name]
        found = self._of_rank(name, first)
        if found.numel() > 1 and any(not _equal(found, self._of_rank(name, n)) for n in others):
            self.wrong.append(
                f"{name}: each rank had saved its own, and they differ. Save it with its place in "
                "`shards`, or as a DTensor"
            )
        return found

    def _of_rank(self, name: str, rank: int) -> torch.Tensor:
        part = self._manifest.parts[rank]
        if part.shard is None:
            raise AssertionError(f"{name}: rank {rank} has written nothing")
        placed = self._ranges.head(part.shard).tensors[key_in_store(name, rank, declared=False)]
        return view_as(self._ranges.read(part.shard, placed.begin, placed.end), placed.spec)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    same = one.dtype == other.dtype and one.shape == other.shape
    return same and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def _pieces(manifest: Manifest) -> dict[str, list[tuple[Place, File]]]:
    """Of each declared tensor, which shard has which part; what several wrote alike once."""
    found: dict[str, dict[Place, File]] = {}
    for part in manifest.parts:
        if file := part.shard:
            for name, place in part.places.items():
                found.setdefault(name, {}).setdefault(place, file)
    return {name: list(pieces.items()) for name, pieces in found.items()}


def _meet(one: Place, other: Place) -> coverage.Box | None:
    """The box that two parts of a tensor have in common; None where they have nothing."""
    sides = zip(one.box, other.box, strict=True) if len(one.whole) == len(other.whole) else ()
    both = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in sides)
    known = len(both) == len(one.whole) and all(at < to for at, to in both)
    return both if known else None


def _merged(trees: list[Tree]) -> Tree:
    """Dicts have what any of them has; of all else the first one counts."""
    dicts = [tree.entries(one) for one in trees]
    if any(one is None for one in dicts):
        return trees[0]
    keys = dict.fromkeys(key for one in dicts for key in one or ())
    items = [(key, _merged([one[key] for one in dicts if one and key in one])) for key in keys]
    if all(isinstance(key, str) and not key.startswith("$") for key in keys):
        return dict(items)
    return {"$items": [[key, part] for key, part in items]}


def _holders(trees: Mapping[int, Tree]) -> dict[str, list[int]]:
    """Which ranks have a tensor of that name."""
    found: dict[str, list[int]] = {}
    for rank, one in trees.items():
        for name in tree.names(one):
            found.setdefault(name, []).append(rank)
    return found
