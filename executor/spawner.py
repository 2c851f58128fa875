"""Starts processes: forked warm where that can be, executed plainly where not.

Called by `executor.loop` and `executor.ranks`. Knows which task the launcher is warm for, and keeps
the list of modules that the task's ranks have imported.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from holdfast.executor.adapters.children import Children, OnExit
from holdfast.executor.adapters.launcher import Launcher, NoLauncher
from holdfast.executor.command import NotStartable, python_program, resolve
from holdfast.executor.launcher import BOOT
from holdfast.executor.launcher.orders import Program
from holdfast.executor.launcher.readable import let_be_read
from holdfast.executor.launcher.scan import modules_of
from holdfast.executor.settings import Ready
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import Task
from holdfast.protocol.rankenv import base_environment

_log = LazyLogger()

HOOKS = "holdfast.telemetry.hooks"
"""Imported by each forked rank before its script."""

RANK_OOM_SCORE = "1000"
"""A rank is the kernel's first choice when memory runs out, not the executor that reports it. The
highest there is, which nobody is refused: a kubelet gives all of a pod up to 999.
"""


class Spawner:
    """One for the executor; `warm` makes it ready for a task."""

    def __init__(
        self,
        children: Children,
        notes: Path,
        on_launcher: Callable[[str], None],
        ready: Ready | None = None,
    ) -> None:
        self._children = children
        self._notes = notes
        self._on_launcher = on_launcher
        self._record: Path | None = None
        self._noted = 0
        self.launcher = Launcher(children, on_launcher, ready)
        self.modules: tuple[str, ...] = ()

    def warm(self, task: Task) -> None:
        """Have a launcher that has imported what the text of `task` names and what its attempts so
        far have imported besides. A command that is not Python of this installation needs none.
        """
        task = _absolute(task)
        env = self.environment(task)
        try:
            found = resolve(task.command, env, task.workdir)
        except NotStartable as error:
            self.launcher.close(str(error))
            return
        program = python_program(found, task.command, sys.executable)
        if program is None:
            self.launcher.close(f"{task.command[0]} is not a script of {sys.executable}")
            self.modules = ()
            return
        self._record = self._file_of(task)
        self._noted = 0
        self.modules = (HOOKS, *_scanned(program, task.workdir), *self._recorded())
        self.launcher.prepare(env, task.workdir, self.modules)

    def environment(self, task: Task) -> dict[str, str]:
        """What all ranks of the task have in common."""
        return base_environment(os.environ, task)

    def learn(self) -> None:
        """Have the launcher import what the running ranks have imported since they started."""
        names = self._recorded()
        if len(names) > self._noted:
            self._noted = len(names)
            self.modules = tuple(dict.fromkeys((*self.modules, *names)))
            self.launcher.import_more(self.modules)

    def hold_ready(self, spares: int) -> None:
        """Have so many ranks-to-be that only wait for their programs."""
        self.launcher.hold_ready(spares)

    async def uses_torch(self) -> bool:
        """Whether the task imports torch, of itself or through what it names.

        Known of a launcher that has imported all of that; without one, by the names alone.
        """
        if await self.launcher.warm():
            return self.launcher.has_torch
        return any(name.partition(".")[0] == "torch" for name in self.modules)

    def _file_of(self, task: Task) -> Path | None:
        """Where the modules of `task` are noted; None, and said, where they cannot be."""
        try:
            self._notes.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _log.warning("imports are not noted", path=str(self._notes), why=error.strerror)
            return None
        return self._notes / f"{_digest(task)}.modules"

    def _recorded(self) -> list[str]:
        if self._record is None:
            return []
        try:
            return list(dict.fromkeys(self._record.read_text(encoding="utf-8").split()))
        except (OSError, UnicodeDecodeError):
            return []

    async def start_rank(
        self,
        task: Task,
        own_env: Mapping[str, str],
        *,
        title: str,
        record: bool,
        stdout: int,
        stderr: int,
        on_exit: OnExit,
    ) -> int:
        """Start the task's command with `own_env` on top; its pid. Raises `NotStartable`."""
        task = _absolute(task)
        env = self.environment(task)
        whole = {**env, **own_env}
        found = resolve(task.command, whole, task.workdir)
        program = python_program(found, task.command, sys.executable)
        if program is None:
            command = [found, *task.command[1:]]
            pid = self._execute(command, whole, task.workdir, stdout, stderr, on_exit)
        else:
            program = replace(
                program,
                workdir=task.workdir,
                env=dict(own_env),
                title=title,
                hooks=True,
                record=str(self._record) if record and self._record else "",
            )
            pid = await self.start(program, env, stdout=stdout, stderr=stderr, on_exit=on_exit)
        _offer_to_oom(pid)
        return pid

    async def start(
        self,
        program: Program,
        env: Mapping[str, str],
        *,
        stdout: int,
        stderr: int,
        on_exit: OnExit,
    ) -> int:
        """Start a Python program, from the launcher or else cold; its pid.

        Raises `NotStartable`.
        """
        forced, unset = self.launcher.forced(env)
        warm = replace(program, env={**forced, **program.env}, unset=unset)
        try:
            pid = await self.launcher.fork(warm, stdout, stderr)
        except NoLauncher:
            text = msgspec.json.encode(program).decode()
            command = [sys.executable, "-c", BOOT, "cold", text]
            merged = {**env, **program.env}
            return self._execute(command, merged, program.workdir, stdout, stderr, on_exit)
        self._children.watch(pid, on_exit)
        return pid

    def _execute(
        self,
        command: list[str],
        env: Mapping[str, str],
        workdir: str,
        stdout: int,
        stderr: int,
        on_exit: OnExit,
    ) -> int:
        try:
            return self._children.spawn(
                command,
                on_exit,
                env=env,
                cwd=workdir,
                stdout=stdout,
                stderr=stderr,
                before=let_be_read,
            )
        except (OSError, ValueError) as error:  # ValueError: what no C string can carry
            why = error.strerror if isinstance(error, OSError) else error
            raise NotStartable(
                126, f"command: {command[0]!r} could not be executed: {why}. Change command or env."
            ) from error


def _absolute(task: Task) -> Task:
    """A relative working directory is relative to the executor's own."""
    return replace(task, workdir=os.path.abspath(task.workdir))


def _digest(task: Task) -> str:
    """A name for what is run where; its arguments matter too, for they choose what is imported."""
    text = "\0".join((*task.command, task.workdir, sys.executable))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _scanned(program: Program, workdir: str) -> list[str]:
    return modules_of(
        script=program.script, module=program.module, code=program.code, workdir=workdir
    )


def _offer_to_oom(pid: int) -> None:
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(RANK_OOM_SCORE, encoding="ascii")
    except OSError:
        return  # it has ended already, or this host does not let us: the score stays as it was
