"""What it costs to act on a hypothesis, in seconds: measured where it was, else assumed. Pure."""

from collections.abc import Iterable, Mapping
from statistics import median

from holdfast.driver.core.state.fact import Act
from holdfast.driver.core.state.model import Incident

DEFAULT_S = {
    Act.WAIT: 0.0,
    Act.RESTART: 5.0,
    Act.SWAP: 8.0,
    Act.MOVE_WARM: 15.0,
    Act.EXAM: 20.0,
    Act.MOVE_COLD: 135.0,
    Act.REPLACE: 15.0,
    Act.STEP_BACK: 300.0,
    Act.VERSION_BEFORE: 60.0,
    Act.EXAM_ALL: 40.0,
    Act.GIVE_UP: 0.0,
}
"""From the prototype behind second-pass.md ("Evidence"), but for a swap: a restart, and a step that
goes to the store first. They say how to act on one hypothesis, never which."""

LEAST = 3
"""Recoveries of one kind whose median is believed."""


def measured_s(incidents: Iterable[Incident]) -> dict[Act, float]:
    """The median time from a fault until its job was further than before, by what was done last."""
    took: dict[Act, list[float]] = {}
    for incident in incidents:
        if incident.table is not None and incident.resumed_s is not None:
            took.setdefault(incident.table.act, []).append(incident.resumed_s - incident.found_s)
    return {act: median(times) for act, times in took.items() if len(times) >= LEAST}


def cost_s(act: Act, measured: Mapping[Act, float]) -> float:
    """Of one act."""
    return measured.get(act, DEFAULT_S[act])
