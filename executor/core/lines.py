"""What one rank writes to one file, as lines for an output that all ranks of a node share. Pure.

Used by `adapters.echo`. Bytes stay as they are: what a rank writes need not be text.
"""

LONGEST_BYTES = 8_192
"""Of a line, without its prefix; the rest is cut. Container runtimes split lines at 16 KiB, and a
reader of one log of many ranks could not put the parts together again."""


class Lines:
    """Cuts a stream into whole lines, each with `prefix`. Holds no more than one line's bytes.

    A carriage return begins a line anew, as on a terminal: of a progress bar each `feed` shows
    where it is, however often it was drawn since the one before.
    """

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._begun = b""
        self._cut = 0

    def feed(self, data: bytes) -> bytes:
        """The lines that `data` completes."""
        *whole, rest = (self._begun + data).split(b"\n")
        lines = [self._line(part) for part in whole]
        body = rest.rstrip(b"\r")
        drawn, _, last = body.rpartition(b"\r")
        if drawn:
            lines.append(self._line(drawn))
        self._begun = self._fitted(last) + rest[len(body) :][:1]
        return b"".join(lines)

    def end(self) -> bytes:
        """What was begun and not ended, as a line; nothing where there is none."""
        begun, self._begun = self._begun, b""
        return self._line(begun) if begun else b""

    def _line(self, text: bytes) -> bytes:
        shown = self._fitted(text.rstrip(b"\r"))
        cut, self._cut = b" [%d bytes cut]" % self._cut if self._cut else b"", 0
        return self._prefix + shown + cut + b"\n"

    def _fitted(self, text: bytes) -> bytes:
        _, again, shown = text.rpartition(b"\r")
        self._cut = max(0, len(shown) - LONGEST_BYTES) + (0 if again else self._cut)
        return shown[:LONGEST_BYTES]
