"""Loads torch once, then forks ranks as the warm launcher does; one order a line on stdin."""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from ports import free_port


def rank_main(script: str, folder: Path, variables: dict[str, str]) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.environ.update(variables)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out = os.open(folder / f"{variables['RANK']}.out", os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    from holdfast.telemetry import hooks

    hooks.install()
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


def start(order: dict[str, Any]) -> list[int]:
    folder, count = Path(order["folder"]), int(order["ranks"])
    port = free_port()
    pids = []
    for rank in range(count):
        variables = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "HOLDFAST_RING": str(folder / "rings" / f"job.e1.r{rank}.ring"),
            "HOLDFAST_EPOCH": "1",
            "TORCHELASTIC_ERROR_FILE": str(folder / f"{rank}.json"),
            **order["told"],
        }
        pid = os.fork()
        if pid == 0:
            try:
                rank_main(order["script"], folder, variables)
            except Exception:  # noqa: BLE001 as the interpreter does
                sys.excepthook(*sys.exc_info())
                sys.exit(1)
            sys.exit(0)
        pids.append(pid)
        reap(pid, folder / f"{rank}.exit")
    return pids


REAP: list[tuple[int, Path]] = []


def reap(pid: int, target: Path) -> None:
    REAP.append((pid, target))


def reap_all(_number: int, _frame: object) -> None:
    for entry in list(REAP):
        with contextlib.suppress(ChildProcessError):
            done, status = os.waitpid(entry[0], os.WNOHANG)
            if done:
                REAP.remove(entry)
                beside = entry[1].with_suffix(".part")
                beside.write_text(str(os.waitstatus_to_exitcode(status)))
                beside.rename(entry[1])


def main() -> None:
    for module in ("torch.distributed", "torch.nn.parallel", "torch.optim", "torch._dynamo"):
        importlib.import_module(module)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()  # a rank that ends would take down all of torch's modules, for .7 s of processors
    signal.signal(signal.SIGCHLD, reap_all)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(start(json.loads(line))), flush=True)
        reap_all(0, None)


if __name__ == "__main__":
    main()
