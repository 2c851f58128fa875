"""What of the state a commit writes: all of it, or what changed since the commit before. Pure.

Kept by the loop. The first commit of a term writes all, for nobody knows what an earlier Holdfast
left; then each writes what changed, until that has grown beyond what all of it would be.
"""

from holdfast.driver.core.codec.encode import encode, encode_change
from holdfast.driver.core.state.model import State


class Deltas:
    """Counts what has been written since the state was last written whole."""

    def __init__(self) -> None:
        self._whole_bytes: int | None = None
        self._changed_bytes = 0

    def of(self, before: State, after: State) -> tuple[bytes, bool]:
        """What to write, and whether that is only what changed since `before`, which is there."""
        if self._whole_bytes is None or self._changed_bytes > self._whole_bytes:
            return encode(after), False
        return encode_change(before, after), True

    def done(self, written: bytes, *, change: bool) -> None:
        """It is in the journal."""
        if change:
            self._changed_bytes += len(written)
        else:
            self._whole_bytes, self._changed_bytes = len(written), 0
