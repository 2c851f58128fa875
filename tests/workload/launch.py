"""Forks the ranks of one layout after another from a process that has imported torch once.

Run by the tests as a script: `python launch.py PROGRAM OUT LAYOUT…`, a layout being `tp,pp,dp`.
Each rank calls PROGRAM of `programs.py` with its place, its layout and a folder of its own below
OUT; OUT/tp,pp,dp/rank_R. Exits with 1 when a rank failed; its traceback is on stderr.
"""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
from programs import PROGRAMS

from holdfast.protocol.topology import Topology
from holdfast.workload.main import be_deterministic
from holdfast.workload.settings import Place

Program = Callable[[Topology, Place], None]


def forked(body: Callable[[], None]) -> int:
    """The pid of a child that runs `body` and ends, with 0 if it returned."""
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a killed test leaves no ranks
    try:
        body()
    except BaseException:  # noqa: BLE001 - the child ends here, with its traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def serve_store(port_out: int, stop_in: int) -> None:
    """Host a store on a free port, as torchrun's agent does, until `stop_in` closes."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.write(port_out, str(store.port).encode())
    os.close(port_out)
    os.read(stop_in, 1)


def run_layout(program: Program, layout: str, out: Path) -> bool:
    tp, pp, dp = map(int, layout.split(","))
    topology = Topology(tp=tp, pp=pp, dp=dp)
    port_in, port_out = os.pipe()
    stop_in, stop_out = os.pipe()

    def store() -> None:
        os.close(stop_out)
        serve_store(port_out, stop_in)

    store_pid = forked(store)
    os.close(port_out)
    os.environ["MASTER_PORT"] = os.read(port_in, 16).decode()

    def rank(number: int) -> None:
        os.close(stop_out)
        folder = out / layout / f"rank_{number}"
        folder.mkdir(parents=True)
        os.environ |= {"RANK": str(number), "WORLD_SIZE": str(topology.world_size)}
        place = Place(rank=number, world_size=topology.world_size, rank_dir=folder)
        be_deterministic()
        program(topology, place)

    pids = [forked(lambda number=number: rank(number)) for number in range(topology.world_size)]
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    os.close(stop_out)
    os.waitpid(store_pid, 0)
    for fd in (port_in, stop_in):
        os.close(fd)
    return not any(statuses)


def main() -> int:
    name, out, *layouts = sys.argv[1:]
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "test",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
    passed = [run_layout(PROGRAMS[name], layout, Path(out)) for layout in layouts]
    return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main())
