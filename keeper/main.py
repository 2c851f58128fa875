"""`python -m holdfast.keeper.main`: imports the keeper, and is it. See `keeper.process`.

Python's garbage collector rests meanwhile: what is imported stays, and to look at it again and
again is a fifth of the start.
"""

import sys

from holdfast.kit import garbage


def main() -> int:
    """Keep nodes until told to end. The exit code, see `protocol.exitcodes`."""
    with garbage.kept():
        from holdfast.keeper.process import main as keep
    return keep()


if __name__ == "__main__":
    sys.exit(main())
