"""Faults as the recovery takes them: what detectors found, and what the machines conclude. Pure."""

import msgspec
from msgspec.structs import replace

from holdfast.driver.core.evidence import origin, signs
from holdfast.driver.core.state.model import Fault
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight


def fault_of(finding: Finding) -> Fault:
    """A detector's finding. What both have has the same name in both."""
    fault = msgspec.convert(finding, Fault, from_attributes=True)
    told = finding.summary or f"{finding.kind} on {finding.node or finding.job}"
    return shows(replace(fault, summary=told), finding.sign)


def shows(fault: Fault, *names: str) -> Fault:
    """The fault with these signs, or that of its kind, and whom they blame: nobody else says so."""
    shown = tuple(filter(None, names)) or (signs.of_kind(fault.kind),)
    return replace(fault, signs=shown, blame=origin.judge(shown).blame)


def infrastructure(
    kind: Kind,
    weight: Weight,
    summary: str,
    node: str | None = None,
    *evidence: Evidence,
    silent: bool = False,
    spared: bool = False,
    sign: str = "",
) -> Fault:
    """What is nobody's doing who trains; `node`: whose it is."""
    fault = Fault(
        kind=kind,
        weight=weight,
        summary=summary,
        node=node,
        evidence=evidence,
        silent=silent,
        spared=spared,
    )
    return shows(fault, sign)


def by_executor(node: str, text: str) -> Evidence:
    """What the executor of a node tells."""
    return Evidence(source=f"executor of {node}", text=text)
