"""`python -m holdfast.executor.main`: imports the executor, and is it. See `executor.process`.

Python's garbage collector rests meanwhile: what is imported stays, and to look at it again and
again is a fifth of the start.
"""

import sys

from holdfast.kit import garbage


def main() -> int:
    """Run until told to end. The exit code, see `protocol.exitcodes`."""
    with garbage.kept():
        from holdfast.executor.process import run
    return run()


if __name__ == "__main__":
    sys.exit(main())
