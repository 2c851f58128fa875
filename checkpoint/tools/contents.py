"""What is in a checkpoint: its ranks, shards and tensors, and the values beside the tensors."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.checkpoint.fetch import Refused
from holdfast.checkpoint.layout import Layout, parse_head
from holdfast.checkpoint.manifest import Manifest, Part
from holdfast.checkpoint.stores import Store
from holdfast.checkpoint.tools.places import Place, store_of

LENGTH_BYTES = 8
"""A safetensors file begins with the length of its header."""


class Tensor(msgspec.Struct, frozen=True, kw_only=True):
    """One in a shard. `whole` and `offsets`: of the tensor that it is a piece of. `at_bytes`: where
    it begins in its file."""

    name: str
    rank: int
    file: str
    dtype: str
    shape: tuple[int, ...]
    whole: tuple[int, ...]
    offsets: tuple[int, ...]
    at_bytes: int
    size_bytes: int


def head_of(store: Store, path: str) -> Layout:
    """The layout of a shard, of which no more is read than its header. Raises `StoreError`, or
    `Refused` where that is none."""
    data = bytearray()
    for chunk in store.get(path):
        data += chunk
        if len(data) >= LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little"):
            break
    try:
        return parse_head(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # JSON of another form
        raise Refused(f"{path}: its header: {error}") from error


def tensors(place: Place, manifest: Manifest) -> Iterator[Tensor]:
    """Of all shards, in the order of ranks and files. Raises `StoreError` or `Refused`."""
    store = store_of(place)
    for part in manifest.parts:
        if part.shard is None:
            continue
        layout = head_of(store, f"{place.folder}/{part.shard.name}")
        for name, placed in layout.tensors.items():
            shape = placed.spec.shape
            lies = part.places.get(name)
            yield Tensor(
                name=name,
                rank=part.rank,
                file=part.shard.name,
                dtype=placed.spec.dtype,
                shape=shape,
                whole=lies.whole if lies else shape,
                offsets=lies.offsets if lies else (0,) * len(shape),
                at_bytes=placed.begin,
                size_bytes=placed.end - placed.begin,
            )


def values(part: Part) -> dict[str, Any]:
    """By path, what of a rank's state is no tensor, its random generators last."""
    found: dict[str, Any] = {}
    for tree, prefix in zip(json.loads(bytes(part.tree)) or (), ("", "holdfast.rng"), strict=False):
        if tree or not prefix:  # what was made of others' weights has no generators
            _walk(tree, prefix, found)
    return found


def _walk(tree: Any, path: str, found: dict[str, Any]) -> None:
    if isinstance(tree, dict) and any(word.startswith("$") for word in tree):
        _walk_word(tree, path, found)
    elif isinstance(tree, dict) and tree:
        for key, part in tree.items():
            _walk(part, _join(path, key), found)
    elif isinstance(tree, list) and any(isinstance(part, (dict, list)) for part in tree):
        for place, part in enumerate(tree):
            _walk(part, _join(path, place), found)
    else:
        found[path] = tree


def _walk_word(tree: dict[str, Any], path: str, found: dict[str, Any]) -> None:
    """What JSON lacks: `tree` has the words. Those of tensors are listed as these."""
    if "$items" in tree:
        for key, part in tree["$items"]:
            _walk(part, _join(path, key), found)
    elif "$tuple" in tree:
        _walk(tree["$tuple"], path, found)
    elif "$float" in tree:
        found[path] = tree["$float"]
    elif "$tensor" not in tree:
        found[path] = tree


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
