"""A training state as a tree of JSON with named tensors, and back into the objects it came from.

Used by the checkpointer. No pickle: what is neither a tensor nor JSON is refused, by its path.
"""

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

Tree = Any
"""JSON. A tensor is `{"$tensor": name}`; tuples, dicts with other keys than plain strings, and
floats that JSON lacks have a `$` word of their own."""


class Unsaveable(TypeError):
    """Part of the state is neither a tensor nor JSON; the message names it and says what to do."""


class Mismatch(ValueError):
    """The saved state does not fit the state to restore into; nothing was changed."""


class Taken:
    """A state taken apart: its tree, its tensors by name (no copies), and the tied ones' names."""

    def __init__(self) -> None:
        self.tree: Tree = None
        self.tensors: dict[str, torch.Tensor] = {}
        self._seen: dict[tuple[object, ...], str] = {}

    def add(self, name: str, tensor: torch.Tensor) -> str:
        """The name under which the tensor is saved: of tied tensors, the first one's."""
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_sparse:
            raise Unsaveable(
                f"{name}: a {type(tensor).__name__} ({tensor.layout}). Save a plain tensor; of a "
                "distributed one its local part, with its place in `shards`."
            )
        same = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        if tensor.numel() and same in self._seen:
            return self._seen[same]
        if name in self.tensors:
            raise Unsaveable(f"{name}: two tensors of the state get this name. Rename a key.")
        self.tensors[name] = tensor.detach()
        self._seen[same] = name
        return name


def take_apart(state: object, prefix: str = "") -> Taken:
    """The tree and the tensors of a state. Raises `Unsaveable`."""
    taken = Taken()
    taken.tree = _take(state, prefix, taken)
    return taken


def _take(value: object, path: str, taken: Taken) -> Tree:
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, torch.Tensor):
        return {"$tensor": taken.add(path, value)}
    if isinstance(value, Mapping):
        return _take_mapping(value, path, taken)
    if isinstance(value, (list, tuple)):
        parts = [_take(part, _join(path, place), taken) for place, part in enumerate(value)]
        return parts if isinstance(value, list) else {"$tuple": parts}
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if callable(getattr(value, "state_dict", None)):
        return _take(value.state_dict(), path, taken)  # type: ignore[attr-defined]
    raise Unsaveable(
        f"{path}: a {type(value).__name__} is neither a tensor, nor JSON, nor has it a state_dict. "
        "Save its content as tensors, numbers, strings, lists and dicts."
    )


def _take_mapping(value: Mapping[Any, Any], path: str, taken: Taken) -> Tree:
    items = [(key, _take(part, _join(path, key), taken)) for key, part in value.items()]
    if all(isinstance(key, str) and not key.startswith("$") for key, _ in items):
        return dict(items)
    for key, _ in items:
        if type(key) not in (bool, int, str):
            raise Unsaveable(f"{path}: the key {key!r}. Use strings or whole numbers as keys.")
    return {"$items": [[key, part] for key, part in items]}


def _join(path: str, key: object) -> str:
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
    if "$tuple" in tree:
        return tuple(build(part, find) for part in tree["$tuple"])
    if "$float" in tree:
        return float(tree["$float"])
    if "$items" in tree:
        return {key: build(part, find) for key, part in tree["$items"]}
    return {key: build(part, find) for key, part in tree.items()}


def put_back(target: Any, tree: Tree, find: Find) -> None:
    """Restore a state in place: tensors keep their memory, objects get `load_state_dict`.

    Raises `Mismatch` for what can be seen before anything is changed: a missing key, a shape.
    """
    steps: list[Callable[[], object]] = []
    _plan(target, tree, find, "", steps)
    with torch.no_grad():
        for step in steps:
            step()


def _plan(
    target: Any, tree: Tree, find: Find, path: str, steps: list[Callable[[], object]]
) -> None:
    """Collect what has to be done for `target`; change nothing yet."""
    if isinstance(target, torch.Tensor):
        _plan_tensor(target, tree, find, path, steps)
    elif isinstance(target, dict):
        _plan_dict(target, tree, find, path, steps)
    elif isinstance(target, list):
        steps.append(lambda: target.__setitem__(slice(None), build(tree, find)))
    elif callable(getattr(target, "load_state_dict", None)):
        steps.append(lambda: target.load_state_dict(build(tree, find)))
    else:
        raise Mismatch(f"{path}: cannot restore into a {type(target).__name__}. Put it in a dict.")


def _plan_tensor(
    target: torch.Tensor, tree: Tree, find: Find, path: str, steps: list[Callable[[], object]]
) -> None:
    if not isinstance(tree, dict) or "$tensor" not in tree:
        raise Mismatch(f"{path}: a tensor here, but the checkpoint has {json.dumps(tree)[:80]}")
    saved = find(tree["$tensor"])
    if saved.shape != target.shape or saved.dtype != target.dtype:
        raise Mismatch(
            f"{path}: {target.dtype} {list(target.shape)} here, but the checkpoint has "
            f"{saved.dtype} {list(saved.shape)}"
        )
    steps.append(lambda: target.copy_(saved))


def _plan_dict(
    target: dict[Any, Any], tree: Tree, find: Find, path: str, steps: list[Callable[[], object]]
) -> None:
    if not isinstance(tree, dict) or "$tensor" in tree or "$tuple" in tree:
        raise Mismatch(f"{path}: a dict here, but the checkpoint has {json.dumps(tree)[:80]}")
    saved = dict(tree["$items"]) if "$items" in tree else tree
    absent = [key for key in target if key not in saved]
    if absent:
        raise Mismatch(f"{_join(path, absent[0])}: not in the checkpoint")
    for key, part in saved.items():
        mine = target.get(key)
        if isinstance(mine, (torch.Tensor, dict)) or callable(
            getattr(mine, "load_state_dict", None)
        ):
            _plan(mine, part, find, _join(path, key), steps)
        else:
            steps.append(partial(_set, target, key, part, find))


def _set(target: dict[Any, Any], key: object, part: Tree, find: Find) -> None:
    target[key] = build(part, find)


def encode(tree: Tree) -> bytes:
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes) -> Tree:
    return json.loads(data)
