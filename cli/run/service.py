"""The driver and the keeper of one run, and a way to ask the driver that bears its restarts.

Made by `cli.run.follow`. Must not know what is asked, nor show anything.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from holdfast.cli import find
from holdfast.cli.client import Client
from holdfast.cli.errors import Stopped
from holdfast.cli.run.options import Options, expected_task
from holdfast.driver.adapters.tokens import load_tokens
from holdfast.kit.supervise import Child, DoesNotStayUp, Lifeline, end_all
from holdfast.protocol import exitcodes
from holdfast.protocol.nodeenv import EXPECTED_TASK
from holdfast.protocol.paths import RunPaths

T = TypeVar("T")

MAX_CHARACTERS = 100_000
"""Linux takes 128 KiB for one variable; a longer command is not announced, and starts as it did."""


class Service:
    """Both processes, from `start` to `end`."""

    def __init__(self, options: Options, paths: RunPaths) -> None:
        self._options = options
        self._paths = paths
        self._lifeline = Lifeline()
        self._children: list[Child] = []

    def start(self) -> None:
        """Side by side: the driver's socket has its name before it is there, and the nodes their
        token; they import what the script needs while the driver starts.
        """
        root, options = self._paths.root, self._options
        load_tokens(self._paths)
        expected = json.dumps(expected_task(options, root.name))
        told = {EXPECTED_TASK: expected} if len(expected) < MAX_CHARACTERS else {}
        self._child("driver", "--state", str(root), "--keeper", str(root / "keeper.sock"))
        self._child(
            "keeper",
            *("--state", str(root)),
            *("--nodes", str(options.nodes), "--standbys", str(options.standbys)),
            *("--driver", f"unix:{self._paths.socket}"),
            *("--token-file", str(self._paths.node_token)),
            environment={**os.environ, **told},
        )

    def _child(
        self, name: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        child = Child(
            name,
            f"holdfast.{name}.main",
            arguments,
            log=self._paths.root / f"{name}.log",
            lifeline=self._lifeline,
            environment=environment,
        )
        self._children.append(child)
        child.look_after(time.monotonic())

    def look_after(self) -> None:
        """Start again what has died. Raises `Stopped` where it does not stay up."""
        try:
            for child in self._children:
                child.look_after(time.monotonic())
        except DoesNotStayUp as failure:
            raise Stopped(
                f"the {failure.name} does not stay up (exit code {failure.code}).",
                fix=f"Its log: {failure.log}",
                details=failure.last_lines,
            ) from failure

    def end(self) -> None:
        """Take both down; a run that is over needs no room for more of its journal."""
        end_all(self._children, self._lifeline)
        self._paths.reserve.unlink(missing_ok=True)

    def client(self) -> Client | None:
        """The driver as it is now; None while there is none."""
        url = find.address(self._paths.root)
        if url is None or not self._paths.user_token.exists():
            return None
        return Client(url, self._paths.user_token.read_text().strip())

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
