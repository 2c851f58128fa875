"""Where the rank's main thread stands: its stack as a number, and its line in the user's own code.

Called by the recorder's pulse, in a thread of the rank: nobody needs the right to trace it, and a
line that a whole loop of Python spins at is always the same one, for threads change hands only
where loops turn and functions are called. So is the instruction in it, unless the loop calls
something: one that computes in C code is seen now in this call, now in that. Must not keep a frame:
that keeps its variables.
"""

import os
import sys
import threading
from types import CodeType, FrameType
from typing import Final

from holdfast.telemetry import schema
from holdfast.telemetry.analysis.installed import is_installed
from holdfast.telemetry.ring import RingWriter

MOST_FRAMES: Final = 100
"""Of a deeper stack the innermost are looked at, twenty times a second."""
_MASK = (1 << 64) - 1


def _own_folders() -> tuple[str, ...]:
    """Where Holdfast's packages lie, and no more: a user's script may lie in a clone of it, too."""
    holdfast = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    packages = (entry.path for entry in os.scandir(holdfast) if entry.is_dir())
    places = dict.fromkeys([holdfast, *map(os.path.realpath, packages)])
    return tuple(f"{place}{os.sep}" for place in places)


_LIBRARIES = (f"{os.path.dirname(os.__file__)}{os.sep}", *_own_folders())


class Frames:
    """The stack of the thread that made this, from another thread."""

    def __init__(self, ring: RingWriter) -> None:
        self._ring = ring
        self._thread = threading.get_ident()
        self._theirs: dict[CodeType, bool] = {}
        self._known = (0, b"")
        self.since_s = 0.0
        """Since when the thread has stood there."""

    def sample(self, now_s: float) -> bool:
        """Put into the ring where the thread stands; False where it cannot be known."""
        try:
            top = sys._current_frames().get(self._thread)
            known = (0, b"") if top is None else self._read(top)
        except Exception:  # noqa: BLE001 whatever it is, the rank is not ended by it
            return False
        if known != self._known:
            self._known, self.since_s = known, now_s
            self._ring.frame(*known)
        return known[0] != 0

    def _read(self, top: FrameType) -> tuple[int, bytes]:
        places: list[tuple[int, int]] = []
        user: FrameType | None = None
        frame: FrameType | None = top
        while frame is not None and len(places) < MOST_FRAMES:
            places.append((id(frame.f_code), frame.f_lasti))
            user = frame if user is None and self._is_theirs(frame.f_code) else user
            frame = frame.f_back
        return (hash(tuple(places)) & _MASK) or 1, _text(user or top)

    def _is_theirs(self, code: CodeType) -> bool:
        known = self._theirs.get(code)
        if known is None:
            name = code.co_filename
            known = not (is_installed(name) or name.startswith(_LIBRARIES))
            self._theirs[code] = known
        return known


def _text(frame: FrameType) -> bytes:
    """`evaluate (train.py:31)`: the line that runs."""
    code = frame.f_code
    line = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    name = code.co_name.encode(errors="replace")
    place = f" ({line})".encode(errors="replace")[-schema.FRAME_TEXT_BYTES :]
    return name[: schema.FRAME_TEXT_BYTES - len(place)] + place
