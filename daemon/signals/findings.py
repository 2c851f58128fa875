"""What a line of the kernel log, or what a DCGM exporter says, means for its node. Pure.

Called by the loop of signals. Must not judge beyond the tables that the driver has too.
"""

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from holdfast.daemon.samplers.logs import text_of_kernel
from holdfast.protocol.kernellines import XID, meaning
from holdfast.protocol.messages import LogHit
from holdfast.protocol.xids import CONDITIONS, XID_ERRORS

LAST_XID = "DCGM_FI_DEV_XID_ERRORS"
"""It stays as it is until the exporter is started again: NVIDIA/dcgm-exporter issue 500."""
ROW_REMAP_FAILED = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
DOUBLE_BIT_ERRORS = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
"""Since the GPU's driver was loaded. Not among what an exporter has by default."""
FIELDS = (LAST_XID, ROW_REMAP_FAILED, DOUBLE_BIT_ERRORS)
BLANK_FROM = 0x7FFFFFF0
"""DCGM's values for "not known" begin here: dcgm_fields.h, DCGM_INT32_BLANK."""
ROW_REMAPPING_FAILED_XID = 64


class Found(NamedTuple):
    """A fault of the node: the condition that is True for it, and that condition's words."""

    condition: str
    reason: str
    message: str


def of_kernel(hit: LogHit) -> Found | None:
    """None where it is no fault of the node's, or no word of its kernel's."""
    text = text_of_kernel(hit.line)
    if text is None:
        return None
    if hit.xid is not None:
        return _of_xid(hit.xid, text)
    said, weight, _ = meaning(hit.rule, None)
    reason = "".join(word.capitalize() for word in hit.rule.split("-"))
    return Found(CONDITIONS[weight], reason, f"{said}: {text}") if weight in CONDITIONS else None


def of_dcgm(text: str, node: str) -> list[Found]:
    """The faults in what the DCGM exporter of `node` says, in the Prometheus text format.

    Raises `ValueError`, in a sentence, where it says nothing of use or speaks of another node:
    a Service may lead to the exporter of any.
    """
    samples = list(_samples(text))
    if not samples:
        raise ValueError(f"it has none of {', '.join(FIELDS)}")
    others = {sample.labels.get("Hostname", "") for sample in samples} - {node}
    if others:
        raise ValueError(f"it speaks of {min(others) or 'a node without Hostname'}, not of {node}")
    return [found for sample in samples if (found := _of_sample(sample)) is not None]


def _samples(text: str) -> Iterator[Sample]:
    """Those of our fields alone, so that garbage in another is no matter."""
    lines = [line for line in text.split("\n") if line.startswith(FIELDS)]
    try:
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            yield from (sample for sample in family.samples if sample.name in FIELDS)
    except (ValueError, IndexError) as error:
        raise ValueError(f"it cannot be read: {error}") from error


def _of_sample(sample: Sample) -> Found | None:
    if not 1 <= sample.value < BLANK_FROM:
        return None
    number, gpu = int(sample.value), sample.labels.get("gpu", "?")
    if sample.name == LAST_XID:
        return _of_xid(number, f"DCGM says XID {number} of GPU {gpu}")
    if sample.name == ROW_REMAP_FAILED:
        return _of_xid(ROW_REMAPPING_FAILED_XID, f"DCGM says so of GPU {gpu}")
    said = f"DCGM says {number} double-bit ECC errors of GPU {gpu} since its driver was loaded"
    return Found(XID_ERRORS, "DoubleBitErrors", said)


def _of_xid(xid: int, said: str) -> Found | None:
    text, weight, _ = meaning(XID, xid)
    if weight not in CONDITIONS:
        return None
    return Found(CONDITIONS[weight], f"Xid{xid}", f"{text}: {said}")
