"""What a call to the outside follows from: the words of `kit.acting` for a journal entry.

Said by `effect_runner` and by the operator around what they do.
"""

from contextlib import AbstractContextManager

from holdfast.kit.acting import acting_on


def acting_for(*, term: int, entry: int | None, doing: str) -> AbstractContextManager[None]:
    """Within it all is done for journal entry `entry` of `term`; `doing` says what, and to whom."""
    return acting_on(f"term={term} entry={entry} {doing}")
