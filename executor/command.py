"""What a command is: a Python program that the launcher can fork, or something to exec. Pure but
for looking files up.

Called by the spawner. Must not run anything.
"""

import os
import shutil
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from holdfast.executor.launcher.orders import Program


class NotStartable(Exception):
    """The command cannot be run; `exit_code` is what a shell would say, 126 or 127."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def resolve(command: Sequence[str], env: Mapping[str, str], workdir: str) -> str:
    """The file to execute for `command`. Raises `NotStartable` naming field, value and fix."""
    _refuse_unusable(command, env, workdir)
    if not os.path.isdir(workdir):
        raise NotStartable(
            126, f"workdir: {workdir!r} is not a folder on this node. Give the path of one that is."
        )
    if not os.access(workdir, os.R_OK | os.X_OK):
        raise NotStartable(
            126,
            f"workdir: {workdir!r} is not readable for this user. Allow reading it (chmod +rx).",
        )
    name = command[0]
    path = os.path.join(workdir, name) if os.sep in name else name
    found = shutil.which(path, path=env.get("PATH", os.defpath))
    if found is not None:
        return os.path.abspath(found)
    if os.sep in name and os.path.exists(path):
        raise NotStartable(126, f"command: {name!r} is not executable. Allow it (chmod +x).")
    if os.sep in name:
        where, fix = f"in {workdir}", "Name a file that is."
    else:
        where, fix = "on PATH", "Give its whole path, or add its folder to PATH in env."
    raise NotStartable(127, f"command: {name!r} was not found {where}. {fix}")


def _refuse_unusable(command: Sequence[str], env: Mapping[str, str], workdir: str) -> None:
    """What the kernel would not even look at: execve(2) takes C strings, and `NAME=value`."""
    texts = {f"command[{place}]": text for place, text in enumerate(command)}
    texts |= {f"env[{name!a}]": name + value for name, value in env.items()} | {"workdir": workdir}
    for field, text in texts.items():
        if "\0" in text:
            shown = "its value" if field.startswith("env") else f"{text[:80]!a}"  # no secrets
            raise NotStartable(126, f"{field}: {shown} has a NUL character. Remove it.")
    for name in env:
        if not name or "=" in name:
            raise NotStartable(126, f"env: {name!a} is no name of a variable. Rename it.")


def python_program(found: str, command: Sequence[str], interpreter: str) -> Program | None:
    """`command` as a program for the launcher, or None where `found` has to be executed.

    It has to be this very interpreter (another has other packages), with no option but -u and -c,
    -m or a file: a folder or a zip file is left to Python itself.
    """
    if not _same_interpreter(found, interpreter):
        return None
    rest = list(command[1:])
    unbuffered = False
    while rest and rest[0] == "-u":
        unbuffered = bool(rest.pop(0))
    if not rest:
        return None
    if rest[0] in ("-m", "-c") and len(rest) > 1:
        program = Program(module=rest[1]) if rest[0] == "-m" else Program(code=rest[1])
        return replace(program, arguments=tuple(rest[2:]), unbuffered=unbuffered)
    if rest[0].startswith("-") or not rest[0].endswith(".py"):
        return None
    return Program(script=rest[0], arguments=tuple(rest[1:]), unbuffered=unbuffered)


def _same_interpreter(found: str, interpreter: str) -> bool:
    """The same file in the same folder: a virtual environment is known by its folder."""
    same_folder = os.path.dirname(found) == os.path.dirname(os.path.abspath(interpreter))
    return same_folder and os.path.realpath(found) == os.path.realpath(interpreter)
