"""The driver and the keeper of one run, and a way to ask the driver that bears its restarts.

Made by `cli.run.follow`. Must not know what is asked, nor show anything.
"""

import json
import os
from collections.abc import Callable
from typing import TypeVar

from holdfast.cli import find
from holdfast.cli.client import Client
from holdfast.cli.errors import Stopped
from holdfast.cli.pair import Pair
from holdfast.cli.run.options import Options, expected_task
from holdfast.protocol import exitcodes
from holdfast.protocol.nodeenv import EXPECTED_TASK
from holdfast.protocol.paths import RunPaths

T = TypeVar("T")

MAX_CHARACTERS = 100_000
"""Linux takes 128 KiB for one variable; a longer command is not announced, and starts as it did."""


ANSWERS_IN_S = 5.0
"""How long the driver, a process of this machine, may take for an answer. Else it counts as away:
who follows the run, and may want to end it, must not wait for one that hangs."""


class Service:
    """Both processes, from `start` to `end`."""

    def __init__(self, options: Options, paths: RunPaths) -> None:
        self._options = options
        self._paths = paths
        self._pair = Pair(paths)

    def start(self) -> None:
        """The nodes import what the script needs while the driver starts."""
        options = self._options
        expected = json.dumps(expected_task(options, self._paths.root.name))
        told = {EXPECTED_TASK: expected} if len(expected) < MAX_CHARACTERS else {}
        self._pair.start(
            nodes=options.nodes,
            standbys=options.standbys,
            node_environment={**os.environ, **told},
        )

    def look_after(self) -> None:
        """Start again what has died. Raises `Stopped` where it does not stay up."""
        self._pair.look_after()

    @property
    def driver_restarts(self) -> int:
        """How often the driver ended unasked and was started again."""
        return self._pair.driver_restarts

    def end_nodes(self) -> None:
        """Take down the nodes; the driver stays, and hears their last words."""
        self._pair.end_nodes()

    def end(self) -> None:
        """Take both down; a run that is over needs no room for more of its journal."""
        self._pair.end()
        self._paths.reserve.unlink(missing_ok=True)

    def client(self) -> Client | None:
        """The driver as it is now; None while there is none."""
        url = find.address(self._paths.root)
        if url is None or not self._paths.user_token.exists():
            return None
        return Client(url, self._paths.user_token.read_text().strip(), timeout_s=ANSWERS_IN_S)

    def ask(self, question: Callable[[Client], T]) -> T | None:
        """The answer; None while the driver is away. Raises `Problem` where it refuses."""
        client = self.client()
        if client is None:
            return None
        try:
            return question(client)
        except Stopped as stopped:
            if stopped.code != exitcodes.UNAVAILABLE:
                raise
            return None
