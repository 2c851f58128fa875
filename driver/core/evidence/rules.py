"""What opens each hypothesis, and what closes it. Pure: one function each, with its sentence.

The order in which open ones are tried is in `table`. Which rules there are, and why cost or odds
do not choose between hypotheses: second-pass.md, "Evidence".
"""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.driver.core.evidence import same
from holdfast.driver.core.evidence.act import Act
from holdfast.driver.core.evidence.case import Case
from holdfast.driver.core.state.fact import FaultClass, Hypothesis

USERS_SAID = 1
"""Earlier faults at one site after which what a script says of itself is believed."""
USERS_DIED = 3
"""And where nobody said anything: it is the fourth that ends the job."""

SEEN = 3
"""Standstills looked back on for two nodes that are named in turns."""


class Answer(NamedTuple):
    """Whether it may be that, and by what, in a clause."""

    open: bool
    why: str


def blind(case: Case) -> Answer:
    return Answer(bool(case.blind), case.blind or "others are heard")


def pause(case: Case) -> Answer:
    times = len(case.here)
    if times < case.pauses:
        return Answer(True, f"it stood there {_times(times + 1)}, and is given longer each time")
    return Answer(False, f"it was given longer {_times(times)}, in vain")


def passing(case: Case) -> Answer:
    if case.suspected:
        return Answer(False, case.suspected)
    if case.here:
        return Answer(False, f"the same came before {_at_site(case)}")
    if _unnamed_again(case):
        return Answer(False, "it stood still before, and nobody was named")
    if case.stands_out:
        return Answer(False, _standing_out(case))
    if case.spread and case.before is not None:
        return Answer(False, f"faults came on {len(set(case.named))} nodes, with a new version")
    return Answer(True, "it did not come before")


def _unnamed_again(case: Case) -> bool:
    """Whether a standstill of which no node is named came again lately."""
    before = [fact for fact in case.past if fact.what == case.what and fact.about.node is None]
    return case.hang and case.node is None and bool(before)


def point(case: Case) -> Answer:
    if case.began or not case.restored:
        return Answer(False, "ranks had got on since their start")
    if not case.here:
        return Answer(False, "nothing came twice after such a start")
    if any(fact.held_for is Hypothesis.POINT for fact in case.here):
        return Answer(False, "an older one led to the same")
    if Act.STEP_BACK not in case.ways.acts:
        return Answer(False, "there is no older one")
    return Answer(True, "ranks died at or before their first step from it, more than once")


def link(case: Case) -> Answer:
    if case.apart:
        return Answer(True, f"{' and '.join(case.apart)} could not reach each other")
    lately = {each.name for each in case.named[-SEEN:]}
    if not (case.hang and case.past and len(lately) == 2):
        return Answer(False, "no two nodes are known that cannot reach each other")
    if how_to_leave(case) is None:
        return Answer(False, "no other node may take the place of one of the two")
    return Answer(True, f"it stood still on {' and '.join(sorted(lately))} in turns")


def node(case: Case) -> Answer:
    if case.convicted:
        return Answer(True, case.convicted)
    if case.node is None:
        return Answer(False, "no node is named")
    if same.followed(case.past, case.site, case.place, case.node):
        return Answer(False, "the same came at this place on another node")
    if not _pointed_at(case):
        return Answer(False, f"{_own(case)}: no more than chance would give it")
    if how_to_leave(case) is None:
        return Answer(False, "no other node may take its place, and its tests found nothing")
    return Answer(True, _standing_out(case))


def _pointed_at(case: Case) -> bool:
    """Whether who has seen it says so, or the node stands out; or a death came again at one site, and on it alone. What a
    script says at one site is no sign of a node: only what it says at several."""
    if case.suspected:
        return True
    here = case.here
    on_it = all(fact.about.node == case.node for fact in here)
    if case.fault is FaultClass.DIED:
        return case.stands_out or (bool(here) and on_it)
    own = [fact for fact in case.past if fact.about.node == case.node]
    return case.stands_out and len({fact.about.site for fact in own} | {case.site}) > 1


def how_to_leave(case: Case) -> Act | None:
    """The cheapest way to act on a node that nothing convicts. Tests that found nothing are not
    asked again before the node was left."""
    ways = {Act.MOVE_WARM, Act.MOVE_COLD} | (set() if case.acquitted else {Act.EXAM})
    return case.ways.cheapest(frozenset(ways))


def version(case: Case) -> Answer:
    if case.before is None:
        return Answer(False, "no version before this one has run")
    if not (case.spread or case.here):
        return Answer(False, "neither one site nor several nodes")
    where = _at_site(case) if case.here else f"on {len(set(case.named))} nodes"
    return Answer(True, f"faults came {where}, and version {case.before} ran before")


def group(case: Case) -> Answer:
    if case.node is not None:
        return Answer(False, "a node is named")
    if not (case.suspected or _unnamed_again(case) or case.here):
        return Answer(False, "it came once")
    if Act.EXAM_ALL not in case.ways.acts:
        return Answer(False, "its nodes cannot be tested")
    if any(fact.held_for is Hypothesis.GROUP for fact in case.past):
        return Answer(False, "all were tested")
    return Answer(True, "it came again, and no node is named")


def user(case: Case) -> Answer:
    if case.hopeless:
        return Answer(True, case.hopeless)
    least = USERS_SAID if case.fault is FaultClass.SAID else USERS_DIED
    if len(case.here) < least:
        return Answer(False, f"it came {_at_site(case)}" if case.here else "it did not come before")
    return Answer(True, f"it came {_at_site(case)}, and nothing else is left")


RULES: dict[Hypothesis, Callable[[Case], Answer]] = {
    Hypothesis.BLIND: blind,
    Hypothesis.PAUSE: pause,
    Hypothesis.PASSING: passing,
    Hypothesis.POINT: point,
    Hypothesis.LINK: link,
    Hypothesis.NODE: node,
    Hypothesis.VERSION: version,
    Hypothesis.GROUP: group,
    Hypothesis.USER: user,
}

# ---------------------------------------------------------------- words


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _at_site(case: Case) -> str:
    """`3 times after step 40`, this fault with them."""
    step = case.site.step if case.site is not None else None
    where = "since a start" if step is None else f"after step {step}"
    return f"{_times(len(case.here) + 1)} {where}"


def _own(case: Case) -> str:
    """`2 of 5 faults`."""
    return f"{case.own} of {len(case.named)} fault{'s' if len(case.named) > 1 else ''}"


def _standing_out(case: Case) -> str:
    if case.node is None:
        return ""
    return f"{_own(case)} of {case.nodes} nodes came on {case.node.name}"
