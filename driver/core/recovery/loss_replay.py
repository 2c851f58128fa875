"""A loss that stays no number: start from what was saved before it, and see whether it comes again.

Called by `findings` with the detector's word, and by `ranks` once the job is further than it was.
Pure. The steps are done again on the same data. What comes again at the same step is of the data or
the code; a node that was alone in it is left once before that is believed. What does not is
passing: the node on which alone it began is accused, which is no proof, and else nobody.
"""

from msgspec.structs import replace

from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.evidence import signs
from holdfast.driver.core.evidence import table as hypotheses
from holdfast.driver.core.faults import bad_loss, incidents
from holdfast.driver.core.faults.fault import shows
from holdfast.driver.core.recovery import budget, next_step
from holdfast.driver.core.recovery.case_of import case_of
from holdfast.driver.core.state.fact import Act, Bearing, Fact, Hypothesis, OfNode
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.state.restore_point import Tainted
from holdfast.driver.core.turn import Turn


def recover(turn: Turn, job: Job, fault: Fault) -> None:
    """Go back, or leave the job as it is where that would not help and nobody wants it ended."""
    if why := _left_alone(turn, job, fault):
        _leave(turn, job, fault, why)
        return
    if fault.sound is not None:
        why = f"what was saved after step {fault.sound} may come of a loss that is no number"
        spoiled = Tainted(why=why, since_s=turn.now, after=fault.sound)
        best = max(
            job.best_step or 0, fault.step or 0
        )  # else a driver that is killed now forgets it
        points = known_points.spoil(job, spoiled)
        turn.job(job.name, spoiled=spoiled, points=points, best_step=best)
        turn.say(f"{why}: it is not used again", job.name)
    next_step.recover(turn, job.name, fault)


def _left_alone(turn: Turn, job: Job, fault: Fault) -> str:
    """Why nothing is done; "" where the job is to go back, or to end."""
    if job.plan.on_bad_loss == "tell":
        return "nothing is done, for recovery.onBadLoss is tell"
    if job.plan.on_bad_loss == "fail":
        return ""
    table = hypotheses.judge(case_of(turn, job, fault))
    if table.act is Act.GIVE_UP:
        return table.why
    return budget.none_left(turn, job)


def _leave(turn: Turn, job: Job, fault: Fault, why: str) -> None:
    """The job goes on with it. People are told what they may do."""
    if bad_loss.replayed(job):
        turn.job(job.name, facts=bad_loss.in_vain(job))
        fault = shows(fault, *fault.signs, signs.of_hypothesis(Hypothesis.USER))
    incidents.report(turn, replace(fault, summary=f"{fault.summary}. {_upper(why)}"), job=job.name)


def _upper(why: str) -> str:
    return f"{why[:1].upper()}{why[1:]}; the job goes on as it is"


def passed(turn: Turn, job: Job, reached: int) -> None:
    """The job is further than ever, at `reached`: a loss that did not come again was passing."""
    for fact in bad_loss.replays(job):
        if (site := fact.about.site) is None or site.step is None or site.step >= reached:
            continue
        node = _began_on(turn, job, fact)
        by = f"; {node.name}, on which alone it began, is accused of it" if node else ""
        turn.say(f"the loss is a number in the steps that were done again: it was passing{by}")
        if node is not None:
            held = Hypothesis.NODE
            turn.add_fact(replace(fact, subject=node, bearing=Bearing.ACCUSES, held_for=held))


def _began_on(turn: Turn, job: Job, fact: Fact) -> OfNode | None:
    """The node on which alone it began, the same machine still. A job of one node has no other."""
    node = fact.about.node
    known = turn.nodes.get(node.name) if node is not None else None
    same = known is not None and known.subject == node
    return node if same and job.layout.nodes > 1 else None
