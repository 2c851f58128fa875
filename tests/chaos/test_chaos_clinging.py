"""The script that clings: what it says where it is refused, and that it would tell a meeting."""

import subprocess
import sys
from pathlib import Path

import torch.distributed as dist
from ports import free_port
from waiting import DEADLINE_S

KNOCK = """
import sys
from datetime import timedelta
from holdfast.lab.chaos.scripts import clinging
clinging.PATIENCE = timedelta(seconds=float(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
print(clinging.knocked("127.0.0.1", sys.argv[1]))
"""
LONG_S = DEADLINE_S / 5
"""Of a patience that gloo makes as long as tests wait: five times this."""


def knocking(
    folder: Path, rank: int, port: int, patience_s: float = 2.0
) -> "subprocess.Popen[str]":
    """A rank of two that says when it is ready, and knocks there once it is told to."""
    environment = {
        "CHAOS_BUGS": str(folder),
        "HOLDFAST_ATTEMPT": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    return subprocess.Popen(
        [sys.executable, "-c", KNOCK, str(port), str(patience_s)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def said(ranks: "list[subprocess.Popen[str]]") -> list[str]:
    """What came of it where they knock together, however long each took to be ready."""
    for rank in ranks:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "ready\n"
    for rank in ranks:
        assert rank.stdin is not None
        rank.stdin.write("now\n")
        rank.stdin.flush()
    return [rank.communicate(timeout=DEADLINE_S)[0].strip() for rank in ranks]


def test_ranks_that_find_each_other_say_that_they_met(tmp_path: Path) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks = [knocking(tmp_path, rank, store.port, LONG_S) for rank in (0, 1)]
    assert said(ranks) == ["MET AGAIN", "MET AGAIN"]


def test_where_nobody_listens_a_rank_says_so(tmp_path: Path) -> None:
    (outcome,) = said([knocking(tmp_path, 1, free_port())])
    assert outcome.startswith("refused, nobody listens: ")
