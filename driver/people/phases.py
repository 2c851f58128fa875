"""A recovery as a trace: its whole time, and each stage of it. Pure."""

from typing import NamedTuple

from holdfast.driver.core.state.model import Incident
from holdfast.driver.people.story import timeline


class Span(NamedTuple):
    """Times are the driver's, in seconds."""

    name: str
    began_s: float
    ended_s: float


def spans_of(incident: Incident) -> tuple[Span, ...]:
    """The recovery first, then its stages one after another; none while it goes on."""
    ended_s = incident.resumed_s
    if ended_s is None or incident.overtaken or not incident.faults:
        return ()
    stages = timeline(incident)
    fault_s = incident.found_s if incident.anew_s is None else incident.anew_s
    at_s = fault_s - stages.get("detect", 0.0) - stages.get("decide", 0.0)
    found = [Span("recovery", at_s, max(ended_s, at_s))]
    for name, took_s in stages.items():
        found.append(Span(name, at_s, at_s + took_s))
        at_s += took_s
    return tuple(found)
