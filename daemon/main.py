"""`python -m holdfast.daemon.main`: imports a node's daemon, and is it. See `daemon.process`.

Python's garbage collector rests meanwhile: what is imported stays, and to look at it again and
again is a fifth of the start.
"""

import sys

from holdfast.kit import garbage


def main() -> int:
    """Watch until told to end or the host is gone. The exit code, see `protocol.exitcodes`."""
    with garbage.kept():
        from holdfast.daemon.process import run
    return run()


if __name__ == "__main__":
    sys.exit(main())
