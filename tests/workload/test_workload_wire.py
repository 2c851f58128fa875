"""Bytes that the kernel says it was given to send (TCP_INFO), against the formulas."""

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(600)]
HEADERS = 1.02
"""Gloo adds a few dozen bytes to each message."""


def notes(out: Path, layout: str) -> list[dict[str, float]]:
    return [json.loads(path.read_text()) for path in sorted((out / layout).glob("*/wire.json"))]


@pytest.mark.parametrize("layout", ["2,1,1", "3,1,1"])  # 256 is no multiple of 3: padded to 258
def test_cross_entropy_reduces_three_scalars_a_token_and_never_the_logits(
    wired: Path, layout: str
) -> None:
    t = int(layout[0])
    for note in notes(wired, layout):
        assert note["reduced"] == 3 * note["tokens"]
        scalars_bytes = 4 * 3 * note["tokens"] * 2 * (t - 1) / t
        assert scalars_bytes <= note["vocabulary_bytes"] <= scalars_bytes * 1.1
        assert note["vocabulary_bytes"] < 4 * 256 * note["tokens"] / t / 10


@pytest.mark.parametrize("layout", ["2,1,1", "3,1,1", "1,1,3"])
def test_cross_entropy_equals_the_unsharded_one(wired: Path, layout: str) -> None:
    for note in notes(wired, layout):
        assert note["loss"] == pytest.approx(note["expected_loss"], rel=1e-6)
        assert note["gradient_error"] < 1e-6


def test_an_optimizer_step_sends_2_p_d_minus_1_over_d(wired: Path) -> None:
    d = 3
    for note in notes(wired, "1,1,3"):
        formula_bytes = 2 * (d - 1) / d * note["parameter_bytes"]
        assert formula_bytes <= note["zero_bytes"] <= formula_bytes * HEADERS
