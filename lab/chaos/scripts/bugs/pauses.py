"""No step for a while, and nothing is wrong: evaluations, saves, uploads, garbage."""

import gc
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial

import torch

from holdfast.workload.train import Trainer

PAUSES_S = (8.0, 30.0)
"""Below and above what a rank may be stuck (`--stuck-max`, 15 s by default)."""
CHUNK = bytes(1 << 16)
CHUNKS_A_S = 20
SAVED_MIB = 64
GARBAGE = 300_000
"""Objects in cycles, collected in some 0.1 s."""


def evaluate(seconds: float, _trainer: Trainer) -> None:
    """Work all the time."""
    model, until = torch.nn.Identity().eval(), time.monotonic() + seconds
    while time.monotonic() < until:
        model(torch.ones(64, 64)).matmul(torch.ones(64, 64))
    model.train()


def idle(seconds: float, _trainer: Trainer) -> None:
    """Nothing moves: another program takes its time."""
    subprocess.run(["sleep", f"{seconds:g}"], check=True)


def sleep(seconds: float, _trainer: Trainer) -> None:
    time.sleep(seconds)


def send(seconds: float, _trainer: Trainer) -> None:
    """An upload, over TCP, of a megabyte a second."""
    ours, theirs = _connected()
    reader = threading.Thread(target=_read_all, args=(theirs,), daemon=True)
    reader.start()
    with ours:
        for _ in range(int(seconds * CHUNKS_A_S)):
            ours.sendall(CHUNK)
            time.sleep(1 / CHUNKS_A_S)
    reader.join()


def burn(seconds: float, _trainer: Trainer) -> None:
    """Python computes, in no pause that anybody marked."""
    until, words = time.monotonic() + seconds, dict[int, str]()
    while time.monotonic() < until:
        _tokenized(words)


def multiply(seconds: float, _trainer: Trainer) -> None:
    """A loop of one line, but for its condition, that computes outside of the interpreter."""
    until, x = time.monotonic() + seconds, torch.eye(256)
    while time.monotonic() < until:
        x = torch.tanh(x @ x)


def ask(seconds: float, _trainer: Trainer) -> None:
    """A few bytes twice a second, at one line: a server that is asked whether it is done."""
    ours, theirs = _connected()
    reader = threading.Thread(target=_read_all, args=(theirs,), daemon=True)
    reader.start()
    with ours:
        for _ in range(int(2 * seconds)):
            ours.sendall(b"done?")
            time.sleep(0.5)
    reader.join()


def save(_trainer: Trainer) -> None:
    """By itself, beside what Holdfast saves: a file that is written and synced."""
    with open(f"own-save.rank{os.environ['RANK']}", "wb") as file:
        file.write(bytes(SAVED_MIB << 20))
        file.flush()
        os.fsync(file.fileno())


def collect(_trainer: Trainer) -> None:
    """One time in five, at random, garbage that takes a while, and then another while."""
    if random.random() > 0.2:
        return
    for _ in range(GARBAGE):
        cycle: list[object] = []
        cycle.append(cycle)
    gc.collect()
    time.sleep(random.uniform(0.05, 0.3))


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        return ours, server.accept()[0]


def _read_all(theirs: socket.socket) -> None:
    with theirs:
        while theirs.recv(1 << 20):
            pass


def _tokenized(words: dict[int, str]) -> None:
    for number in range(1_000):
        words[number] = str(number)
    _sorted(words)


def _sorted(words: dict[int, str]) -> None:
    sorted(words.values(), key=len)


OF_SECONDS = {
    "evaluate": evaluate,
    "idle": idle,
    "sleep": sleep,
    "send": send,
    "ask": ask,
    "burn": burn,
    "multiply": multiply,
}
BUGS: dict[str, Callable[[Trainer], None]] = {
    **{
        f"{name}-{seconds:g}": partial(pause, seconds)
        for name, pause in OF_SECONDS.items()
        for seconds in PAUSES_S
    },
    "save": save,
    "collect": collect,
}
