"""A span: what one rank did from a moment to another. Pure."""

import msgspec

from holdfast.protocol.spans import KINDS as KINDS


class Span(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Times are seconds. `start_s` is on the driver's clock, since the job's submission.

    `kind`: one of `KINDS`. `group`: a hash of its members, `number` which collective of the group
    it is, from 1; 0: none. `waited_s`: how long the thread that trains waited for peers in it.
    `ended` is False where it was under way when it was last seen. `axis`: "dp", "pp" or "tp", where
    it is of a group along one; it is not stored, but found by who knows the job's topology.
    """

    rank: int
    attempt: int
    node: str
    kind: str
    name: str = msgspec.field(default="")
    group: int = 0
    step: int = 0
    start_s: float = 0.0
    took_s: float = 0.0
    waited_s: float = 0.0
    number: int = 0
    ended: bool = True
    axis: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from all others: one under way is told again as it goes on."""
        return self.rank, self.attempt, self.kind, self.name, self.group, self.number, self.began_us

    @property
    def began_us(self) -> int:
        return round(self.start_s * 1e6)


def longest(spans: "list[Span]") -> "list[Span]":
    """Each span once: of what was told several times the last word, in the order in which they
    began."""
    found: dict[tuple[object, ...], Span] = {}
    for span in spans:
        before = found.get(span.key)
        if before is None or (span.ended, span.took_s) > (before.ended, before.took_s):
            found[span.key] = span
    return sorted(found.values(), key=_place)


def _place(span: Span) -> tuple[object, ...]:
    """Of those that begin at one moment, what is around the others comes first."""
    return span.start_s, span.rank, -span.took_s, span.kind, span.name
