"""The built-in workload in a script that does not give up: it tries to meet its peers again.

Run as a rank by the chaos scenarios, with CHAOS_BUGS naming a folder. Where its peers are gone, and
a file there says where those of a newer epoch meet, it knocks there and at its own rendezvous, and
says what came of it. It then ends as any script whose peers are gone.
"""

import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from holdfast.workload import main as workload

EPOCH = os.environ["HOLDFAST_EPOCH"]
NEWER = Path(os.environ["CHAOS_BUGS"]) / f"newer-than-epoch-{EPOCH}"
"""Has ADDRESS and PORT of another epoch's rendezvous."""
OURS = (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
PATIENCE = timedelta(seconds=2)
"""For an answer; for ranks that should come gloo waits five times as long."""


def main() -> int:
    """Train, and cling to it where that is asked for."""
    print("rendezvous", *OURS, flush=True)
    try:
        return workload.main()
    except RuntimeError as gone:  # as torch says that of peers
        if NEWER.exists():
            for outcome in clung(gone):
                print(f"epoch {EPOCH}: {outcome}", flush=True)
        raise


def clung(gone: RuntimeError) -> Iterator[str]:
    """What came of each try.

    The newer rendezvous is the first: after a try that failed torch would look for its peers there
    under other names than theirs.
    """
    yield f"peers refused: {_first_line(gone)}"
    yield f"new rendezvous {knocked(*NEWER.read_text().split())}"
    yield f"old rendezvous {knocked(*OURS)}"


def knocked(address: str, port: str) -> str:
    """What came of a try to meet there, as the rank that this one has been.

    A process group alone is no meeting: gloo may make it where nobody has accepted it.
    """
    os.environ.update(MASTER_ADDR=address, MASTER_PORT=port)
    try:
        dist.init_process_group("gloo", timeout=PATIENCE)
        dist.all_reduce(torch.ones(1))
    except dist.DistNetworkError as nobody:
        return f"refused, nobody listens: {_first_line(nobody)}"
    except RuntimeError as unwanted:
        return f"refused, nobody there meets us: {_first_line(unwanted)}"
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return "MET AGAIN"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
