"""Ranks are started as torchrun would, and how they end is told."""

import json
from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_rank_gets_its_place_and_its_exit_code_is_told(node: Any) -> None:
    task = node.python(
        """
        import json, os, sys
        print(json.dumps({k: os.environ[k] for k in os.environ if k.isupper()}))
        print(sys.argv, file=sys.stderr)
        sys.exit(int(os.environ["RANK"]) + 3)
        """,
        "--lr",
        "3e-4",
        env={"MINE": "yes"},
        ranks_per_node=2,
    )
    await node.launch(task, ranks=2)
    ended = await node.exited(2)
    assert [(rank.rank, rank.exit_code) for rank in ended] == [(0, 3), (1, 4)]
    seen = json.loads(node.output(1))
    assert seen["RANK"] == "1"
    assert seen["WORLD_SIZE"] == seen["LOCAL_WORLD_SIZE"] == "2"
    assert seen["MINE"] == "yes"
    assert seen["OMP_NUM_THREADS"] == "1"
    assert "OPENBLAS_NUM_THREADS" not in seen
    assert "HOLDFAST_NODE_TOKEN_FILE" not in seen
    assert node.output(1, "stderr").endswith("'--lr', '3e-4']\n")


GLOO = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(4) * (dist.get_rank() + 1)
dist.all_reduce(x)
print("sum", x[0].item(), flush=True)
m = torch.nn.Linear(4, 4)
o = torch.optim.AdamW(m.parameters())
m(torch.ones(4)).sum().backward(); o.step()
print("stepped", time.time(), flush=True)
if len(sys.argv) > 1:
    time.sleep(1000)
dist.destroy_process_group()
"""


@pytest.mark.torch
async def test_an_unmodified_torch_script_meets_through_the_hosted_store(node: Any) -> None:
    task = node.python(GLOO, ranks_per_node=3)
    await node.launch(task, ranks=3)
    ended = await node.exited(3, 60)
    assert [rank.exit_code for rank in ended] == [0, 0, 0]
    assert "sum 6.0" in node.output(2)
