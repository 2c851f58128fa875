"""One `top`: wires the driver, the screen and the terminal. Loaded by the command alone."""

import threading
from dataclasses import asdict, replace
from pathlib import Path
from queue import Empty, SimpleQueue

from holdfast.cli.errors import not_reachable
from holdfast.cli.output import as_json, say
from holdfast.cli.top.draw import drawn, snapshot
from holdfast.cli.top.looks import Looks
from holdfast.cli.top.orders import Orders
from holdfast.cli.top.screen import Order, Reading, Screen, press
from holdfast.cli.top.terminal import Terminal


def once(url: str | None, state: Path | None, job: str | None, *, json: bool) -> None:
    """For a reader that is no terminal. Raises `Stopped` where nothing is to be had."""
    looks = Looks(url, state, job, seen=lambda: None)
    looks.look()
    if looks.facts.away:
        raise not_reachable(looks.facts.away, "")
    if json:
        as_json(asdict(looks.facts))
        return
    for line in snapshot(looks.facts):
        say(line)


class Live:
    """In a terminal. Only `run` touches the screen; threads look, and do what is asked."""

    def __init__(
        self, terminal: Terminal, url: str | None, state: Path | None, job: str | None
    ) -> None:
        self._terminal = terminal
        self._looks = Looks(url, state, job, seen=terminal.wake)
        self._orders = Orders(url, state, job)
        self._came: SimpleQueue[Reading | str] = SimpleQueue()
        self._screen = Screen(job=job or "")

    def run(self) -> None:
        """Until `q`, or a signal."""
        threading.Thread(target=self._looks.run, daemon=True).start()
        with self._terminal.taken():
            while not self._terminal.told_to_end:
                if self._looks.failed is not None:
                    raise self._looks.failed
                self._take_in()
                width, height = self._terminal.size()
                self._terminal.show(drawn(self._screen, self._looks.facts, width, height))
                if self._handled(self._terminal.keys()):
                    break
        self._looks.end()

    def _handled(self, keys: list[str]) -> bool:
        """Whether it is to end."""
        for key in keys:
            self._screen, order = press(self._screen, key, self._looks.facts)
            self._looks.choose(self._screen.job)
            if order is not None and order.what == "quit":
                return True
            if order is not None:
                threading.Thread(target=self._do, args=(order,), daemon=True).start()
        return False

    def _do(self, order: Order) -> None:
        self._came.put(self._orders.done(order))
        self._terminal.wake()

    def _take_in(self) -> None:
        """What came of orders: a text is shown unless something is being typed."""
        while True:
            try:
                came = self._came.get_nowait()
            except Empty:
                return
            if isinstance(came, str):
                self._screen = replace(self._screen, said=came)
            elif self._screen.mode is None:
                self._screen = replace(self._screen, mode=came, said="")
            else:
                self._screen = replace(self._screen, said=f"{came.title}: ask again")
