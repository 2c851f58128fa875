"""The forked child on its way to being the user's program, as `python` itself would run it.

`become` is called right after the fork, `run` at the bottom of the stack. Must leave nothing of the
launcher to be seen: not its arguments, its main module, its environment, or its descriptors.
"""

import importlib.util
import io
import os
import runpy
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader

from holdfast.executor.launcher import interrupted, naming, traces
from holdfast.executor.launcher.importing import evict_shadowed, user_folders
from holdfast.executor.launcher.leaving import leave
from holdfast.executor.launcher.orders import Program
from holdfast.executor.launcher.readable import let_be_read
from holdfast.kit.plain import visible

QUOTED_CHARACTERS = 80
"""Of the line of a program that is no text."""


def become(program: Program, stdout: int, stderr: int) -> None:
    """Leave the launcher's session, folder, output and environment, and let py-spy look."""
    os.setsid()
    let_be_read()
    os.chdir(program.workdir)
    stdin = os.open(os.devnull, os.O_RDONLY)
    for fd, target in ((stdin, 0), (stdout, 1), (stderr, 2)):
        os.dup2(fd, target)
    os.close(stdin)
    for name in program.unset:
        os.environ.pop(name, None)
    os.environ.update(program.env)


def run(program: Program, at_start: frozenset[str]) -> None:
    """Run the program as `__main__`, and end this process as the program ends.

    `at_start` are the modules of a bare interpreter, which no file of the program can replace.
    """
    _settle(program)
    if program.record:
        sys.meta_path.insert(0, Recorder(program.record))
    if program.hooks:
        _install_hooks()
    interrupted.not_dropped()
    ended: BaseException | None = None
    try:
        _execute(program, at_start)
    except SystemExit as stop:
        ended = stop
    except BaseException as error:  # noqa: BLE001 - the end of the line: printed as python does
        traces.strip(error)
        sys.excepthook(type(error), error, error.__traceback__)
        ended = KeyboardInterrupt() if isinstance(error, KeyboardInterrupt) else SystemExit(1)
    if program.hooks:
        _is_seen_to_end()
    leave(ended)


def _settle(program: Program) -> None:
    """Output unbuffered enough, a name for `ps`, and generators seeded as in a new interpreter:
    at random (`random` does that by itself after a fork).
    """
    unbuffered = program.unbuffered or bool(os.environ.get("PYTHONUNBUFFERED"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=unbuffered)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()
    if program.title:
        naming.call(program.title, _command(program))


def _command(program: Program) -> list[str]:
    """As it would have been typed."""
    what = [program.script] if program.script else ["-m", program.module]
    if program.code:
        what = ["-c", program.code]
    return [os.path.basename(sys.executable), *what, *program.arguments]


def _install_hooks() -> None:
    from holdfast.rendezvous import install
    from holdfast.telemetry import hooks

    hooks.install()
    install.install()


def _is_seen_to_end() -> None:
    from holdfast.telemetry import current

    current.ends = True


def _execute(program: Program, at_start: frozenset[str]) -> None:
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = main
    if program.script:
        _execute_script(program, main, at_start)
    elif program.module:
        _search([os.getcwd()], [program.module, *program.arguments], at_start)
        sys.modules.pop(program.module, None)  # loaded for what it imports; it runs as __main__
        runpy._run_module_as_main(program.module)  # type: ignore[attr-defined]
    else:
        _search([""], ["-c", *program.arguments], at_start)
        exec(compile(program.code, "<string>", "exec", dont_inherit=True), main.__dict__)


def _execute_script(program: Program, main: types.ModuleType, at_start: frozenset[str]) -> None:
    path = os.path.abspath(program.script)
    _search(
        [os.path.dirname(os.path.realpath(path))], [program.script, *program.arguments], at_start
    )
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        print(f"{sys.executable}: can't open file {path!r}: {reason}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    loader = SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    exec(_compiled(source, path), main.__dict__)


def _compiled(source: bytes, path: str) -> types.CodeType:
    """Raises `SyntaxError`. Of a file that is no text `compile` does not say which it is."""
    if (at := source.find(b"\0")) >= 0:
        before = source[:at].decode(errors="replace").split("\n")
        place = (path, len(before), None, visible(before[-1])[:QUOTED_CHARACTERS])
        raise SyntaxError("source code cannot contain null bytes", place)
    return compile(source, path, "exec", dont_inherit=True)


def _search(first: list[str], argv: list[str], at_start: frozenset[str]) -> None:
    """Put the script's folder first on the search path, and its modules before ours."""
    sys.path[:0] = first
    sys.argv[:] = argv
    sys.orig_argv[:] = [sys.executable, *argv]
    folders = [path or os.getcwd() for path in first]
    evict_shadowed([*folders, *user_folders()], at_start)
    importlib.invalidate_caches()


class Recorder:
    """Notes every module that is looked for, at the cost of one small write; finds none."""

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o644)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        os.write(self._fd, name.encode() + b"\n")
        return None
