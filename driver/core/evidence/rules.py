"""What opens each hypothesis, and what closes it, where nothing explicit is known. Pure: one
function each, with its sentence.

The order in which open ones are tried is in `table`. Which rules there are, and why neither cost
nor odds choose between hypotheses: second-pass.md, "Evidence".
"""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.driver.core.evidence import book, same, words
from holdfast.driver.core.evidence.case import Case
from holdfast.driver.core.state.fact import Act, Bearing, Fact, FaultClass, Hypothesis
from holdfast.protocol.counts import plural, times
from holdfast.protocol.faults import Kind

USERS_SAID = 1
"""Earlier faults at one site after which what a script says of itself is believed."""
STEPS_BACK = 5
"""Times that a job goes back for one site, each time twice as far. With 4 of these 97 of 100 jobs
got past a poisoned point, with 5 all did (`holdfast bench evidence`)."""
USERS_DIED = 3
"""And where nobody said anything: it is the fourth that ends the job."""


NO_OTHER = "no other node may take its place"


class Answer(NamedTuple):
    """Whether it may be that, and by what, in a clause."""

    open: bool
    why: str


def blind(case: Case) -> Answer:
    return Answer(bool(case.blind), case.blind or "the driver hears its nodes well")


def pause(case: Case) -> Answer:
    if case.suspected:
        return Answer(False, case.suspected)
    given = len(case.recurred)
    if given < case.pauses:
        return Answer(True, f"{words.at_site(case)}, and is given longer each time")
    return Answer(False, f"it was given longer {times(given)}, in vain")


def passing(case: Case) -> Answer:
    if case.suspected:
        return Answer(False, case.suspected)
    if case.cut_off:
        return Answer(False, words.cut_off(case))
    if case.last:
        return Answer(False, "its restarts are used up")
    if case.recurred:
        return Answer(False, words.at_site(case))
    if _unnamed_again(case):
        return Answer(False, "it stood still before, and nothing told on which node")
    if case.pair:
        return Answer(False, words.in_turn(case))
    if case.stands_out:
        return Answer(False, words.standing_out(case))
    if case.worse:
        return Answer(False, words.more_often(case))
    return Answer(True, words.not_again(case))


def _unnamed_again(case: Case) -> bool:
    """Whether a standstill of which no node is named came again lately."""
    before = [fact for fact in case.past if fact.what == case.what and fact.about.node is None]
    return case.hang and case.node is None and bool(before)


def point(case: Case) -> Answer:
    if case.apart:
        return Answer(False, words.cut_off(case))
    closed = _not_of_the_start(case) or _no_older_one(case)
    again = "ranks died before their first step from it, and not for the first time"
    return Answer(not closed, closed or again)


def _not_of_the_start(case: Case) -> str:
    """What tells that it did not come of what the ranks had started from."""
    if not case.restored:
        return "ranks started from none"
    if case.what == Kind.ENDED_EARLY:
        return "who ends with exit code 0 has read it well"
    if case.site is None or not case.site.fresh:
        return "ranks got on after their start"
    if not case.recurred:
        return "nothing came twice after such a start"
    if _came_from_an_older_one(case.recurred):
        return "it came at the same step after an older start"
    return ""


def _no_older_one(case: Case) -> str:
    """Why an older one is not tried."""
    back = len(_left_behind(case))
    if back >= STEPS_BACK:
        return f"{plural(back, 'older one')} led to the same"
    if back and node(case).open:
        return f"an older one led to the same, and all of it came on {case.node_name}"
    if Act.STEP_BACK not in case.ways.acts:
        return words.none_older(case)
    first = node(case).open or version(case).open or len(case.recurred) < _least(case)
    if case.scratch and first:
        return "nothing older is left but to begin at step 0, which is tried last"
    return ""


def _left_behind(case: Case) -> set[int | None]:
    """Steps that the job went back from, to an older one than they: the copies of one step in
    memory and store count once, and another copy of it is no older one."""
    own = (fact for fact in case.recurred if fact.held_for is Hypothesis.POINT)
    sites = [fact.about.site for fact in own if fact.about.site is not None]
    here = {case.site.step} if case.site is not None and not case.site.relative else set()
    return {site.step for site in sites} - here


def _came_from_an_older_one(recurred: list[Fact]) -> bool:
    """Whether ranks that had started from an older point got on, and ended at the same step."""
    first = next(
        (k for k, each in enumerate(recurred) if each.held_for is Hypothesis.POINT), len(recurred)
    )
    return any(each.about.site and not each.about.site.fresh for each in recurred[first + 1 :])


def link(case: Case) -> Answer:
    if not (case.cut_off or case.pair):
        return Answer(False, "no two nodes are known that cannot reach each other")
    why = words.cut_off(case) if case.cut_off else words.in_turn(case)
    return Answer(True, why if case.leave else f"{why}, but no other may take the place of one")


def node(case: Case) -> Answer:
    if case.node is None:
        return Answer(False, "nothing tells on which node it was")
    said = case.fault is FaultClass.SAID
    if same.followed(case.past, case.site, case.place, case.node, words=said):
        return Answer(False, "the same came at this place on another node")
    if not (case.suspected or points_at_node(case)):
        return Answer(False, words.no_sign(case))
    why = case.suspected or words.standing_out(case)
    if how_to_leave(case) is not None:
        return Answer(True, why)
    if cornered(case):
        return Answer(True, f"{words.went_along(case)}, {NO_OTHER}, and the job gets no further")
    return Answer(True, f"{why}; its tests found nothing, and {NO_OTHER}")


def points_at_node(case: Case) -> bool:
    """Whether the node stands out; or a death came again at one site, and on it alone, of a job
    that may go elsewhere. What a script says at one site is no sign of a node, but at several. At
    last it is enough that all came on it.
    """
    if case.last and 1 < case.node_faults == len(case.named):
        return True
    if case.fault is not FaultClass.SAID:
        return case.stands_out or (bool(case.recurred) and case.all_on_node and not case.alone)
    own = [fact.about.site for fact in case.past if fact.about.node == case.node]
    reached = {site.step for site in (*own, case.site) if site is not None and not site.fresh}
    return case.stands_out and len(reached) > 1  # a start from elsewhere is no other step


def how_to_leave(case: Case) -> Act | None:
    """The cheapest way to act on a node that nothing convicts. Tests that found nothing are not
    asked again before the node was left."""
    exam = (Act.EXAM,) if _may_be_found(case) else ()
    swap = (Act.SWAP,) if _may_be_the_place(case) else ()
    return case.ways.cheapest(Act.MOVE_WARM, Act.MOVE_COLD, *exam, *swap)


def _may_be_the_place(case: Case) -> bool:
    """Whether all deaths on its node were at one site, so that they may as well come of its place:
    with another place the node shows which, and no other node is needed. It is done once, and
    asked until what it would tell comes too late."""
    own = [fact for fact in case.past if fact.about.named == case.node]
    swapped = any(fact.done is Act.SWAP for fact in case.recurred)
    closed = swapped or len(case.recurred) >= USERS_DIED
    here = bool(own) and all(fact in case.recurred for fact in own)
    return case.fault is FaultClass.DIED and here and not (closed or case.suspected or case.last)


def cornered(case: Case) -> bool:
    """Whether it went along with its node to another place, and all of it came on that node: where
    the job may have no other, soon either, it dies there whenever it is started."""
    again = case.all_on_node and len(case.recurred) >= USERS_DIED
    return case.went_along and again and not case.soon


def _may_be_found(case: Case) -> bool:
    """Whether tests of its node may tell more: they look at no script that takes its time, and at
    no way to a store, and find nothing again where they found nothing."""
    if case.acquitted or case.shown or (case.fault is FaultClass.STOOD and not case.suspected):
        return False
    lately = (fact for fact in case.past if book.counts(fact, case.now))
    return not any(fact.done is Act.EXAM and fact.about.node == case.node for fact in lately)


def version(case: Case) -> Answer:
    told = case.said_of_it
    if told is not None and told.bearing is Bearing.ACQUITS:
        return Answer(False, words.said(told))
    if case.before is None:
        return Answer(False, "no earlier version of this job has run")
    if told is not None:
        return Answer(True, words.said(told))
    if case.apart:
        return Answer(False, words.cut_off(case))
    if case.recurred:
        return Answer(True, f"{words.at_site(case)}, and version {case.before} ran before")
    if case.worse:
        return Answer(True, words.more_often(case))
    if case.last:
        return Answer(True, f"its restarts are used up, and version {case.before} ran before")
    return Answer(False, words.no_oftener(case))


def group(case: Case) -> Answer:
    if case.node is not None:
        return Answer(False, f"the node is known: {case.node_name}")
    if case.fault is FaultClass.STOOD and not case.suspected:
        return Answer(False, "ranks run, and tests look at no script")
    if not (case.suspected or _unnamed_again(case) or case.recurred):
        return Answer(False, "it came once")
    if Act.EXAM_ALL not in case.ways.acts:
        return Answer(False, "its nodes cannot be tested")
    if any(fact.held_for is Hypothesis.GROUP for fact in case.past):
        return Answer(False, "all of them were tested")
    return Answer(True, case.suspected or "it came again, and nothing tells on which node")


def user(case: Case) -> Answer:
    if case.outside:
        return Answer(False, "a signal from outside ended it")
    if case.apart:
        return Answer(False, words.cut_off(case))
    said = case.of_script and case.fault is FaultClass.SAID
    if case.last and said and len(case.past) >= USERS_DIED:
        return Answer(True, words.same_words(case))
    if case.went_along:
        return Answer(False, words.went_along(case))
    if len(case.recurred) < _least(case):
        return Answer(False, words.not_yet(case, _least(case) + 1))
    if case.fault is FaultClass.DIED and case.stands_out_elsewhere:
        return Answer(False, f"at other places, too, it came on {case.node_name}")
    return Answer(True, words.same_again(case))


def _least(case: Case) -> int:
    """Earlier faults at its site after which nothing else is believed."""
    last = case.alone and not case.soon
    if case.fault in (FaultClass.SAID, FaultClass.FIGURES) or last:
        return USERS_SAID
    return case.pauses if case.fault is FaultClass.STOOD else USERS_DIED


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
