"""`holdfast`, from the first moment on: the console script, and `python -m holdfast.cli`.

Must import nothing but what begins a command: until then Ctrl-C would show where Python stands.
"""

import io
import os
import sys

from holdfast.kit import interrupt


def have_streams() -> None:
    """Where stdin, stdout or stderr is closed, it is /dev/null: else the next file that is opened
    gets its number, and whatever is printed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 for this process's life
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 likewise


def bear_encodings() -> None:
    """What the encoding of stdout has no sign for is a `?`; stderr's is spelt out by Python."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def start() -> int:
    """The command line; its exit code."""
    have_streams()
    bear_encodings()
    return interrupt.run("holdfast.cli.main", sys.argv[1:])


if __name__ == "__main__":
    sys.exit(start())
