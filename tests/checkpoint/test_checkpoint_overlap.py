"""Copies beside the next step: sealed is what a copy at once would have held, or nothing.

Each script runs twice from one seed, with copies beside the steps and with copies at once. Copies
are held up here until a test lets them go on, so that whatever may tear one has the time to.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from slot_sums import sum_of  # noqa: E402 - after the check that torch is there
from waiting import DEADLINE_S  # noqa: E402

from holdfast.checkpoint import copying  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.layout import parse_head  # noqa: E402
from holdfast.checkpoint.marks import SAMPLED_BYTES, Marks, differing  # noqa: E402
from holdfast.checkpoint.overlap import TRIALS, Overlap  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.checkpoint.slots import mapped  # noqa: E402

pytestmark = pytest.mark.torch

STEPS = TRIALS + 3
WIDTH = 64


class Script:
    """A small training, with a norm whose statistics change in the forward."""

    def __init__(self, root: Path, *, overlap: bool, fused: bool = False) -> None:
        torch.manual_seed(3)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH), torch.nn.Linear(WIDTH, 1)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05, fused=fused)
        self.stamp = torch.zeros(100)
        self.state: dict[str, Any] = {
            "model": self.model,
            "optimizer": self.optimizer,
            "stamp": self.stamp,
        }
        self.folder = SlotFolder(root / ("late" if overlap else "at-once"))
        self.checkpointer = Checkpointer(
            Settings(job="job", epoch=1, slots=self.folder.folder),
            overlap=[self.optimizer] if overlap else [],
        )
        self.held: dict[int, dict[str, bytes]] = {}

    def backward(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.model(torch.randn(8, WIDTH)).square().mean().backward()

    def save(self, step: int) -> bool:
        self.stamp.fill_(step)
        return self.checkpointer.save(step, self.state)

    def step(self, step: int) -> None:
        self.backward()
        self.optimizer.step()
        self.save(step)

    def note(self) -> None:
        """Remember what is sealed: slots are written over."""
        for slot, seal in self.folder.sealed():
            with slot.locked(exclusive=False) as fd:
                assert fd is not None
                assert sum_of(slot, fd, seal) == slot.known_sum(seal)
                with mapped(fd, writable=False) as data:
                    self.held[seal.step] = {
                        name: bytes(data[placed.begin : placed.end])
                        for name, placed in parse_head(data).tensors.items()
                    }


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Copies in threads of their own go on only while it is set, and after half a second's wait for
    it: a fence that did not wait would be past them."""
    opened, copy = threading.Event(), copying.Copy._copy

    def slowly(self: copying.Copy, parts: list[copying.Part]) -> bytes:
        if threading.current_thread() is not threading.main_thread():
            opened.wait(0.2)
        return copy(self, parts)

    monkeypatch.setattr(copying.Copy, "_copy", slowly)
    yield opened
    opened.set()


Between = Callable[[Script, int], None]
"""What a script does between a save and its next step."""


def play(
    root: Path, between: Between, *, overlap: bool, steps: int = STEPS, **options: Any
) -> Script:
    script = Script(root, overlap=overlap, **options)
    for step in range(1, steps + 1):
        script.step(step)
        between(script, step)
        script.note()
    script.checkpointer.finish()
    script.note()
    return script


def compare(root: Path, between: Between, **options: Any) -> tuple[Script, set[int]]:
    """The script with overlap, and the steps that it does not have; all others are the same."""
    reference = play(root, between, overlap=False, **options)
    script = play(root, between, overlap=True, **options)
    assert set(script.held) <= set(reference.held)
    for step, held in script.held.items():
        assert held == reference.held[step], f"step {step} is torn"
    return script, set(reference.held) - set(script.held)


def nothing(script: Script, step: int) -> None:
    pass


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
def test_copies_beside_steps_hold_what_copies_at_once_hold(
    tmp_path: Path, gate: threading.Event, fused: bool
) -> None:
    script, missing = compare(tmp_path, nothing, fused=fused)
    assert missing == set()
    assert script.checkpointer.skipped == 0


def test_a_copy_runs_beside_the_forward_and_the_fence_waits_for_it(
    tmp_path: Path, gate: threading.Event
) -> None:
    script = play(tmp_path, nothing, overlap=True, steps=TRIALS)
    script.step(TRIALS + 1)
    assert next(seal.step for _, seal in script.folder.sealed()) == TRIALS, "not sealed yet"
    script.backward()
    assert next(seal.step for _, seal in script.folder.sealed()) == TRIALS
    gate.set()
    script.optimizer.step()
    assert next(seal.step for _, seal in script.folder.sealed()) == TRIALS + 1


def on_parameters(change: Callable[[torch.Tensor], object]) -> Between:
    def between(script: Script, step: int) -> None:
        if step > TRIALS + 1:
            with torch.no_grad():
                for one in script.model.parameters():
                    change(one)

    return between


def unsampled(script: Script, step: int) -> None:
    """Torch counts it; no element of it is compared."""
    if step > TRIALS + 1:
        with torch.no_grad():
            script.model[0].weight.view(-1)[5:7].add_(1)


MANUAL: dict[str, Between] = {
    "two that are not compared": unsampled,
    "add_": on_parameters(lambda one: one.add_(0.5)),
    "data": on_parameters(lambda one: one.data.add_(0.5)),
    "numpy": on_parameters(lambda one: one.numpy().__iadd__(0.5)),
    "a few values": on_parameters(lambda one: one.view(-1)[-1:].mul_(3)),
    "state": lambda script, step: (
        [kept["exp_avg"].mul_(0.5) for kept in script.optimizer.state.values() if step > TRIALS + 1]
        and None
    ),
    "load_state_dict": lambda script, step: (
        script.model.load_state_dict({k: v + 1 for k, v in script.model.state_dict().items()})
        and None
        if step > TRIALS + 1
        else None
    ),
}


@pytest.mark.parametrize("between", MANUAL.values(), ids=MANUAL)
def test_a_manual_update_leaves_no_torn_snapshot_and_ends_the_overlap(
    tmp_path: Path, gate: threading.Event, between: Between, caplog: pytest.LogCaptureFixture
) -> None:
    script, missing = compare(tmp_path, between)
    assert missing == {TRIALS + 2}, "one, and those after it are copied at once"
    assert script.checkpointer.skipped == 1
    assert "was written to between a save and the next step of an optimizer" in caplog.text


def test_a_script_that_clips_a_few_values_by_data_is_known_before_anything_is_late(
    tmp_path: Path, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    def clip(script: Script, step: int) -> None:
        script.model[0].weight.data.view(-1)[5] = 0.25 * step

    script, missing = compare(tmp_path, clip)
    assert missing == set()
    assert script.checkpointer.skipped == 0
    assert "0.weight was written to" in caplog.text


def test_an_optimizer_that_steps_twice_and_one_that_shares_parameters_wait(
    tmp_path: Path, gate: threading.Event
) -> None:
    def twice(script: Script, step: int) -> None:
        script.backward()
        script.optimizer.step()
        torch.optim.SGD(script.model.parameters(), lr=0.1).step()

    script, missing = compare(tmp_path, twice)
    assert missing == set()
    assert script.checkpointer.skipped == 0


def test_an_optimizer_that_takes_a_state_in_between_keeps_the_snapshot(
    tmp_path: Path, gate: threading.Event
) -> None:
    def reload(script: Script, step: int) -> None:
        script.optimizer.load_state_dict(script.optimizer.state_dict())

    _, missing = compare(tmp_path, reload)
    assert missing == set()


def test_a_save_waits_for_the_copy_of_the_one_before(tmp_path: Path, gate: threading.Event) -> None:
    script = play(tmp_path, nothing, overlap=True, steps=TRIALS)
    for step in range(TRIALS + 1, TRIALS + 4):
        script.save(step)
    script.checkpointer.finish()
    assert [seal.step for _, seal in script.folder.sealed()][:2] == [TRIALS + 3, TRIALS + 2]


def test_an_exception_in_backward_costs_no_snapshot(tmp_path: Path, gate: threading.Event) -> None:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, one: torch.Tensor) -> torch.Tensor:
            return one.clone()

        @staticmethod
        def backward(ctx: Any, *grad: torch.Tensor) -> torch.Tensor:
            raise ValueError("planted")

    def fail(script: Script, step: int) -> None:
        with pytest.raises(ValueError, match="planted"):
            Fails.apply(script.model(torch.randn(8, WIDTH))).mean().backward()

    script, missing = compare(tmp_path, fail)
    assert missing == set()
    assert script.checkpointer.skipped == 0


ENDS = """
import sys, torch
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_checkpoint_overlap import Script, TRIALS

script = Script(Path(sys.argv[1]), overlap=True)
for step in range(1, TRIALS + 3):
    script.step(step)
if sys.argv[2] == "raises":
    raise ValueError("planted")
if sys.argv[2] == "forks":
    import gc, os
    if os.fork() == 0:
        script.checkpointer._overlap._late = None
        gc.collect()
        sys.exit(0)
    assert os.wait()[1] == 0
    if os.fork() == 0:
        sys.exit(0)
    assert os.wait()[1] == 0
    assert TRIALS + 2 not in [seal.step for _, seal in script.folder.sealed()]
    for slot in script.folder.slots:
        if slot.data.exists() and slot.seal() is None:
            with slot.locked(exclusive=True) as fd:
                assert fd is None, "a child has let go of its parent's lock"
    script.optimizer.step()
"""


@pytest.mark.parametrize("how", ["returns", "raises", "forks"])
def test_a_rank_that_ends_right_after_a_save_has_sealed_it(tmp_path: Path, how: str) -> None:
    words = [sys.executable, "-c", ENDS, str(tmp_path), how, os.path.dirname(__file__)]
    paths = os.pathsep.join([*sys.path])
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths},
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) == (how != "raises"), done.stderr
    newest, *_ = SlotFolder(tmp_path / "late").sealed()
    assert newest[1].step == TRIALS + 2
    with newest[0].locked(exclusive=True) as fd:
        assert fd is not None
        assert sum_of(newest[0], fd, newest[1]) == newest[0].known_sum(newest[1])


def test_a_write_past_torch_to_16_kib_in_a_row_shows_wherever_it_is() -> None:
    whole = torch.zeros(40_000)
    marks, copy = Marks({"w": whole}), whole.clone()
    copy[30_000 : 30_000 + SAMPLED_BYTES // 4] = 1.0
    assert marks.written({"w": whole.clone()}) is None
    assert marks.written({"w": copy}) == "w"


def test_what_is_no_number_and_did_not_change_was_not_written_to() -> None:
    whole = torch.full((5_000,), float("nan"))
    assert Marks({"w": whole}).written({"w": whole.clone()}) is None
    assert differing({"w": (whole, whole.clone())}) is None
    assert differing({"w": (torch.zeros(1), -torch.zeros(1))}) == "w", "bit for bit"


def test_tensors_of_several_devices_are_watched_together() -> None:
    """AdamW counts its steps on the CPU, whatever device it keeps its averages on."""
    tensors = {"average": torch.zeros(8, device="meta"), "step": torch.zeros(1)}
    marks = Marks(tensors)
    tensors["step"].add_(1)
    assert marks.written({name: torch.zeros(one.shape) for name, one in tensors.items()}) == "step"


def test_what_does_not_lie_as_in_the_slot_is_copied_at_once(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).t())
    empty = torch.nn.Parameter(torch.empty(0))
    overlap = Overlap([torch.optim.SGD([parameter, empty], lr=0.1)], lambda step, why: None)
    assert overlap.owned({"w": parameter.detach(), "e": empty.detach()}) == {}


def test_a_forked_child_neither_waits_for_its_parents_copy_nor_ends_it(
    tmp_path: Path, gate: threading.Event
) -> None:
    script = play(tmp_path, nothing, overlap=True, steps=TRIALS)
    script.step(TRIALS + 1)
    if (child := os.fork()) == 0:
        script.checkpointer.finish()
        sealed = script.folder.sealed()[0][1].step
        os._exit(0 if sealed == TRIALS and not script.checkpointer.skipped else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gate.set()
    script.checkpointer.finish()
    script.note()
    assert TRIALS + 1 in script.held


def test_of_a_distributed_parameter_the_local_part_is_owned() -> None:
    parameter, local = torch.nn.Parameter(torch.ones(2)), torch.ones(4)
    parameter._local_tensor = local  # as a DTensor has it
    overlap = Overlap([torch.optim.SGD([parameter], lr=0.1)], lambda step, why: None)
    assert [*overlap.owned({"local": local, "other": torch.ones(4)})] == ["local"]


def test_what_is_no_optimizer_is_refused_by_a_sentence(tmp_path: Path) -> None:
    settings = Settings(job="job", epoch=1, slots=tmp_path / "r0")
    with pytest.raises(TypeError, match=r"overlap: a Linear is no torch.optim.Optimizer"):
        Checkpointer(settings, overlap=[torch.nn.Linear(2, 2)])
