"""Where each number stands in a file of spans: the layout, its version, and nothing else.

Little-endian, aligned to eight bytes. A record's first word is its number, counted from 1, stored
last and 0 while it is being written: a reader knows a record that is whole, and one that is of an
earlier or later round. Pure.
"""

import struct
from typing import Final

MAGIC: Final = b"HFSPAN\r\n"
VERSION: Final = 1

HEADER: Final = struct.Struct("<8sIIqqqII")
"""magic, version, size of the file in bytes, rank, epoch, pid, and slots for spans and names."""

WORDS_AT: Final = 64
HEAD, PULSED_NS, NAMES = range(3)
"""Words: spans written so far; when the rank's pulse last came; names used."""

OPEN_SLOTS: Final = 16
OPEN_AT: Final = WORDS_AT + 64
OPEN: Final = struct.Struct("<qqQIIHHI")
"""began, waited since then, group, step, number, kind, name, and nothing."""
OPENS: Final = struct.Struct("<QQ")
"""sequence (odd while it is being written), and how many are open."""
OPEN_SIZE: Final = OPENS.size + OPEN.size * OPEN_SLOTS

NAME_SLOTS: Final = 128
NAME_BYTES: Final = 32
NAMES_AT: Final = OPEN_AT + OPEN_SIZE
NAMES_SIZE: Final = NAME_SLOTS * NAME_BYTES

SLOTS: Final = 4096
"""A rank that writes 8,000 spans a second, a hundred in each of 80 steps, has half a second here:
the daemon looks ten times a second."""
SPANS_AT: Final = NAMES_AT + NAMES_SIZE
SPAN: Final = struct.Struct("<QqqqQIIHHI")
"""number, began, took, waited (nanoseconds of the machine's monotonic clock), group, step, number
of the collective in its group, kind, name, and nothing."""
SIZE: Final = SPANS_AT + SLOTS * SPAN.size
