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
import os, signal, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(4) * (dist.get_rank() + 1)
dist.all_reduce(x)
print("sum", x[0].item(), "seed", torch.initial_seed(), flush=True)
if dist.get_rank() == 1 and not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(x)
except RuntimeError:
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    raise
dist.destroy_process_group()
"""
"""Ranks fail once the second file is there: who dies first is told first, however slow all are."""


@pytest.mark.torch
async def test_an_unmodified_torch_script_is_killed_and_started_again_with_the_same_ranks(
    node: Any,
) -> None:
    pytest.importorskip("torch")
    killed, told = node.folder / "killed", node.folder / "told"
    task = node.python(GLOO, str(killed), str(told), ranks_per_node=3)
    await node.launch(task, ranks=3)
    epoch = node.epoch
    await node.driver.eventually(
        lambda o: o.epoch == epoch and any(rank.state == "exited" for rank in o.ranks)
    )
    told.touch()
    first, second, third = await node.exited(3)
    assert second.signal == 9
    assert second.order == 1
    assert first.error.in_collective
    assert third.error.in_collective
    assert second.step == 0, "its ring was read, and it made no step of an optimizer"
    assert second.saved == 0, "and it numbers none"
    await node.launch(task, ranks=3)
    assert [rank.exit_code for rank in await node.exited(3)] == [0, 0, 0]
    said = [node.output(rank).split() for rank in range(3)]
    assert {words[1] for words in said} == {"6.0"}
    assert len({words[3] for words in said}) == 3, "no two ranks share a seed"
