"""The stage against a GPT written out plainly."""

import math
from collections.abc import Iterator

import pytest
import torch

from holdfast.protocol.topology import Topology
from holdfast.workload.grid import Grid, joined
from holdfast.workload.settings import Place, Settings, Shape
from holdfast.workload.train import Trainer

pytestmark = pytest.mark.torch

SHAPE = Shape(layers=2, hidden=24, heads=3, seq=10, micro_batch=2, global_batch=2)


@pytest.fixture(scope="module")
def grid() -> Iterator[Grid]:
    with joined(Topology(), Place()) as grid:
        yield grid


def plain_norm(x, weights, name):  # type: ignore[no-untyped-def]
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return centred / scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def plain_attention(x, weights, name):  # type: ignore[no-untyped-def]
    _, s, h = x.shape
    width = h // SHAPE.heads
    qkv = x @ weights[f"{name}.qkv.weight"].T + weights[f"{name}.qkv.bias"]
    seen = []
    for head in range(SHAPE.heads):
        query, key, value = qkv[..., head * 3 * width : (head + 1) * 3 * width].split(width, -1)
        scores = query @ key.transpose(1, 2) / math.sqrt(width)
        future = torch.ones(s, s, dtype=torch.bool).triu(1)
        seen.append(scores.masked_fill(future, -math.inf).softmax(-1) @ value)
    return torch.cat(seen, -1) @ weights[f"{name}.out.weight"].T + weights[f"{name}.out.bias"]


def plain_mlp(x, weights, name):  # type: ignore[no-untyped-def]
    wide = x @ weights[f"{name}.wide.weight"].T + weights[f"{name}.wide.bias"]
    wide = wide * 0.5 * (1 + torch.erf(wide / math.sqrt(2)))
    return wide @ weights[f"{name}.out.weight"].T + weights[f"{name}.out.bias"]


def plain_loss(weights, tokens, targets, block):  # type: ignore[no-untyped-def]
    x = weights["embedding.token"][tokens] + weights["embedding.position"]
    for layer in range(SHAPE.layers):
        name = f"block.{layer}"
        normed = plain_norm(x, weights, f"{name}.norm")
        seen = plain_attention(normed, weights, f"{name}.attention")
        if block == "serial":
            x = x + seen
            x = x + plain_mlp(plain_norm(x, weights, f"{name}.norm_mlp"), weights, f"{name}.mlp")
        else:
            x = x + plain_mlp(normed, weights, f"{name}.mlp") + seen
    logits = plain_norm(x, weights, "head.norm") @ weights["head.weight"].T
    chosen = logits.softmax(-1).gather(-1, targets.unsqueeze(-1))
    return -chosen.log().mean()


@pytest.mark.parametrize("block", ["parallel", "serial"])
def test_the_stage_equals_a_plain_gpt(grid: Grid, block: str) -> None:
    shape = Shape(**{**SHAPE.__dict__, "block": block})
    settings = Settings(shape=shape, dtype="float64", optimizer="sgd")
    trainer = Trainer(settings, grid, torch.arange(4096).remainder(256).to(torch.uint8))
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, 256, (2, SHAPE.seq), generator=generator)
    targets = torch.randint(0, 256, (2, SHAPE.seq), generator=generator)
    flat = trainer.zero.flat
    weights = {name: one.clone().requires_grad_() for name, one in flat.named(flat.values).items()}
    expected = plain_loss(weights, tokens, targets, block)
    expected.backward()
    loss = trainer.pipeline._stage(tokens, targets)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for name, gradient in flat.named(flat.gradients).items():
        assert torch.allclose(gradient, weights[name].grad, rtol=1e-9, atol=1e-12), name


def test_first_weights_depend_on_the_seed_and_on_the_name(grid: Grid) -> None:
    text = torch.arange(4096).remainder(256).to(torch.uint8)

    def weights(seed: int):  # type: ignore[no-untyped-def]
        flat = Trainer(Settings(shape=SHAPE, seed=seed), grid, text).zero.flat
        return flat.named(flat.values)

    one, again, other = weights(1), weights(1), weights(2)
    name, second = "block.0.mlp.wide.weight", "block.1.mlp.wide.weight"
    assert torch.equal(one[name], again[name])
    assert not torch.equal(one[name], other[name])
    assert not torch.equal(one[name], one[second])
