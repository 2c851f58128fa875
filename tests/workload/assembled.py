"""Puts the gradient shards of all ranks of a layout together to the gradient of the whole model."""

import json
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import load_file

from holdfast.checkpoint.layout import Shard
from holdfast.protocol.topology import Axis, Topology
from holdfast.workload.zero.flat import Span

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
        for span in (Span(**one) for one in notes[stage, 0]["spans"]):
            split = notes[stage, 0]["splits"][span.name]
            views = [span.view(part) for part in parts]
            found[span.name] = views[0] if split is None else torch.cat(views, split)
    return found


def whole_state(out: Path, layout: str, when: str) -> dict[str, torch.Tensor]:
    """What `programs.leave` left on all ranks, put together; NaN where nobody had anything."""
    found: dict[str, torch.Tensor] = {}
    for rank in range(sizes(layout).world_size):
        path = out / layout / f"rank_{rank}" / when
        places = msgspec.json.decode(Path(f"{path}.json").read_bytes(), type=dict[str, Shard])
        for name, part in load_file(f"{path}.safetensors").items():
            place = places[name]
            nothing = torch.full(place.global_shape, torch.nan, dtype=part.dtype)
            box = zip(place.offsets, part.shape, strict=True)
            found.setdefault(name, nothing)[tuple(slice(at, at + n) for at, n in box)] = part
    return found
