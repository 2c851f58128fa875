"""Real gloo ranks in different collectives: who dies of it is not the one who is named."""

from typing import Any

import pytest
from ring_observer import HANGING_FLOOR_S, Observer

from holdfast.protocol.faults import Kind, Weight

pytestmark = pytest.mark.torch

SCRIPT = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, here = dist.get_rank(), os.path.dirname(__file__)
parameter = torch.nn.Parameter(torch.ones(1))
parameter.grad = torch.ones(1)
optimizer = torch.optim.SGD([parameter], lr=0.01)
values, odd = torch.ones(1_000), torch.zeros(1)
for step in range(1_000_000):
    odd.fill_(rank == 0 and os.path.exists(os.path.join(here, "odd")))
    dist.broadcast(odd, 0)
    if odd and rank == 2:
        {odd}
    dist.all_reduce(values)
    optimizer.step()
    time.sleep(0.01)
"""
ANOTHER = "dist.broadcast(values, 2)"
LARGER = "values = torch.ones(100_000)"


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        pytest.param(ANOTHER, "broadcast where its peers called all_reduce", id="it hangs"),
        pytest.param(LARGER, "all_reduce of another size than its peers", id="a peer dies"),
    ],
)
def test_the_rank_that_calls_another_collective_is_named(ranks: Any, odd: str, said: str) -> None:
    running = ranks(SCRIPT.format(odd=odd), 3)
    observer = Observer(running.rings, 3, hide=False)
    observer.until(lambda: observer.step() >= 20, "twenty steps")
    assert observer.found == observer.reported == [], "nobody is accused while it trains"
    observer.expect(HANGING_FLOOR_S)
    (running.folder / "odd").touch()

    def named() -> bool:
        return any(each.kind is Kind.COLLECTIVE_MISMATCH for each in observer.reported)

    observer.until(named, "the odd one is named")
    (found,) = (each for each in observer.reported if each.kind is Kind.COLLECTIVE_MISMATCH)
    assert (found.rank, found.weight) == (2, Weight.REPORT)
    assert found.summary.startswith(f"rank 2 called {said}")
    if odd is ANOTHER:
        observer.until(lambda: observer.found, "and holds the job up")
        (acted,) = observer.found
        assert (acted.kind, acted.rank) == (Kind.COLLECTIVE_MISMATCH, 2)
