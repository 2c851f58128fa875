"""Detectors: heartbeats in, findings out. Pure and streaming; what they know can be lost.

Called by the driver's loop through `Watch`. Each detector is a module and a line in `registry`;
`detector` is what they have in common. Must not act, wait, or read a clock.
"""

from holdfast.driver.watch.model import Expectation, JobFigures, JobProgress, RankView, Settings
from holdfast.driver.watch.watch import Watch

__all__ = ["Expectation", "JobFigures", "JobProgress", "RankView", "Settings", "Watch"]
