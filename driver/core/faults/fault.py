"""Faults as the recovery takes them: what detectors found, and what the machines conclude. Pure."""

import msgspec
from msgspec.structs import replace

from holdfast.driver.core.state.model import Fault
from holdfast.protocol.faults import Blame, Evidence, Finding, Kind, Weight


def fault_of(finding: Finding) -> Fault:
    """A detector's finding. What both have has the same name in both."""
    fault = msgspec.convert(finding, Fault, from_attributes=True)
    told = finding.summary or f"{finding.kind} on {finding.node or finding.job}"
    return replace(fault, summary=told)


def infrastructure(
    kind: Kind,
    weight: Weight,
    summary: str,
    node: str | None = None,
    *evidence: Evidence,
    silent: bool = False,
    spared: bool = False,
) -> Fault:
    """What is nobody's doing who trains; `node`: whose it is."""
    return Fault(
        kind=kind,
        weight=weight,
        blame=Blame.INFRASTRUCTURE,
        summary=summary,
        node=node,
        evidence=evidence,
        silent=silent,
        spared=spared,
    )


def by_executor(node: str, text: str) -> Evidence:
    """What the executor of a node tells."""
    return Evidence(source=f"executor of {node}", text=text)
