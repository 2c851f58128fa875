"""How much of what its devices can compute a job does: model FLOPs utilization. Pure.

Formulas: PaLM (arXiv 2204.02311), appendix B.
"""

from typing import Final

PEAKS: Final = {
    "A100": 312.0,
    "H100-SXM": 989.0,
    "H100-PCIe": 756.0,
    "H100-NVL": 835.0,
    "H200-SXM": 989.0,
    "B200": 2_250.0,
    "L40S": 362.0,
    "MI250X-GCD": 191.5,
    "MI300X": 1_307.0,
    "MI325X": 1_307.0,
}
"""TFLOP/s of a device in BF16 on its matrix units, dense: of NVIDIA's and AMD's data sheets, which
tell twice as much for NVIDIA's with sparsity. A GCD is what a rank has of an MI250X, which has two.
"""


def per_token(
    parameters: float, *, layers: int, heads: int, head_size: int, sequence: int
) -> float:
    """FLOPs that a decoder needs to train on one token: 6N + 12LHQT. Without what is computed again
    to save memory, and with the whole square of the attention."""
    return 6 * parameters + 12 * layers * heads * head_size * sequence


def utilization(
    tokens_per_s: float | None, flops_per_token: float, peak_tflops: float, ranks: int
) -> tuple[float | None, str]:
    """The part of the peak that is used, and why that is not known ("" where it is)."""
    if not flops_per_token:
        return None, "the job does not say its mfu.flopsPerToken"
    if not peak_tflops:
        return None, "the job does not say its mfu.device or mfu.peakTflops"
    if not ranks:
        return None, "the job has no ranks"
    if tokens_per_s is None:
        return None, "the script tells no tokens (telemetry.step), or has done no two steps yet"
    return tokens_per_s * flops_per_token / (peak_tflops * 1e12 * ranks), ""
