"""Begins a command so that Ctrl-C never shows a traceback, not even while Python still imports.

Called by `cli.__main__` and, as `python -m`, by the process that `holdfast driver` becomes. Must
import nothing that takes time: Ctrl-C before its first line meets the bare interpreter.
"""

import gc
import signal
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def run(module: str, arguments: list[str]) -> int:
    """`main(arguments)` of `module`, in which Ctrl-C raises `KeyboardInterrupt` as anywhere.

    While the module is imported, and after its end, there is nothing to put away: there Ctrl-C ends
    the process as the signal that it is. Where it is ignored, as in a script's background, it stays
    so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return _main_of(module)(arguments)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = _main_of(module)
    sys.unraisablehook = _unraisable
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return main(arguments)
    except KeyboardInterrupt:
        _end()
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _main_of(module: str) -> "Callable[[list[str]], int]":
    """Imported while Python's garbage collector rests: a quarter of the time, and it all stays."""
    gc.disable()
    try:
        main: Callable[[list[str]], int] = import_module(module).main
    finally:
        gc.freeze()
        gc.enable()
    return main


def _end() -> None:
    """End this process by the signal, whatever is under way in it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)


def _unraisable(told: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C within a destructor would be printed and forgotten: there too it ends the process."""
    if issubclass(told.exc_type, KeyboardInterrupt):
        _end()
    sys.__unraisablehook__(told)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
