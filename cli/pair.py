"""A driver and the keeper of its nodes, both on this machine: they start and end together.

Used by `holdfast run` and by `holdfast driver --local-nodes`. Must not ask the driver anything.
"""

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from holdfast.cli.errors import Stopped
from holdfast.daemon.settings import mistakes
from holdfast.driver.adapters.tokens import load_tokens
from holdfast.executor.adapters.room import is_full, to_free_mib
from holdfast.keeper import warmed
from holdfast.keeper.processes import RUN_MARK
from holdfast.kit.supervise import Child, DoesNotStayUp, Lifeline, end_all
from holdfast.protocol import exitcodes
from holdfast.protocol.forkserving import Program
from holdfast.protocol.paths import RunPaths

NODES_END_S = 3.0
"""They take 0.2 s, and a second where one of their processes does not end; killed later."""


class Pair:
    """Both processes, from `start` to `end`; they end with this one, however it ends."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._lifeline = Lifeline()
        self._children: list[Child] = []
        self._asker = warmed.Asker()
        self._imports: dict[str, str] | None = None

    def start(
        self,
        *driver_options: str,
        nodes: int,
        standbys: int,
        node_environment: Mapping[str, str] | None = None,
    ) -> None:
        """Side by side: the driver's socket has its name before it is there, and the nodes their
        token; they import what a script needs while the driver starts. The keeper carries its mark
        from the first moment on: without, it would start itself anew to have it. Raises `Stopped`
        (2) where the nodes would refuse a variable.
        """
        if wrong := mistakes(node_environment or os.environ):
            raise Stopped(" ".join(wrong), code=exitcodes.USAGE)
        root, mark = self._paths.root, secrets.token_hex(6)
        load_tokens(self._paths)
        self._imports = warmed.imports_of(node_environment or {})
        keeper = ("--keeper", str(root / "keeper.sock"))
        self._child("driver", "--state", str(root), *keeper, *driver_options)
        self._child(
            "keeper",
            *("--state", str(root)),
            *("--nodes", str(nodes), "--standbys", str(standbys)),
            *("--driver", f"unix:{self._paths.socket}"),
            *("--token-file", str(self._paths.node_token)),
            *("--run-id", mark),
            environment={**(node_environment or os.environ), RUN_MARK: mark},
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
            forked=partial(self._forked, environment or os.environ, name),
        )
        self._children.append(child)
        child.look_after(time.monotonic())

    def _forked(
        self, environment: Mapping[str, str], name: str, module: str, arguments: Sequence[str]
    ) -> int | None:
        """From the fork server of `holdfast warm`, where there is one that fits."""
        if self._imports is None:
            return None
        program = Program(
            module=module,
            title=name,
            arguments=tuple(arguments),
            environment=dict(environment),
            log=str(self._paths.root / f"{name}.log"),
        )
        return self._asker.process(
            program,
            imports=self._imports,
            marks={RUN_MARK: environment[RUN_MARK]} if RUN_MARK in environment else {},
            lifeline=self._lifeline.read_fd,
        )

    def look_after(self) -> None:
        """Start again what has died. Raises `Stopped` where it does not stay up."""
        try:
            for child in self._children:
                child.look_after(time.monotonic())
        except DoesNotStayUp as failure:
            raise _stopped(failure, self._paths.root) from failure

    @property
    def driver_restarts(self) -> int:
        """How often the driver ended unasked and was started again."""
        return sum(max(0, child.starts - 1) for child in self._children if child.name == "driver")

    def end_nodes(self) -> None:
        """Take down the nodes alone; their daemons tell the driver what they have not yet."""
        keeper = next((child for child in self._children if child.name == "keeper"), None)
        if keeper is not None:
            keeper.ask_to_end(NODES_END_S)

    def end(self) -> None:
        """Take both down, with every node."""
        end_all(self._children, self._lifeline)


def _stopped(failure: DoesNotStayUp, root: Path) -> Stopped:
    """In words. On a full disk, where a log has no room for its last lines, the disk alone."""
    if is_full(root):
        why = f"the {failure.name} does not stay up: the disk of {root} is full."
        return Stopped(why, fix=f"Free at least {to_free_mib(root)} MiB there.")
    return Stopped(
        f"the {failure.name} does not stay up (exit code {failure.code}).",
        fix=f"Its log: {failure.log}",
        details=failure.last_lines,
    )
