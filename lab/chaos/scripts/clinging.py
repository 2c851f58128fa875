"""The built-in workload in a script that does not give up: it tries to meet its peers again.

Run as a rank by the chaos scenarios, with CHAOS_BUGS naming a folder. As long as a file there says
so it stands still at the beginning of a step, with nothing left to hear and all of it to send.
Where its peers are gone, and another file says where those of a newer attempt meet, it knocks there
and at its own rendezvous, and says what came of it. It then ends as any script that has no peers.
"""

import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from holdfast.kit.files import write_atomic
from holdfast.workload import main as workload
from holdfast.workload.train import Outcome, Trainer

ATTEMPT = os.environ["HOLDFAST_ATTEMPT"]
FOLDER = Path(os.environ["CHAOS_BUGS"])
STAND = FOLDER / f"stand-still.attempt{ATTEMPT}.rank{os.environ['RANK']}"
"""While it is there."""
AT = FOLDER / f"at.attempt{ATTEMPT}.rank{os.environ['RANK']}"
"""Gets the step that was begun last, and `stands` where it has not gone on from there."""
NEWER = FOLDER / f"newer-than-attempt-{ATTEMPT}"
"""Has ADDRESS and PORT of another attempt's rendezvous."""
LOOK_S = 0.02
OURS = (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
PATIENCE = timedelta(seconds=2)
"""For an answer; for ranks that should come gloo waits five times as long."""


_step = Trainer.step


def step_or_stand(self: Trainer) -> Outcome:
    """A step, once it may be done."""
    while STAND.exists():
        write_atomic(AT, f"{self.progress.step} stands".encode())
        time.sleep(LOOK_S)
    write_atomic(AT, f"{self.progress.step}".encode())
    return _step(self)


def main() -> int:
    """Train, and cling to it where that is asked for."""
    print("rendezvous", *OURS, flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        return workload.main()
    except RuntimeError as gone:  # as torch says that of peers
        if NEWER.exists():
            for outcome in clung(gone):
                print(f"attempt {ATTEMPT}: {outcome}", flush=True)
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
    setattr(Trainer, "step", step_or_stand)  # noqa: B010 - a user who patches a library
    sys.exit(main())
