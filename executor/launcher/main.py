"""Entry of the launcher process, and of the child that it becomes after a fork.

`serve FD` serves orders on a socket; `cold PROGRAM` runs one program at once, without a fork, for
when there is no launcher to fork from. The child runs its program from here, at the bottom of the
stack, so that the interpreter ends as it always does: atexit, flush, exit code.
"""

import socket
from collections.abc import Sequence

import msgspec

from holdfast.executor.launcher.child import run
from holdfast.executor.launcher.orders import Program
from holdfast.executor.launcher.serve import Server


def main(arguments: Sequence[str], at_start: frozenset[str]) -> None:
    """Run as `serve FD` or `cold JSON`; `at_start` are the modules of a bare interpreter."""
    kind, value = arguments
    if kind == "cold":
        run(msgspec.json.decode(value.encode(), type=Program), at_start)
        return
    program = Server(socket.socket(fileno=int(value))).serve()
    if program is not None:
        run(program, at_start)
