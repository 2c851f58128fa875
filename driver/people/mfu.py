"""A job's model FLOPs utilization, by what its spec says of its model and devices. Pure."""

import json

from holdfast.driver.core.state.model import Job
from holdfast.driver.watch import JobFigures
from holdfast.protocol.flops import PEAKS, utilization


def mfu(job: Job, live: JobFigures | None) -> tuple[float | None, str]:
    """A part of 1, and why it is not known, or ""."""
    told = json.loads(job.plan.spec or b"{}").get("spec", {}).get("mfu", {})
    speed = live.tokens_per_s if live else None
    peak = PEAKS.get(told.get("device", ""), told.get("peakTflops", 0))
    flops = told.get("flopsPerToken", 0)
    return utilization(speed, flops, peak, job.world_size)
