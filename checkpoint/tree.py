"""A training state as a tree of JSON with named tensors, and back into the objects it came from.

Used by the checkpointer. No pickle: what is neither a tensor nor JSON is refused, by its path.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from holdfast.checkpoint import as_tensors, dtensors
from holdfast.checkpoint.layout import Shard

Tree = Any
"""JSON. A tensor is `{"$tensor": name}`; tuples, dicts with other keys than plain strings, and
floats that JSON lacks have a `$` word of their own, and so has what is saved as a tensor and is
something else: complex128, bytes, arrays and scalars of NumPy (`as_tensors`)."""


class Unsaveable(TypeError):
    """Part of the state is neither a tensor nor JSON; the message names it and says what to do."""


class Mismatch(ValueError):
    """The saved state does not fit the state to restore into: how, by path; nothing was changed."""


DEEPEST = 200
"""Containers in each other: JSON's reader, as Python's, ends at about 1,000."""

OVERLAPS = 1
"""Of torch's MemOverlap (2.15): elements share memory for sure."""


class Taken:
    """A state taken apart: its tree, its tensors by name (no copies), and the tied ones' names."""

    def __init__(self) -> None:
        self.tree: Tree = None
        self.tensors: dict[str, torch.Tensor] = {}
        self.places: dict[str, Shard] = {}  # of DTensors, of which the local parts are taken
        self._seen: dict[tuple[object, ...], str] = {}
        self._within: list[int] = []  # the containers around the part that is taken

    def enter(self, container: object, path: str) -> None:
        """Its parts are taken until `leave`. Raises `Unsaveable` where it is a part of itself."""
        if id(container) in self._within:
            raise Unsaveable(f"{path}: it is within itself. Save what it has without the cycle.")
        if len(self._within) == DEEPEST:
            raise Unsaveable(f"{path}: it is within {DEEPEST} others. Save it less deep.")
        self._within.append(id(container))

    def leave(self) -> None:
        self._within.pop()

    def add(self, name: str, tensor: torch.Tensor) -> str:
        """The name under which the tensor is saved: of tied tensors, the first one's."""
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
        if not plain or tensor.layout != torch.strided:
            raise Unsaveable(
                f"{name}: a {type(tensor).__name__} ({tensor.layout}). Save a plain tensor."
            )
        if tensor.is_meta:
            raise Unsaveable(f"{name}: a tensor of the device meta has no values. Load it first.")
        if torch._debug_has_internal_overlap(tensor) == OVERLAPS:
            raise Unsaveable(
                f"{name}: several of its elements are the same memory (`expand`), so it cannot be "
                "restored in place. Save a clone of it."
            )
        # A view that is lazily conjugated or negated has its base's memory, and other values.
        lazy = (tensor.is_conj(), tensor.is_neg())
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        same = (*place, *lazy)
        if tensor.numel() and same in self._seen:
            return self._seen[same]
        if name in self.tensors:
            raise Unsaveable(f"{name}: two tensors of the state get this name. Rename a key.")
        self.tensors[name] = tensor.detach().resolve_conj().resolve_neg()
        self._seen[same] = name
        return name


def take_apart(state: object, prefix: str = "") -> Taken:
    """The tree and the tensors of a state. Raises `Unsaveable`."""
    taken = Taken()
    taken.tree = _take(state, prefix, taken)
    return taken


def _take(value: object, path: str, taken: Taken) -> Tree:
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is str:
        return _text(value, path)
    if dtensors.is_dtensor(value):
        return _take_dtensor(value, path, taken)
    if other := _as_tensor(value, path):
        word, beside, tensor = other
        return {word: taken.add(path, tensor), **beside}
    if isinstance(value, torch.Tensor):
        return {"$tensor": taken.add(path, value)}
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, (Mapping, list, tuple)) or callable(getattr(value, "state_dict", None)):
        taken.enter(value, path)
        tree = _take_container(value, path, taken)
        taken.leave()
        return tree
    raise Unsaveable(
        f"{path}: a {type(value).__name__} is neither a tensor, nor JSON, nor has it a state_dict. "
        "Save its content as tensors, numbers, strings, lists and dicts."
    )


def _take_container(value: Any, path: str, taken: Taken) -> Tree:
    if isinstance(value, Mapping):
        return _take_mapping(value, path, taken)
    if isinstance(value, (list, tuple)):
        parts = [_take(part, join(path, place), taken) for place, part in enumerate(value)]
        return parts if isinstance(value, list) else {"$tuple": parts}
    return _take(value.state_dict(), path, taken)


def _take_dtensor(value: Any, path: str, taken: Taken) -> Tree:
    """With the shape of the whole, by which it is known for one."""
    try:
        place = dtensors.place(value)
    except dtensors.NoPlace as error:
        raise Unsaveable(f"{path}: {error}") from error
    name = taken.add(path, dtensors.local(value))
    taken.places.setdefault(name, place)
    return {"$tensor": name, "of": list(value.shape)}


def _as_tensor(value: object, path: str) -> tuple[str, dict[str, Any], torch.Tensor] | None:
    try:
        return as_tensors.taken(value)
    except as_tensors.NoTensor as error:
        raise Unsaveable(
            f"{path}: {error}, which may hold any objects. Save its content as arrays of numbers."
        ) from error


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Unsaveable(
            f"{path!a}: the text {value[:40]!a} has a lone surrogate, which UTF-8 lacks, as of a "
            "file name that is not UTF-8. Save its os.fsencode() as a tensor of numbers."
        ) from error
    return value


def _take_mapping(value: Mapping[Any, Any], path: str, taken: Taken) -> Tree:
    items = [(key, _take(part, join(path, key), taken)) for key, part in value.items()]
    for key, _ in items:
        _text(key if isinstance(key, str) else "", path)
    if all(isinstance(key, str) and not key.startswith("$") for key, _ in items):
        return dict(items)
    for key, _ in items:
        if type(key) not in (bool, int, str):
            raise Unsaveable(f"{path}: the key {key!r}. Use strings or whole numbers as keys.")
    return {"$items": [[key, part] for key, part in items]}


def join(path: str, key: object) -> str:
    """The path of a part, as it is said to people."""
    return f"{path}.{key}" if path else str(key)


Find = Callable[[str], torch.Tensor]
"""Gives the saved tensor of a name; only valid while the restore lasts."""


def build(tree: Tree, find: Find) -> Any:
    """The state that a tree tells, as new objects; tensors are copies."""
    if isinstance(tree, list):
        return [build(part, find) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if "$tensor" in tree:
        return find(tree["$tensor"]).clone()
    if word := as_tensors.word_of(tree):
        return as_tensors.built(word, tree, find(tree[word]))
    if "$tuple" in tree:
        return tuple(build(part, find) for part in tree["$tuple"])
    if "$float" in tree:
        return float(tree["$float"])
    if "$items" in tree:
        return {key: build(part, find) for key, part in tree["$items"]}
    return {key: build(part, find) for key, part in tree.items()}


_LEAVES = ("$tensor", "$tuple", "$float", *as_tensors.WORDS)


def tensor(tree: Tree, find: Find) -> torch.Tensor | None:
    """The saved tensor that a tree names; None where it is none. Valid as `find`'s are."""
    if not isinstance(tree, dict):
        return None
    if as_tensors.COMPLEX in tree:
        # A copy: torch wants 16 bytes a place for these, and files have 8.
        return torch.view_as_complex(find(tree[as_tensors.COMPLEX]).clone())
    return find(tree["$tensor"]) if "$tensor" in tree else None


def names(tree: Tree) -> Iterator[str]:
    """Of all tensors in a tree, whatever they were."""
    if isinstance(tree, list):
        for part in tree:
            yield from names(part)
    elif isinstance(tree, dict):
        word = "$tensor" if "$tensor" in tree else as_tensors.word_of(tree)
        if word:
            yield tree[word]
        else:
            for part in tree.values():
                yield from names(part)


def entries(tree: Tree) -> dict[Any, Tree] | None:
    """What a tree of a dict has by its keys; None for what is no dict."""
    if not isinstance(tree, dict) or any(word in tree for word in _LEAVES):
        return None
    return dict(tree["$items"]) if "$items" in tree else tree


def encode(tree: Tree) -> bytes:
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes) -> Tree:
    return json.loads(data)
