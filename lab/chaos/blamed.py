"""Which incident answers a fault, and whether it blames the right one. Pure.

Called by `chaos.score`, with incidents as the driver tells them over REST; `acted`: those of them
for which something was done.
"""

from collections.abc import Sequence

from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenario import Expected
from holdfast.lab.outcome import Incident


def judged(
    expected: Expected, done: Done, incidents: Sequence[Incident], acted: Sequence[Incident]
) -> Incident | None:
    """The incident that has to be the right one: the first; of a bad part the first whose evidence
    has that; where nothing is to be done, the first that had to be told, or else was acted on.
    """
    if expected.reports and not acted:
        told = (each for each in incidents if each["kind"] == expected.reports)
        return next((each for each in told if each["node"] == done.node), None)
    return next((each for each in acted if _names_part(expected, done, each)), None)


def is_right(
    expected: Expected,
    done: Done,
    incidents: Sequence[Incident],
    acted: Sequence[Incident],
) -> bool:
    """Whether it names what was hurt, and nothing was found where nothing was.

    Where one incident has to cover several nodes, lost at once, any may be the one that it names.
    """
    if any(each["kind"] in expected.untold for each in incidents):
        return False
    if expected.may_be_quiet and not acted:
        return True
    one = judged(expected, done, incidents, acted)
    if not expected.incident:
        return not acted and (not expected.reports or _is_told(expected, done, one))
    together = done.also if expected.incidents == 1 else ()
    return (
        one is not None
        and bool(acted)
        and one["blame"] in expected.blame
        and (not expected.kind or one["kind"] == expected.kind)
        and (not expected.names_node or one["node"] in (done.node, *together))
        and (not expected.names_hurt or one["node"] in (*_hurt(done), None))
        and (not expected.names_rank or one["rank"] == done.rank)
    )


def _is_told(expected: Expected, done: Done, one: Incident | None) -> bool:
    return one is not None and (not expected.names_rank or one["rank"] == done.rank)


def _hurt(done: Done) -> tuple[str | None, ...]:
    return (done.node, *done.also)


def as_whose(one: Incident | None) -> str:
    if one is None:
        return ""
    return str(one["blame"]) if one["rung"] else "report"


def who(done: Done, one: Incident | None) -> str:
    """The victim is the rank, where one was hurt and a rank is named, and else its node."""
    if one is None:
        return ""
    if one["node"] is None and one["rank"] is None:
        return "nobody"
    other = None not in (done.rank, one["rank"]) and one["rank"] != done.rank
    return "another" if other or one["node"] not in _hurt(done) else "victim"


def _names_part(expected: Expected, done: Done, incident: Incident) -> bool:
    """Whether the evidence says which part of the victim's node is bad, where it has to."""
    part = f"{done.node}'s {expected.part}"
    texts = [piece["text"] for piece in incident["evidence"]]
    return not expected.part or any(part in text for text in texts)
