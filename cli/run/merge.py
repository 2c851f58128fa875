"""Lines of several ranks made into one stream: prefixed only when the ranks differ. Pure.

Called with what the tails read. A line that every rank prints is shown once; while only one rank
has ever printed, nothing is prefixed but an exception, which has its rank.
"""

from collections import deque

SAME_LINE_S = 0.25
"""How long a line waits for the other ranks to print the same one: a blink."""


class Merge:
    """One output stream (stdout or stderr) of `ranks` ranks."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._waiting: dict[int, deque[tuple[float, bytes]]] = {r: deque() for r in range(ranks)}
        self._rest: dict[int, bytes] = {}
        self._printed: set[int] = set()
        self._named = False

    def name_ranks(self) -> None:
        """From now on say whose a line is, unless it is everybody's, even if only one has any."""
        self._named = self._ranks > 1

    def add(self, rank: int, data: bytes, now: float) -> None:
        """Take what `rank` wrote; a line is complete at a newline or a carriage return."""
        *whole, rest = _lines(self._rest.pop(rank, b"") + data)
        if rest and self._ranks == 1:
            whole.append(rest)  # nothing to tell apart: a prompt or a progress bar goes out at once
        elif rest:
            self._rest[rank] = rest
        self._waiting[rank].extend((now, line) for line in whole)
        if data:
            self._printed.add(rank)

    def take(self, now: float, *, last: bool = False) -> bytes:
        """What may be shown now; with `last`, all there is."""
        if last:
            self._end_lines(now)
        shown: list[bytes] = []
        while (oldest := self._oldest()) is not None:
            rank, since, line = oldest
            same = [r for r, queue in self._waiting.items() if queue and queue[0][1] == line]
            everyone = len(same) == self._ranks
            if not everyone and not last and now - since < SAME_LINE_S:
                break
            for other in same if everyone else [rank]:
                self._waiting[other].popleft()
            plain = everyone or (len(self._printed) == 1 and not self._named)
            shown.append(line if plain else b"[r%d] %s" % (rank, line))
        return b"".join(shown)

    def _oldest(self) -> tuple[int, float, bytes] | None:
        heads = [(queue[0][0], rank) for rank, queue in self._waiting.items() if queue]
        if not heads:
            return None
        since, rank = min(heads)
        return rank, since, self._waiting[rank][0][1]

    def _end_lines(self, now: float) -> None:
        for rank, rest in self._rest.items():
            self._waiting[rank].append((now, rest + (b"\n" if len(self._printed) > 1 else b"")))
        self._rest.clear()


def _lines(data: bytes) -> list[bytes]:
    """Whole lines with their ends, then what is left (maybe empty)."""
    lines = data.splitlines(keepends=True)
    if not lines or lines[-1].endswith((b"\n", b"\r")):
        return [*lines, b""]
    return lines
