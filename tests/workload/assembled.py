"""Puts the gradient shards of all ranks of a layout together to the gradient of the whole model."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from holdfast.protocol.topology import Axis, Topology

Gradient = dict[str, torch.Tensor]


def sizes(layout: str) -> Topology:
    tp, pp, dp = map(int, layout.split(","))
    return Topology(tp=tp, pp=pp, dp=dp)


def note(out: Path, layout: str, case: str, rank: int) -> dict[str, Any]:
    """What `programs.record` wrote for one rank."""
    return json.loads((out / layout / f"rank_{rank}" / f"{case}.json").read_text())


def gradients(out: Path, layout: str, case: str) -> list[Gradient]:
    """The whole model's gradient at each step, by parameter name."""
    topology = sizes(layout)
    flats: dict[tuple[int, int], list[dict[str, torch.Tensor]]] = {}
    for rank in range(topology.world_size):
        place = topology.coordinates(rank)  # ranks of one data-parallel group come in its order
        shard = load_file(out / layout / f"rank_{rank}" / f"{case}.safetensors")
        flats.setdefault((place[Axis.PP], place[Axis.TP]), []).append(shard)
    notes = {
        key: note(out, layout, case, topology.rank({Axis.PP: key[0], Axis.TP: key[1], Axis.DP: 0}))
        for key in flats
    }
    steps = len(next(iter(notes.values()))["losses"])
    return [whole(topology, flats, notes, str(step)) for step in range(steps)]


def whole(topology: Topology, flats: Any, notes: Any, step: str) -> Gradient:
    found: Gradient = {}
    for stage in range(topology.pp):
        parts = [
            torch.cat([shard[step] for shard in flats[stage, member]])
            for member in range(topology.tp)
        ]
        for name, shape, start, end in notes[stage, 0]["spans"]:
            split = notes[stage, 0]["splits"][name]
            views = [part[start:end].view(shape) for part in parts]
            found[name] = views[0] if split is None else torch.cat(views, split)
    return found
