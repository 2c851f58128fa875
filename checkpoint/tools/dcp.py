"""A checkpoint of torch's DCP, taken over as the state of one rank. Loads torch, and unpickles.

Called only where a person said that the folder may be trusted: whoever wrote a pickle can run any
program by having it read.
"""

import msgspec
import xxhash
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from holdfast.checkpoint import tree
from holdfast.checkpoint.layout import (
    MANIFEST,
    PLAN_KEY,
    ShardPlan,
    folder_name,
    lay_out,
    part_name,
)
from holdfast.checkpoint.manifest import encode, merge
from holdfast.checkpoint.shards import put_part
from holdfast.checkpoint.stores import Store
from holdfast.checkpoint.tensors import octets, spec
from holdfast.checkpoint.tools.one_file import NotOurs
from holdfast.checkpoint.words import Seal
from holdfast.protocol.topology import Topology


def take_over(folder: str, store: Store, *, step: int) -> str:
    """Write what DCP wrote to `folder` as a checkpoint of `step`; the name of its folder.

    Raises `NotOurs`, `tree.Unsaveable` or `StoreError` with no manifest written.
    """
    name = folder_name(step, 0)
    if MANIFEST in {entry.name for entry in store.entries(name)}:
        raise NotOurs(f"{name} is there already, and is not written over")
    taken = tree.take_apart(_loaded(folder))
    specs = {key: spec(key, tensor) for key, tensor in taken.tensors.items()}
    layout = lay_out(specs, {PLAN_KEY: msgspec.json.encode(ShardPlan()).decode()})
    seal = Seal(
        job="",
        epoch=0,
        step=step,
        rank=0,
        world_size=1,
        topology=Topology(),
        used_bytes=layout.size_bytes,
        head_bytes=len(layout.head),
        head_xxh3=xxhash.xxh3_64_hexdigest(layout.head),
        tree=msgspec.Raw(tree.encode([taken.tree, {}])),
    )
    part = put_part(store, seal, layout, lambda key: [octets(taken.tensors[key])])
    store.put(f"{name}/{MANIFEST}", [encode(merge("", [part]))])
    store.delete(f"{name}/{part_name(0)}")
    return name


def _loaded(folder: str) -> dict[str, object]:
    state: dict[str, object] = {}
    try:
        _load_state_dict(
            state,
            storage_reader=FileSystemReader(folder),
            planner=_EmptyStateDictLoadPlanner(),  # type: ignore[no-untyped-call]
            no_dist=True,
        )
    except (CheckpointException, OSError, ValueError, KeyError, RuntimeError) as error:
        raise NotOurs(f"{folder}: torch cannot read it: {error}") from error
    return state
