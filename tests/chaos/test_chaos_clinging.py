"""The script that clings: what it says where it is refused, and that it would tell a meeting."""

import subprocess
import sys
from pathlib import Path

import torch.distributed as dist
from waiting import DEADLINE_S

KNOCK = """
import sys
from holdfast.lab.chaos.scripts import clinging
print(clinging.knocked("127.0.0.1", sys.argv[1]))
"""


def knocking(folder: Path, rank: int, port: int) -> "subprocess.Popen[str]":
    """A rank of two that knocks there."""
    environment = {
        "CHAOS_BUGS": str(folder),
        "HOLDFAST_EPOCH": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    return subprocess.Popen(
        [sys.executable, "-c", KNOCK, str(port)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def said(ranks: "list[subprocess.Popen[str]]") -> list[str]:
    return [rank.communicate(timeout=DEADLINE_S)[0].strip() for rank in ranks]


def test_ranks_that_find_each_other_say_that_they_met(tmp_path: Path) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks = [knocking(tmp_path, rank, store.port) for rank in (0, 1)]
    assert said(ranks) == ["MET AGAIN", "MET AGAIN"]


def test_where_nobody_listens_a_rank_says_so(tmp_path: Path) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = store.port
    del store
    (outcome,) = said([knocking(tmp_path, 1, port)])
    assert outcome.startswith("refused, nobody listens: ")
