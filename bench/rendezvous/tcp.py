"""The same clients with torch's TCPStore: each asks for every address, as gloo has it done.

Used by `benchmark`. All but one have come and wait in none of them; they ask from a few threads,
each client over a connection of its own. Reading is begun only once the last has come, so nothing
of a wait is in it: the figure is rather too good than too bad for the store.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import TCPStore

from holdfast.bench.rendezvous.standing import LIMIT_S, address

THREADS = 16
CONNECTING = 512
"""At once: torch looks each peer's name up, which takes seconds where no nameserver answers."""

Ask = Callable[[Any, list[str]], None]


def one_by_one(store: Any, keys: list[str]) -> None:
    """As gloo does."""
    for key in keys:
        store.wait([key])
        store.get(key)


def at_once(store: Any, keys: list[str]) -> None:
    """As `rendezvous.one_trip` does."""
    store.multi_get(keys)


def seconds(clients: int, ask: Ask) -> float:
    """From the arrival of the last client until each has read all addresses."""
    limit = timedelta(seconds=LIMIT_S)
    server = TCPStore("127.0.0.1", 0, None, True, limit, wait_for_workers=False)
    with ThreadPoolExecutor(CONNECTING) as threads:
        stores = list(threads.map(lambda _: _connected(server.port, limit), range(clients)))
    keys = [f"addresses/{client}" for client in range(clients)]
    for client in range(clients - 1):
        stores[client].set(keys[client], address(client))
    with ThreadPoolExecutor(THREADS) as threads:
        began = time.perf_counter()
        stores[-1].set(keys[-1], address(clients - 1))
        list(threads.map(lambda store: ask(store, keys), stores))
        return time.perf_counter() - began


def _connected(port: int, limit: timedelta) -> Any:
    return TCPStore("127.0.0.1", port, None, False, limit)
