"""Which nodes of a diagnosis are good, and of which it is not known, and why. Pure.

Called by `asked`, for the story, by `calibrating`, and by REST.
"""

from holdfast.driver.core.state.model import Asked

EARLY = "ended before its tests were over"


def good(of: Asked) -> tuple[str, ...]:
    """Who was tested to the end, and of whom nothing is bad."""
    if of.verdict is None:
        return ()
    others = of.verdict.bad.keys() | _unknown(of)
    return tuple(node for node in of.nodes if node not in others)


def unknown(of: Asked) -> dict[str, str]:
    """Each that is neither good nor bad, with what keeps it from being called so."""
    left = _unknown(of)
    return {node: _why(of, node) for node in of.nodes if node in left}


def _unknown(of: Asked) -> set[str]:
    if of.verdict is None:
        return set()
    judged = {node for stage in of.stages for node in stage.orders}
    return (set(of.nodes) - judged - of.verdict.bad.keys()) | of.verdict.unsettled


def _why(of: Asked, node: str) -> str:
    last = next((each for each in reversed(of.stages) if node in each.orders), None)
    if last is None:
        return EARLY
    mine = [each for each in last.results if each.node == node]
    if not mine:
        return "it told nothing"
    if (unrun := next((each for each in mine if each.ok is None), None)) is not None:
        return f"{unrun.test} could not be run: {unrun.detail}"
    if of.verdict is not None and node in of.verdict.again:
        return f"its {of.verdict.again[node]} failed in one stage, and one convicts nobody"
    if not any(each.members for each in mine):
        return "nobody was there to test its link with"
    return "its results differ from one time, or one partner, to another"
