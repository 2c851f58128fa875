"""Losses are compared bit for bit, over attempts and replicas."""

from pathlib import Path

from holdfast.lab import losses
from holdfast.protocol.paths import RunPaths


def write(root: Path, attempt: int, rank: int, values: dict[int, float], torn: str = "") -> None:
    folder = RunPaths(root).rank("job", attempt, rank)
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(
        f'{{"step": {step}, "loss": {loss}, "loss_hex": "{loss.hex()}", "tokens": 1}}\n'
        for step, loss in values.items()
    )
    (folder / "metrics.jsonl").write_text(lines + torn)


def test_a_run_with_a_restart_equals_one_without_if_every_bit_does(tmp_path: Path) -> None:
    write(tmp_path / "a", 1, 3, {1: 5.5, 2: 4.25}, torn='{"step": 3, "lo')
    write(tmp_path / "a", 2, 3, {2: 4.25, 3: 4.0})
    write(tmp_path / "b", 1, 3, {1: 5.5, 2: 4.25, 3: 4.0})
    one, other = (losses.read(RunPaths(tmp_path / name), "job") for name in "ab")
    assert losses.equal_bitwise(one, other)
    assert one.last_step == 3


def test_one_bit_in_one_step_is_a_difference(tmp_path: Path) -> None:
    write(tmp_path / "a", 1, 3, {1: 5.5, 2: 4.25})
    write(tmp_path / "b", 1, 3, {1: 5.5, 2: 4.250000000000001})
    one, other = (losses.read(RunPaths(tmp_path / name), "job") for name in "ab")
    assert not losses.equal_bitwise(one, other)
    assert losses.first_difference(one, other) == 2


def test_a_step_trained_twice_to_other_bits_disputes_the_run(tmp_path: Path) -> None:
    write(tmp_path, 1, 3, {1: 5.5, 2: 4.25})
    write(tmp_path, 2, 3, {2: 4.5})
    found = losses.read(RunPaths(tmp_path), "job")
    assert found.disputed == (2,)
    assert not losses.equal_bitwise(found, found)


def test_runs_without_a_single_loss_are_not_equal(tmp_path: Path) -> None:
    nothing = losses.read(RunPaths(tmp_path), "job")
    assert not losses.equal_bitwise(nothing, nothing)
