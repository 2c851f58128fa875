"""A recovery in a sentence. Pure. Used by `holdfast run` and by the page of an incident."""

from collections.abc import Mapping
from typing import Any

from holdfast.page.words import duration, repeats
from holdfast.protocol.counts import plural


def back(incident: Mapping[str, Any]) -> str:
    """`back at step 121 after 0.4 s, nothing lost   (stop 0.05 · restore 0.13 · step 0.17)`."""
    said = outcome(incident)
    if incident.get("overtaken"):
        return said
    stages = [f"{stage} {took:.2f}" for stage, took in incident["stages_s"].items()]
    return f"{said}   ({' · '.join(stages)})" if stages else said


def outcome(incident: Mapping[str, Any]) -> str:
    """`back at step 121 after 0.4 s, nothing lost`."""
    if incident.get("overtaken"):
        return f"not back yet after {duration(incident['down_s'])}, when the next fault came"
    at = f" at step {incident['step']}" if incident["step"] else ""
    lost, seen = incident["steps_lost"], incident["step"] is not None
    least = "" if seen else "at least "
    what = f", {least}{plural(lost, 'step')} redone" if lost else ""
    what = ", nothing lost" if lost == 0 and seen else what
    if incident["step"] == 0 and lost:
        what = f"; it began again from the beginning, at least{what.removeprefix(',')}"
    if repeats([incident]):
        what = "; its script began again, and repeats what it had not saved"
    return f"back{at} after {duration(incident['down_s'])}{what}"
