"""The detectors there are. A new one is a module and a line here.

Asked by `Watch`. What they find of one heartbeat, report or tick is told in this order.
"""

from holdfast.driver.watch.agents import SilentAgents
from holdfast.driver.watch.collective_diverged import DivergedCollectives
from holdfast.driver.watch.collective_skipped import SkippedCollectives
from holdfast.driver.watch.decline import Declines
from holdfast.driver.watch.detector import Detector
from holdfast.driver.watch.hardware import BadLinks, BrokenGpus, HostPressure
from holdfast.driver.watch.left_behind import LeftBehind
from holdfast.driver.watch.logs import KernelFaults, LogLines
from holdfast.driver.watch.losses import BadLosses
from holdfast.driver.watch.meeting_away import AwayMeetings
from holdfast.driver.watch.narrow_bus import NarrowBuses
from holdfast.driver.watch.nccl import NcclWords
from holdfast.driver.watch.pair_unreachable import UnreachablePairs
from holdfast.driver.watch.replicas_unlike import UnlikeReplicas
from holdfast.driver.watch.saves_skipped import SkippedSaves
from holdfast.driver.watch.silence_detector import SilentNodes
from holdfast.driver.watch.slow_detector import SlowRanks
from holdfast.driver.watch.slow_links import SlowLinks
from holdfast.driver.watch.standstill_detector import Standstills
from holdfast.driver.watch.store_failing import FailingStores
from holdfast.driver.watch.store_filling import FillingStores
from holdfast.driver.watch.store_not_shared import StoresNotShared
from holdfast.driver.watch.traffic import ChangedTraffic
from holdfast.driver.watch.unseen import UnseenRanks


def detectors() -> tuple[Detector, ...]:
    """One of each, that know nothing yet."""
    diverged, nccl, meetings = DivergedCollectives(), NcclWords(), AwayMeetings()
    return (
        KernelFaults(),
        HostPressure(),
        BadLinks(),
        LogLines(),
        BrokenGpus(),
        NarrowBuses(),
        SilentNodes(),
        UnreachablePairs(),
        SlowRanks(),
        UnseenRanks(),
        LeftBehind(),
        nccl,
        Standstills(odd_of=diverged.odd_of, nccl=nccl, away=meetings.away),
        SkippedCollectives(),
        diverged,
        BadLosses(),
        ChangedTraffic(),
        SlowLinks(),
        Declines(),
        FailingStores(),
        SkippedSaves(),
        UnlikeReplicas(),
        FillingStores(),
        StoresNotShared(),
        meetings,
        SilentAgents(),
    )
