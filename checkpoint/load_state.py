"""Putting a saved state back in place: first all is compared, and only then anything is changed.

Used by the checkpointer. Must not change a tensor, a module or an optimizer while something else
of the state does not fit.
"""

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import torch

from holdfast.checkpoint.as_tensors import ARRAY, is_numpy
from holdfast.checkpoint.dtensors import is_dtensor, like, local
from holdfast.checkpoint.tree import Find, Mismatch, Tree, build, entries, join, names, tensor

MOST = 20
"""Mismatches that are listed; of more the number is said."""

_OF_PARAMETERS = frozenset(
    "exp_avg exp_avg_sq max_exp_avg_sq momentum_buffer square_avg grad_avg acc_delta".split()
)
"""What torch's optimizers keep for a parameter in its own shape, once they have stepped (2.15)."""

_LATER = frozenset(
    "foreach maximize capturable differentiable fused decoupled_weight_decay".split()
)
"""Options of torch's optimizers that older versions did not save, and newer ones fill in."""


class Fitting:
    """What has to be done to put a state back, and all that speaks against it.

    Objects that are neither modules nor optimizers cannot be compared: they come first, so that
    nothing else has changed where one of them refuses.
    """

    def __init__(
        self, target: Any, tree: Tree, find: Find, *, partly: bool = False, some: bool = False
    ) -> None:
        self.wrong: list[str] = []
        self.left = ""  # keys of the state of which the checkpoint has nothing, by right
        self._partly = partly  # the checkpoint has tensors of other ranks, too, which stay there
        self._some = some  # it is made of a file of weights
        self._find = find
        self._first: list[Callable[[], object]] = []
        self._then: list[Callable[[], object]] = []
        self._fit(target, tree, "")

    def check(self, *more: str) -> None:
        """Raise `Mismatch` with all that does not fit, `more` among it."""
        wrong = [*self.wrong, *more]
        if wrong:
            rest = f"; and {len(wrong) - MOST} more" if len(wrong) > MOST else ""
            raise Mismatch("; ".join(wrong[:MOST]) + rest)

    def carry_out(self) -> None:
        """Change the state. What an object's own `load_state_dict` raises goes through."""
        with torch.no_grad():
            for step in (*self._first, *self._then):
                step()

    def _say(self, path: str, what: str) -> None:
        self.wrong.append(f"{path}: {what}")

    def _fit(self, target: Any, tree: Tree, path: str) -> None:
        if isinstance(target, torch.Tensor):
            self._fit_tensor(target, tree, path)
        elif isinstance(target, dict):
            self._fit_dict(target, tree, path)
        elif is_filled(target):
            self._fit_array(target, tree, path)
        elif isinstance(target, list):
            self._read(tree)
            self._then.append(lambda: target.__setitem__(slice(None), build(tree, self._find)))
        elif loads(target):
            self._fit_object(target, tree, path)
        else:
            self._say(path, f"cannot restore into a {type(target).__name__}. Put it in a dict.")

    def _fit_tensor(self, target: torch.Tensor, tree: Tree, path: str) -> None:
        saved = tensor(tree, self._find)
        if saved is None:
            self._say(path, f"a tensor here, but the checkpoint has {json.dumps(tree)[:80]}")
            return
        if not self._whole_fits(target, tree, path) or not self._same(target, saved, path):
            return
        self._then.append(lambda: local(target).copy_(saved))

    def _read(self, tree: Tree) -> None:
        """Have it read now: nothing may fail once anything is changed."""
        for name in names(tree):
            self._find(name)

    def _whole_fits(self, target: torch.Tensor, tree: Tree, path: str) -> bool:
        """Of a DTensor: whether it was cut from a tensor of this shape."""
        here = list(target.shape)
        there = tree.get("of", here)
        if not is_dtensor(target) or here == there:
            return True
        self._say(path, f"a part of {here} here, but the checkpoint has one of {there}")
        return False

    def _fit_array(self, target: Any, tree: Tree, path: str) -> None:
        """An array of NumPy, in place."""
        here = f"{target.dtype.str} {list(target.shape)}"
        if not isinstance(tree, dict) or ARRAY not in tree:
            self._say(path, f"an array here, but the checkpoint has {json.dumps(tree)[:80]}")
        elif here != (there := f"{tree['dtype']} {tree['shape']}"):
            self._say(path, f"an array {here} here, but the checkpoint has {there}")
        else:
            self._read(tree)
            self._then.append(lambda: target.__setitem__(..., build(tree, self._find)))

    def _same(self, target: torch.Tensor, saved: torch.Tensor, path: str) -> bool:
        mine = local(target)
        if mine.is_meta:
            self._say(
                path, "a tensor of the device meta here, which has no memory. `to_empty` first"
            )
            return False
        if saved.shape == mine.shape and saved.dtype == mine.dtype:
            return True
        here, there = (f"{one.dtype} {list(one.shape)}" for one in (mine, saved))
        self._say(path, f"{here} here, but the checkpoint has {there}")
        return False

    def _fit_dict(self, target: dict[Any, Any], tree: Tree, path: str) -> None:
        saved = entries(tree)
        if saved is None:
            self._say(path, f"a dict here, but the checkpoint has {json.dumps(tree)[:80]}")
            return
        if self._some and not path:
            self._some_of(target, saved)
        else:
            self._named(target, saved, path)
        for key, part in saved.items():
            mine = target.get(key)
            if isinstance(mine, (torch.Tensor, dict)) or is_filled(mine) or loads(mine):
                self._fit(mine, part, join(path, key))
            elif key in target or not self._partly or next(names(part), None) is None:
                self._read(part)
                self._then.append(partial(_set, target, key, part, self._find))

    def _named(self, here: Collection[Any], saved: Mapping[Any, Tree], path: str) -> None:
        for key in here:
            if key not in saved:
                self._say(join(path, key), "not in the checkpoint")

    def _some_of(self, here: Collection[Any], saved: Mapping[Any, Tree]) -> None:
        """Of a file of weights: the rest of the state stays, if any of it is there."""
        self.left = ", ".join(str(key) for key in here if key not in saved)
        if saved.keys().isdisjoint(here):
            keys = ", ".join(map(str, saved))
            self._say(keys, "all that the checkpoint has (`convert --key`), and not here")

    # ------------------------------------------------------------ objects

    def _fit_object(self, target: Any, tree: Tree, path: str) -> None:
        saved, load = entries(tree), lambda: target.load_state_dict(self._built(target, tree))
        if self._partly and saved is not None and isinstance(target, torch.nn.Module):
            mine = target.state_dict()
            saved = tree = {key: part for key, part in saved.items() if key in mine}
        self._read(tree)
        if isinstance(target, torch.nn.Module) and saved is not None:
            self._fit_module(target, saved, path)
        elif isinstance(target, torch.optim.Optimizer) and saved is not None:
            self._fit_optimizer(target, saved, path)
        else:
            self._first.append(load)
            return
        self._then.append(load)

    def _built(self, target: Any, tree: Tree) -> Any:
        """What it is to load: of DTensors not the local parts, but DTensors of its own kind."""
        state = build(tree, self._find)
        if isinstance(target, torch.nn.Module):
            mine = target.state_dict()
            return {
                key: like(mine[key], one) if is_dtensor(mine.get(key)) else one
                for key, one in state.items()
            }
        if isinstance(target, torch.optim.Optimizer):
            groups: list[dict[Any, Any] | None] = [*state["param_groups"]]
            for number, parameter in _numbered(target, groups):
                _place_kept(parameter, state["state"].get(number, {}))
        return state

    def _fit_module(self, target: torch.nn.Module, saved: Mapping[Any, Tree], path: str) -> None:
        """Names as `load_state_dict` wants them, unless the module has its own way with them."""
        mine = target.state_dict()
        if not _renames(target):
            self._named(mine, saved, path)
            for key in saved:
                if key not in mine:
                    self._say(join(path, key), "in the checkpoint, but not here")
        for key, value in mine.items():
            if isinstance(value, torch.Tensor) and key in saved and not _is_lazy(value):
                self._compare(value, saved[key], join(path, key))

    def _compare(self, mine: torch.Tensor, tree: Tree, path: str) -> None:
        saved = tensor(tree, self._find)
        if saved is not None:
            self._same(mine, saved, path)
        else:
            self._say(path, f"a tensor here, but the checkpoint has {json.dumps(tree)[:80]}")

    def _fit_optimizer(
        self, target: torch.optim.Optimizer, saved: Mapping[Any, Tree], path: str
    ) -> None:
        groups = [entries(group) for group in saved.get("param_groups", ())]
        here = [len(group["params"]) for group in target.param_groups]
        there = [len(group["params"]) for group in groups if group and "params" in group]
        if here != there:
            at = join(path, "param_groups")
            self._say(at, f"groups of {here} parameters here, but the checkpoint has {there}")
            return
        for place, group in enumerate(groups):
            wanted = target.defaults.keys() - _LATER
            self._named(sorted(wanted), group or {}, join(path, f"param_groups.{place}"))
        kept = entries(saved.get("state", {})) or {}
        for number, parameter in _numbered(target, groups):
            self._fit_kept(target, parameter, entries(kept.get(number, {})) or {}, path, number)

    def _fit_kept(
        self,
        target: torch.optim.Optimizer,
        parameter: torch.Tensor,
        saved: Mapping[Any, Tree],
        path: str,
        number: object,
    ) -> None:
        """What the optimizer keeps for one parameter, as far as its shape is known."""
        mine = target.state.get(parameter, {})
        for key, tree in saved.items():
            found = tensor(tree, self._find)
            if found is None:
                continue
            at = join(path, f"state.{number}.{key}")
            if isinstance(held := mine.get(key), torch.Tensor):
                self._same(held, found, at)
            elif key in _OF_PARAMETERS and found.shape != (part := local(parameter)).shape:
                here = list(part.shape)
                self._say(
                    at, f"a parameter of {here} here, but the checkpoint has {list(found.shape)}"
                )


def _place_kept(parameter: torch.Tensor, kept: dict[str, Any]) -> None:
    """What an optimizer keeps for a DTensor in its shape is one, too."""
    part = local(parameter).shape
    for key, value in kept.items():
        if is_dtensor(parameter) and isinstance(value, torch.Tensor) and value.shape == part:
            kept[key] = like(parameter, value)


def is_filled(value: Any) -> bool:
    """Whether it is an array that can be written to."""
    return is_numpy(value) and hasattr(value, "flags") and bool(value.flags.writeable)


def loads(value: object) -> bool:
    """Whether it takes a state by its own `load_state_dict`."""
    return callable(getattr(value, "load_state_dict", None))


def _numbered(
    target: torch.optim.Optimizer, groups: list[dict[Any, Tree] | None]
) -> list[tuple[Any, torch.Tensor]]:
    """The optimizer's parameters, each with its number in the checkpoint."""
    own = [parameter for group in target.param_groups for parameter in group["params"]]
    numbers = [number for group in groups for number in (group or {})["params"]]
    return list(zip(numbers, own, strict=True))


def _renames(module: torch.nn.Module) -> bool:
    """Whether names in a state may be others than those the module has now: hooks may say so."""
    if type(module).load_state_dict is not torch.nn.Module.load_state_dict:
        return True
    return any(part._load_state_dict_pre_hooks for part in module.modules())


def _is_lazy(value: torch.Tensor) -> bool:
    return torch.nn.parameter.is_lazy(value)


def _set(target: dict[Any, Any], key: object, part: Tree, find: Find) -> None:
    target[key] = build(part, find)
