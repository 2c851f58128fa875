"""What a script tells of a step: a loss as people have it, a number or a tensor."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import telemetry
from holdfast.telemetry import current

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (None, None),
        (2.5, 2.5),
        (torch.tensor(2.5), 2.5),
        (torch.tensor(2.5, requires_grad=True) * 1, 2.5),
        (torch.tensor([2.5], requires_grad=True), 2.5),
    ],
)
def test_a_loss_is_told_whatever_it_is_made_of_and_without_a_warning(
    monkeypatch: pytest.MonkeyPatch, loss: Any, told: float | None
) -> None:
    seen: list[tuple[object, ...]] = []
    recorder = SimpleNamespace(reported=lambda *what: seen.append(what))
    monkeypatch.setattr(current, "recorder", recorder)
    telemetry.step(7, loss=loss, tokens=64, grad_norm=loss)
    assert seen == [(7, told, 64, told)]
