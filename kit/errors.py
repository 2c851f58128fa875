"""What can go wrong outside, in two classes: whether to try again is in the type.

Raised by whatever speaks to a cluster, a database, a node; each technology's own exceptions are
turned into these where it is spoken to. Must not be raised for a defect of ours.
"""


class TemporaryError(Exception):
    """It failed now and may work later; the message says what failed."""


class PermanentError(Exception):
    """It failed and will fail again; the message says what to change."""
