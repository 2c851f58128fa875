"""What the ranks of the tests do; called by `launch.py`.

Results go to files in the rank's folder.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import termios
from dataclasses import asdict, replace
from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import Any, NamedTuple

import msgspec
import torch
import torch.distributed as dist
from safetensors.torch import save_file

from holdfast.checkpoint import tree
from holdfast.checkpoint.checkpointer import Checkpointer
from holdfast.protocol.topology import Topology
from holdfast.workload.data import corpus
from holdfast.workload.grid import Grid, joined
from holdfast.workload.main import main, resume
from holdfast.workload.model.vocabulary import cross_entropy, padded
from holdfast.workload.settings import VOCABULARY, Place, Settings, Shape
from holdfast.workload.train import Trainer

SHAPE = Shape(layers=2, hidden=24, heads=12, seq=8, micro_batch=1, global_batch=4)
"""Twelve heads, so that 1, 2, 3 and 4 tensor-parallel ranks divide them."""
SGD: dict[str, object] = {"optimizer": "sgd", "dtype": "float64", "lr": 0.3}
ADAM_IN_FLOAT64: dict[str, object] = {"optimizer": "adam", "dtype": "float64", "lr": 1e-2}
ADAM: dict[str, object] = {"optimizer": "adam", "dtype": "float32", "lr": 1e-3}


class Case(NamedTuple):
    """A training run, and the layouts (tp,pp,dp) on which it is done."""

    shape: Shape
    options: dict[str, object]
    steps: int
    layouts: tuple[str, ...]


MAIN = ("1,1,1", "2,1,1", "1,2,1", "1,1,2", "2,2,2")
CASES = {
    "sgd": Case(SHAPE, SGD, 20, MAIN),
    "adam": Case(SHAPE, ADAM, 20, MAIN),
    "wide": Case(SHAPE, SGD, 3, ("1,1,1", "3,1,1", "4,1,1")),
    "serial": Case(replace(SHAPE, block="serial"), SGD, 2, ("1,1,1", "2,1,1")),
    "deep": Case(replace(SHAPE, layers=4, global_batch=6), SGD, 2, ("1,1,1", "1,4,1")),
}
LAYOUTS = tuple(sorted({layout for case in CASES.values() for layout in case.layouts}))
BYTES_ACKED = 120
"""Offset of tcpi_bytes_acked in Linux's struct tcp_info (linux/tcp.h, since 4.2)."""


def wire_bytes() -> dict[str, int]:
    """Payload bytes that this process gave the kernel to send over TCP, by open socket: those that
    came over and those that are on their way, each once, however often it was sent.
    """
    given: dict[str, int] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            of = os.readlink(f"/proc/self/fd/{name}")
            if not of.startswith("socket:"):
                continue
            peer = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        with peer:
            tcp = peer.type == socket.SOCK_STREAM and peer.family in (AF_INET, AF_INET6)
            if tcp and not peer.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                given[of] = _given(peer)
    return given


def _given(peer: socket.socket) -> int:
    while True:  # until nothing came over between the two looks
        acked = _acked(peer)
        on_their_way = struct.unpack("i", fcntl.ioctl(peer, termios.TIOCOUTQ, bytes(4)))[0]
        if acked == _acked(peer):
            return acked + int(on_their_way)


def _acked(peer: socket.socket) -> int:
    info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int(struct.unpack_from("Q", info, BYTES_ACKED)[0])


def agree(topology: Topology, place: Place) -> None:
    """Train each case; leave losses, traffic, event logs, and every step's gradient shard."""
    text = corpus.read([Path(corpus.__file__), Path(__file__)], least_bytes=1)
    with joined(topology, place) as grid:
        for name, case in CASES.items():
            if f"{topology.tp},{topology.pp},{topology.dp}" in case.layouts:
                settings = Settings(shape=case.shape, topology=topology, **case.options)
                record(name, case.steps, Trainer(settings, grid, text), place)


def record(name: str, steps: int, trainer: Trainer, place: Place) -> None:
    assert place.rank_dir is not None
    grid, zero = trainer.grid, trainer.zero
    calls, elements = dict(grid.ledger.calls), dict(grid.ledger.elements)
    losses, norms, gradients, logs = [], [], {}, []
    for step in range(steps):
        outcome = trainer.step()
        losses.append(outcome.loss)
        norms.append(outcome.grad_norm)
        gradients[str(step)] = zero.shard.clone()
        logs.append([(done.work.kind, done.work.micro_batch) for done in trainer.pipeline.log])
    note = {
        "losses": losses,
        "norms": norms,
        "logs": logs,
        "spans": [asdict(span) for span in zero.flat.spans],
        "splits": {name: piece.split for name, piece in trainer.weights.slices.items()},
        "state": {key: value.numel() for key, value in zero.rule.state.items()},
        "parameters": zero.flat.values.numel(),
        "calls": traffic(calls, grid.ledger.calls, steps),
        "elements": traffic(elements, grid.ledger.elements, steps),
    }
    (place.rank_dir / f"{name}.json").write_text(json.dumps(note))
    save_file(gradients, place.rank_dir / f"{name}.safetensors")


def traffic(before: dict, after: dict, steps: int) -> dict[str, float]:
    return {
        " ".join(key): (count - before.get(key, 0)) / steps
        for key, count in after.items()
        if count > before.get(key, 0)
    }


def wire(topology: Topology, place: Place) -> None:
    """Count bytes on the wire: of the cross-entropy, and of an optimizer step."""
    assert place.rank_dir is not None
    with joined(topology, place) as grid:
        note = vocabulary_note(grid) | zero_note(grid, topology)
    (place.rank_dir / "wire.json").write_text(json.dumps(note))


def settled_bytes(grid: Grid) -> dict[str, int]:
    """`wire_bytes` once every rank has reached this point and its sends have left."""
    dist.barrier()
    return wire_bytes()


def bytes_since(before: dict[str, int], grid: Grid) -> int:
    """Of the sockets that are open now: one that was closed meanwhile has taken its count along."""
    return sum(count - before.get(of, 0) for of, count in settled_bytes(grid).items())


def vocabulary_note(grid: Grid) -> dict[str, float]:
    torch.manual_seed(0)
    b, s, t = 8, 512, grid.tensor.size
    whole = torch.randn(b, s, padded(t), dtype=torch.float32) * 3
    targets = torch.randint(0, VOCABULARY, (b, s))
    mine = whole.chunk(t, -1)[grid.tensor.index].clone().requires_grad_()
    barrier = barrier_bytes(grid)
    before, counted = settled_bytes(grid), grid.ledger.elements["tensor", "all_reduce"]
    loss = cross_entropy(mine, targets, grid.tensor)
    sent = bytes_since(before, grid) - barrier
    loss.backward()
    reference = whole[..., :VOCABULARY].double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(reference.flatten(0, 1), targets.flatten())
    expected.backward()
    gradient = torch.zeros_like(whole, dtype=torch.float64)
    gradient[..., :VOCABULARY] = reference.grad
    part = gradient.chunk(t, -1)[grid.tensor.index]
    return {
        "tokens": b * s,
        "reduced": grid.ledger.elements["tensor", "all_reduce"] - counted,
        "vocabulary_bytes": sent,
        "loss": loss.item(),
        "expected_loss": expected.item(),
        "gradient_error": float((mine.grad - part).norm() / gradient.norm()),
    }


def zero_note(grid: Grid, topology: Topology) -> dict[str, float]:
    text = torch.arange(4096).remainder(251).to(torch.uint8)
    settings = Settings(
        shape=Shape(layers=4, hidden=96, heads=12, seq=16, micro_batch=1, global_batch=12),
        topology=topology,
    )
    trainer = Trainer(settings, grid, text)
    trainer.step()
    barrier = barrier_bytes(grid)
    before = settled_bytes(grid)
    trainer.zero.reduce()
    trainer.zero.update(lr=1e-3, step=2)
    sent = bytes_since(before, grid) - barrier
    return {"zero_bytes": sent, "parameter_bytes": 4 * trainer.zero.flat.values.numel()}


def barrier_bytes(grid: Grid) -> int:
    """What one barrier itself sends, to be taken off."""
    settled_bytes(grid)
    before = settled_bytes(grid)
    return bytes_since(before, grid)


def train(topology: Topology, place: Place) -> None:
    """The workload itself, as Holdfast starts it; TEST_ARGUMENTS is its command line as JSON."""
    os.environ |= {
        "HOLDFAST_JOB": "test",
        "HOLDFAST_SLOTS": f"{os.environ['TEST_SLOTS']}/r{place.rank}",
        "HOLDFAST_RANK_DIR": str(place.rank_dir),
        "HOLDFAST_TOPOLOGY": msgspec.json.encode(topology).decode(),
    }
    if hold_at := os.environ.get("TEST_HOLD_AT"):
        hold_after(int(hold_at))
    code = main(json.loads(os.environ["TEST_ARGUMENTS"]))
    if code != 0:
        raise SystemExit(f"the workload ended with {code}")


def hold_after(last: int) -> None:
    """Go no further than this step, so that a kill from outside comes before the end."""
    save = Checkpointer.save

    def save_and_hold(self: Checkpointer, step: int, *state: Any, **more: Any) -> bool:
        saved = save(self, step, *state, **more)
        if step >= last:
            signal.pause()
        return saved

    Checkpointer.save = save_and_hold  # type: ignore[method-assign]


def carry_on(topology: Topology, place: Place) -> None:
    """Go on from the checkpoint at TEST_FROM, if there is one; up to step TEST_STEPS, saved then.

    Leaves what it began and ended with, and each step's loss. TEST_SHAPE: another model, as JSON.
    """
    assert place.rank_dir is not None
    os.environ["HOLDFAST_TOPOLOGY"] = msgspec.json.encode(topology).decode()
    steps, shape = int(os.environ["TEST_STEPS"]), json.loads(os.environ.get("TEST_SHAPE", "{}"))
    settings = Settings(shape=replace(SHAPE, **shape), topology=topology, **ADAM_IN_FLOAT64)
    text = corpus.read([Path(corpus.__file__), Path(__file__)], least_bytes=1)
    with joined(topology, place) as grid:
        trainer = Trainer(settings, grid, text)
        checkpointer = Checkpointer(
            store_url=(place.rank_dir.parent / "store").as_uri(),
            store_interval_steps=steps,
            begin_from=os.environ.get("TEST_FROM", ""),
        )
        resume(trainer, checkpointer)
        leave(trainer, place.rank_dir / "began")
        losses = {}
        while trainer.progress.step < steps:
            outcome = trainer.step()
            losses[outcome.step] = outcome.loss
            checkpointer.save(outcome.step, trainer.state(), shards=trainer.shards())
        leave(trainer, place.rank_dir / "ended")
    (place.rank_dir / "losses.json").write_text(json.dumps(losses))


def leave(trainer: Trainer, path: Path) -> None:
    """All tensors of the state, and where they lie in whole ones."""
    tensors = tree.take_apart(trainer.state()).tensors
    save_file({name: one.contiguous() for name, one in tensors.items()}, f"{path}.safetensors")
    Path(f"{path}.json").write_bytes(msgspec.json.encode(trainer.shards()))


PROGRAMS = {"agree": agree, "wire": wire, "train": train, "carry_on": carry_on}
