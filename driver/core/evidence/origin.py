"""Where a fault comes from and how sure that is, by all its signs. Pure.

Called where a fault is made, which says who pays for it and what may be behind it, and by the
pages, with what was seen since. Explicit evidence counts first, then what the recovery came to
believe by all that came before, then what is likely by itself. Where two of one weight disagree
nobody is named: it is not sure.
"""

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.driver.core.evidence.signs import NOTHING, SIGNS, Sign, of_ladder
from holdfast.driver.core.state.fact import Hypothesis
from holdfast.protocol.faults import Blame, Origin, Sure

MACHINES = frozenset({Origin.GPU, Origin.HOST, Origin.NETWORK})
"""What another node may be without."""
OURS = MACHINES | {Origin.STORAGE}
"""What the infrastructure pays for."""


class Verdict(NamedTuple):
    """`origin` may be a hint, where it is not sure; None: there is not even that."""

    origin: Origin | None
    sure: Sure
    why: str

    @property
    def blame(self) -> Blame:
        """A hint at the script is enough for that: it accuses no machine."""
        if self.origin is Origin.USER:
            return Blame.USER
        if self.origin is None or self.sure is Sure.NOT_SURE:
            return Blame.UNKNOWN
        return Blame.INFRASTRUCTURE if self.origin in OURS else Blame.UNKNOWN

    @property
    def outside_script(self) -> bool:
        """Whether it comes from a node, its way to others or a store, more likely than not."""
        return self.origin in OURS and self.sure is not Sure.NOT_SURE


def judge(names: Iterable[str], held: Hypothesis | None = None) -> Verdict:
    """Of all signs of a fault. `held`: what the recovery held to be behind it. A sign that is not
    known here, of another Holdfast, says nothing."""
    shown = [SIGNS[name] for name in dict.fromkeys(names) if name in SIGNS]
    believed = _believed(held, shown) if held is not None else []
    for sure, signs in ((Sure.SURE, shown), (Sure.LIKELY, believed), (Sure.LIKELY, shown)):
        if told := [each for each in signs if each.origin and each.sure is sure]:
            return _one_of(told, sure)
    hints = [each for each in (*shown, *believed) if each.origin]
    return _one_of(hints or shown or [NOTHING], Sure.NOT_SURE)


def _believed(held: Hypothesis, shown: list[Sign]) -> list[Sign]:
    """What the recovery held, and which signs say the same: their reasons tell more. That it comes
    again at one place of the script does not outweigh the words of a device: where both are likely
    both are told."""
    belief = SIGNS[of_ladder(held)]
    contrary = [each for each in shown if each.origin in OURS and each.sure is Sure.LIKELY]
    if belief.origin is Origin.USER and contrary:
        return [*contrary, belief]
    agree = (each for each in shown if (each.origin, each.sure) == (belief.origin, belief.sure))
    return [belief, *agree]


def _one_of(signs: list[Sign], sure: Sure) -> Verdict:
    """Of signs of one weight: what they agree on."""
    if len({each.origin for each in signs}) == 1:
        return Verdict(signs[-1].origin, sure, signs[-1].why)
    return Verdict(None, Sure.NOT_SURE, " or ".join(dict.fromkeys(each.why for each in signs)))
