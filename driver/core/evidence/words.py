"""Clauses for people about a case: how often, where, on which node. Pure."""

from holdfast.driver.core.evidence.case import Case
from holdfast.driver.core.state.fact import Bearing, Fact, FaultClass
from holdfast.protocol.counts import plural, times

SAME_STEP = (
    "it came again at the same step, which is of the data or the code: with the batches of the "
    "next 200 to 500 steps left out, as PaLM's were, it may get past"
)
"""Chowdhery et al. 2022, 5.1: started 100 steps before a spike, and left so many out, they had none
there again; the same batches made none where they came in another state."""


def at_site(case: Case) -> str:
    """`it came 3 times after step 40`, this fault with them."""
    verb = "it stood still there" if case.fault is FaultClass.STOOD else "it came"
    return f"{verb} {times(len(case.recurred) + 1)}{_where(case)}"


def _where(case: Case) -> str:
    site = case.site
    if site is None or case.fault is FaultClass.STOOD:
        return "" if site is None else f" ({site.words})"
    if site.step:
        return f" after step {site.step}"
    if site.step is None:
        return ", and is not known to have got further" if site.fresh else f" ({site.words})"
    return "" if site.relative else " before its first step"


def not_again(case: Case) -> str:
    """Why a fault is not the same again: where it was is not known, or nothing was there before."""
    if not case.past:
        return "nothing like it came before"
    if case.site is None:
        unseen = "nobody sees its steps, so that it may have got on in between"
        return unseen if case.of_script else "it does not tell where in the script it was"
    return "nothing came at this place before"


def not_yet(case: Case, least: int) -> str:
    """Why a fault that did not come again so often is not put down to the script."""
    if not case.recurred:
        return f"no sign of it: {not_again(case)}"
    return f"{at_site(case)}, and it takes {least} times to put it down to the script"


def none_older(case: Case) -> str:
    """Why a job goes no further back, and which setting would have let it."""
    if not case.retention:
        return "there is no older one"
    return (
        f"no older one was kept: checkpoint.retention is {case.retention}, and a larger one "
        "keeps more of them in the store"
    )


def no_sign(case: Case) -> str:
    """Why a node that is named is not to be left."""
    if case.nodes == 1:
        return "no sign of it: a job of one node has all its faults there"
    if case.fault is FaultClass.SAID and case.stands_out:
        return f"{own(case)}, but not at several places of the script"
    return f"{own(case)}: no more than chance"


def went_along(case: Case) -> str:
    """`it came on node-3 again, at another place of the job`."""
    return f"it came on {case.node_name} again, at another place of the job"


def own(case: Case) -> str:
    """`2 of 5 faults came on node-3`."""
    if case.node is None:
        return "nothing like it came before"
    faults = len(case.named)
    return f"{case.node_faults} of {plural(faults, 'fault')} came on {case.node.name}"


def standing_out(case: Case) -> str:
    """`3 of 4 faults came on node-3, of 8 nodes`."""
    return own(case) if case.nodes == 1 else f"{own(case)}, of {case.nodes} nodes"


def more_often(case: Case) -> str:
    """`faults come more often: 5 in 20 min of running, and none in 9 h with version 1`."""
    return f"faults come more often: {_rates(case)}"


def no_oftener(case: Case) -> str:
    """`that may be chance: 3 in 20 h of running, and 2 in 24 h with version 1`."""
    return f"that may be chance: {_rates(case)}"


def _rates(case: Case) -> str:
    own, before = case.rate, case.rate_before
    with_it = f"{before.faults or 'none'} in {_long(before.ran_s)} with version {case.before}"
    return f"{own.faults} in {_long(own.ran_s)} of running, and {with_it}"


def _long(for_s: float) -> str:
    if for_s < 60:
        return f"{for_s:.0f} s"
    return f"{for_s / 60:.0f} min" if for_s < 2 * 3_600 else f"{for_s / 3_600:.0f} h"


def said(fact: Fact) -> str:
    """`a person says that it is well: the new loader is tested`."""
    well = fact.bearing is Bearing.ACQUITS
    return f"{fact.by} says that it is {'well' if well else 'bad'}: {fact.what}"


def cut_off(case: Case) -> str:
    """`node-1 and node-2 could not reach each other`."""
    return f"{' and '.join(case.cut_off)} could not reach each other"


def in_turn(case: Case) -> str:
    """`5 standstills came on node-1 and node-2 in turn, of 8 nodes`."""
    both = " and ".join(case.pair)
    return f"{len(case.named)} standstills came on {both} in turn, of {case.nodes} nodes"


def same_again(case: Case) -> str:
    """Why another restart would not help, as the end of a job has it."""
    if case.fault is FaultClass.FIGURES:
        return SAME_STEP
    nodes = len({fact.about.node for fact in case.recurred} | {case.node})
    if case.fault is FaultClass.STOOD:
        also = ", also on another node" if nodes > 1 else ""
        fix = f". {case.fix}" if case.fix else ""
        return f"{at_site(case)}{also}, each time for longer before it was restarted{fix}"
    again = f"It ended in the same way {times(len(case.recurred) + 1)}{_where(case)}"
    if case.fault is FaultClass.SAID:
        return f"{again}: another restart would not help"
    if nodes > 1:
        return f"{again}, on {nodes} nodes: it is not the node"
    passed = ", its node passed its tests" if case.acquitted else ""
    return f"{again}{passed}, and there is no other node to try"


def same_words(case: Case) -> str:
    """Why the script is what is left, though nobody saw it at one place again."""
    return f"it ended by its own word {times(len(case.past) + 1)}, and nothing else is left"
