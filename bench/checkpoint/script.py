"""One rank saves and restores its state, by each way in turn: `script.py FOLDER KIND TURNS GIB
DEVICE`.

Started by `holdfast run`, twice: it kills itself once it has saved, and the next attempt restores.
Writes a line of JSON for each measurement to FOLDER/measured. KIND is `tensors` or `module`.
"""

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from holdfast.bench.checkpoint.ways import ASYNC, BARE, COPY, DCP, FIRST, LATE, OURS, TORCH
from holdfast.checkpoint import Checkpointer
from holdfast.checkpoint.overlap import TRIALS

TENSORS = 458
"""As many as a GPT of 350 M parameters with AdamW has, roughly."""
STORED_AT = 50
"""The first step that goes to the store, by default."""
LAST = 2 * STORED_AT - 1
"""One that does not go there."""
STEPS = 40
"""Of training, before and at least while a checkpoint is written."""
BATCH = {"cpu": 64, "cuda": 16_384}
"""Of the step that is saved after: on an H100, too, it takes as long as training steps do."""


class Holder(torch.nn.Module):
    """The same tensors, as those of a module."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self.held = torch.nn.ParameterList(tensors)


class Bench:
    """The state, what is copied into, and where measurements go."""

    def __init__(self, folder: Path, kind: str, gib: float, device: torch.device) -> None:
        size = int(gib * (1 << 30)) // 4 // TENSORS
        self.folder, self.kind, self.gib, self.device = folder, kind, gib, device
        self.tensors = [torch.empty(size, device=device) for _ in range(TENSORS)]
        self.state: dict[str, Any] = {"model": self._model()}
        self._measured = (folder / "measured").open("a", buffering=1)

    def _model(self) -> Any:
        if self.kind == "module":
            return Holder(self.tensors)
        return {f"layer-{number}": one for number, one in enumerate(self.tensors)}

    def tell(self, system: str, figure: str, value: float, unit: str = "s") -> None:
        row = {"system": system, "figure": figure, "value": value, "unit": unit}
        self._measured.write(json.dumps(row) + "\n")

    def took_s(self, call: Callable[[], object]) -> float:
        self.settled()
        began_s = time.monotonic()
        call()
        self.settled()
        return time.monotonic() - began_s

    def settled(self) -> None:
        """Nothing that was given to the device is to be done yet."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def plain(self) -> dict[str, Any]:
        """As torch's own ways take it."""
        model = self.state["model"]
        return {"model": model.state_dict() if self.kind == "module" else model}


def save_all(bench: Bench, checkpointer: Checkpointer, turns: int) -> None:
    """The first four of ours, each after a warm copy; then all ways in turn."""
    pinned = bench.device.type == "cuda"
    warm = [torch.ones(one.shape, pin_memory=pinned) for one in bench.tensors]
    into, path = str(bench.folder / "dcp"), bench.folder / "torch.pt"
    figure = f"save of {bench.gib:g} GiB, blocked"

    def copied() -> None:
        torch._foreach_copy_(warm, [one.detach() for one in bench.tensors], non_blocking=pinned)

    for step, which in enumerate(FIRST, 1):
        bench.tell(COPY, f"{which} {figure}", bench.took_s(copied))
        bench.tell(OURS, f"{which} {figure}", bench.took_s(saving(bench, checkpointer, step)))
    for step in range(len(FIRST) + 1, len(FIRST) + 1 + turns):
        bench.tell(COPY, figure, bench.took_s(copied))
        bench.tell(OURS, figure, bench.took_s(saving(bench, checkpointer, step)))
        bench.tell(TORCH, figure, bench.took_s(lambda: torch.save(bench.plain(), path)))
        bench.tell(DCP, figure, bench.took_s(lambda: save(bench.plain(), checkpoint_id=into)))
        blocked_s, pending = begun(bench)
        bench.tell(ASYNC, figure, blocked_s)
        pending.result()


def saving(bench: Bench, checkpointer: Checkpointer, step: int) -> Callable[[], object]:
    def saved() -> None:
        if not checkpointer.save(step, bench.state):
            raise SystemExit(f"step {step} was not saved: its reason is in the log of the rank")

    return saved


def begun(bench: Bench) -> tuple[float, Any]:
    """What an asynchronous save of torch's keeps the rank for, and its end to be waited for."""
    bench.settled()
    began_s = time.monotonic()
    into = str(bench.folder / "dcp-async")
    pending = async_save(bench.plain(), checkpoint_id=into)
    return time.monotonic() - began_s, pending


def trained_meanwhile(bench: Bench, checkpointer: Checkpointer) -> None:
    """The share of its speed at which a rank trains while a checkpoint is written out."""
    figure = "training while a checkpoint is written, share of its speed"
    torch.set_num_threads(1)  # the other core is there for what writes
    store = Path(os.environ["HOLDFAST_STORE_URL"].removeprefix("file://"))

    def written() -> bool:
        return any(store.glob(f"step-{STORED_AT:08}-*/manifest.json"))

    def ours() -> Callable[[], bool]:
        saving(bench, checkpointer, STORED_AT)()
        return written

    def torchs() -> Callable[[], bool]:
        _, pending = begun(bench)
        return lambda: bool(pending.done())

    trained_s(bench, lambda: False)  # nothing is measured that happens once
    for system, begin in ((OURS, ours), (ASYNC, torchs)):
        bench.tell(system, figure, share(bench, begin), "")


def share(bench: Bench, begin: Callable[[], Callable[[], bool]]) -> float:
    """What a step takes before and after, over what it takes meanwhile."""
    before_s = trained_s(bench, lambda: False)
    during_s = trained_s(bench, begin(), math.inf)
    return (before_s + trained_s(bench, lambda: False)) / 2 / during_s


def trained_s(bench: Bench, ended: Callable[[], bool], steps: float = STEPS) -> float:
    """A step's mean, over so many steps, one at least, or until it has ended."""
    taken_s = [bench.took_s(lambda: work(bench.device))]
    while len(taken_s) < steps and not ended():
        taken_s.append(bench.took_s(lambda: work(bench.device)))
    return sum(taken_s) / len(taken_s)


def work(device: torch.device) -> None:
    """A step of training that keeps one core, or the device, busy for some milliseconds."""
    size = 4096 if device.type == "cuda" else 384
    values = torch.ones(size, size, device=device)
    for _ in range(12):
        values = (values @ values) / size


def saved_each_step(bench: Bench, turns: int) -> None:
    """A step of a model with AdamW, and a save after it, in three ways in turn."""
    width, device = 1024, bench.device
    layers = max(1, round(bench.gib * (1 << 30) / (3 * 4 * width * width)))
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    state = {"model": model, "optimizer": optimizer}
    ways = {
        BARE: None,
        OURS: Checkpointer.from_env(),
        LATE: Checkpointer.from_env(overlap=optimizer),
    }
    numbers = count(STORED_AT + 1)

    def step(saver: Checkpointer | None) -> None:
        optimizer.zero_grad()
        model(torch.randn(BATCH[device.type], width, device=device)).square().mean().backward()
        optimizer.step()
        if saver is not None:
            saver.save(next(numbers), state)

    for turn in range(turns + TRIALS):
        for system, saver in ways.items():
            step(saver)  # what it pays for the save before counts, too
            took_s = bench.took_s(lambda saver=saver: step(saver))  # type: ignore[misc]
            if turn >= TRIALS:
                bench.tell(system, f"a step of {bench.gib:g} GiB with a save after it", took_s)
            if saver is not None:
                saver.finish()


def restore_all(bench: Bench, checkpointer: Checkpointer) -> None:
    """Into memory that was never touched, as in a rank that has just begun; then once more."""
    for which in ("a rank that has just begun", "memory in use"):
        took_s = bench.took_s(lambda: checkpointer.restore(bench.state))
        bench.tell(OURS, f"restore of {bench.gib:g} GiB into {which}", took_s)
    loaded = bench.took_s(lambda: torch_loaded(bench))
    bench.tell(TORCH, f"restore of {bench.gib:g} GiB into memory in use", loaded)
    into = str(bench.folder / "dcp")
    read_s = bench.took_s(lambda: load(bench.plain(), checkpoint_id=into))
    bench.tell(DCP, f"restore of {bench.gib:g} GiB into memory in use", read_s)


def torch_loaded(bench: Bench) -> None:
    loaded = torch.load(bench.folder / "torch.pt", weights_only=True)["model"]
    for mine, found in zip(bench.tensors, loaded.values(), strict=True):
        mine.detach().copy_(found)


def main(folder: Path, kind: str, turns: int, gib: float, device: torch.device) -> None:
    dist.init_process_group("gloo")
    bench, checkpointer = Bench(folder, kind, gib, device), Checkpointer.from_env()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        restore_all(bench, checkpointer)
        return
    checkpointer.restore(bench.state)
    with torch.no_grad():
        for number, one in enumerate(bench.tensors):
            one.fill_(number)
    save_all(bench, checkpointer, turns)
    trained_meanwhile(bench, checkpointer)
    if kind == "module":
        saved_each_step(bench, turns)
        saving(bench, checkpointer, LAST)()  # that is restored: a model of its own was saved since
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        sys.argv[2],
        int(sys.argv[3]),
        float(sys.argv[4]),
        torch.device(sys.argv[5]),
    )
