"""`python -m holdfast.driver.main`: imports the driver, and is it. See `driver.process`.

Python's garbage collector rests meanwhile: what is imported stays, and to look at it again and
again is a tenth of the start.
"""

import sys
from collections.abc import Sequence

from holdfast.kit import garbage


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a driver until it is told to end. The exit code, see `protocol.exitcodes`."""
    with garbage.kept():
        from holdfast.driver.process import run
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
