"""Of which nodes of a diagnosis it is not known whether they are good or bad, and why. Pure.

Called by `asked`, for the story, and by REST.
"""

from holdfast.driver.core.state.model import Asked

EARLY = "ended before its tests were over"


def unknown(of: Asked) -> dict[str, str]:
    """Each of them, with what keeps it from being called good or bad."""
    if of.verdict is None:
        return {}
    judged = {node for stage in of.stages for node in stage.orders}
    left = (set(of.nodes) - judged - of.verdict.bad.keys()) | of.verdict.unsettled
    return {node: _why(of, node) for node in of.nodes if node in left}


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
