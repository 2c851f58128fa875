"""A rank ends before it should."""

import os
import resource
import signal
import sys

from holdfast.workload.train import Trainer

HOARDED_MIB = 64


def fail(_trainer: Trainer) -> None:
    raise ValueError("the label of sample 17 is not in the vocabulary")


def leave(_trainer: Trainer) -> None:
    """As if this rank's data ended earlier than those of its peers."""
    sys.exit(0)


def hoard(_trainer: Trainer) -> None:
    """Keep all that was ever read, until the kernel says no."""
    kept = []
    while True:
        kept.append(os.urandom(HOARDED_MIB << 20))


def open_files(_trainer: Trainer) -> None:
    """Never close what was opened."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    kept = []
    while True:
        kept.append(open(__file__))  # noqa: SIM115 - that is the bug


def crash(_trainer: Trainer) -> None:
    """As native code does: without a word."""
    os.kill(os.getpid(), signal.SIGSEGV)


BUGS = {"raise": fail, "crash": crash, "leave": leave, "hoard": hoard, "open": open_files}
