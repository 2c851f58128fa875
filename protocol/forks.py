"""What an executor writes down before it forks a rank: one line in the rank's folder.

Appended by `executor.ranks`, read by whoever wants to know from another than the driver how often
each rank was started, and by whose order. Must not hold anything of the job itself.
"""

import msgspec

FILE = "forks.jsonl"
"""In the rank's folder, beside its output."""


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """One start of `rank` in `epoch`, as the desired state of this generation and term wanted."""

    rank: int
    epoch: int
    node: str
    generation: int
    term: int
