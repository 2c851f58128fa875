"""Names that a mistyped one may have meant. Pure.

Used wherever we say "Did you mean": a name that only shares letters with what was typed is no help.
"""

from collections.abc import Iterable
from difflib import SequenceMatcher

ALIKE = 0.6
"""Of what two names have in common (1: all), where both begin with the same letter."""

MUCH_ALIKE = 0.75
"""And where they do not."""


def near(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Those of `known` that resemble the name, the most alike first.

    Capital letters, hyphens and underscores make no difference.
    """
    rated = sorted((-_likeness(name, each), each) for each in dict.fromkeys(known))
    return [each for rate, each in rated if rate < 0][:most]


def _likeness(name: str, other: str) -> float:
    """What they have in common; 0 where that is no resemblance."""
    a, b = _bare(name), _bare(other)
    least = ALIKE if a[:1] == b[:1] else MUCH_ALIKE
    matcher = SequenceMatcher(a=b, b=a)
    if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
        return 0.0
    rate = matcher.ratio()
    return rate if rate >= least else 0.0


def _bare(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
