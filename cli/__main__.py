"""`holdfast`, from the first moment on: the console script, and `python -m holdfast.cli`.

Must import nothing but what begins a command: until then Ctrl-C would show where Python stands.
"""

import sys

from holdfast.kit import interrupt


def start() -> int:
    """The command line; its exit code."""
    return interrupt.run("holdfast.cli.main", sys.argv[1:])


if __name__ == "__main__":
    sys.exit(start())
