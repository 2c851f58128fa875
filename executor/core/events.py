"""What can happen to an executor, in the past tense; one class for each way an action can end."""

import msgspec

from holdfast.checkpoint.agent_protocol import AgentReport
from holdfast.protocol.messages import Desired, DiagnosticResult, RankError, RankStatus, Rendezvous


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all events; the class name is the tag."""


class Instructed(Event, frozen=True):
    """The driver sent a desired state."""

    desired: Desired


class RankStarted(Event, frozen=True):
    job: str
    epoch: int
    rank: int
    pid: int


class RankEnded(Event, frozen=True):
    """The process ended and was reaped. `status.order` is filled in by the core."""

    job: str
    epoch: int
    status: RankStatus


class RankNotStarted(Event, frozen=True):
    """The command could not be run: 126, it cannot be executed; 127, it is not there."""

    job: str
    epoch: int
    rank: int
    exit_code: int
    error: RankError


class RoomLacked(Event, frozen=True):
    """Why the rendezvous waits, for room on a disk or for the Redis where ranks meet, and what to
    do; "" once it need not."""

    job: str
    epoch: int
    why: str


class MeetingLooked(Event, frozen=True):
    """Why the Redis where ranks meet does not answer; "" where it does."""

    job: str
    epoch: int
    why: str


class RendezvousListening(Event, frozen=True):
    """`served` is False where the port is only reserved and rank 0 is to serve it."""

    job: str
    epoch: int
    rendezvous: Rendezvous
    served: bool


class RendezvousEnded(Event, frozen=True):
    """The rendezvous process died, or could not be started."""

    job: str
    epoch: int
    why: str


class Cleared(Event, frozen=True):
    """Nothing is left of what ran: ranks, their children, rendezvous and diagnostics. `killed`:
    ranks that had not ended when their grace was over. `resting`: some are left that rest.
    """

    killed: tuple[int, ...] = ()
    resting: bool = False


class DiagnosticEnded(Event, frozen=True):
    result: DiagnosticResult


class AgentReported(Event, frozen=True):
    report: AgentReport


class AgentAbsent(Event, frozen=True):
    """There is no checkpoint agent now. `final`: and there will be none."""

    why: str
    final: bool


class LauncherChanged(Event, frozen=True):
    """`state` is "cold", "warming", "warm", or why there is none."""

    state: str


class Ticked(Event, frozen=True):
    """A deadline of the state has passed."""


AnyEvent = (
    Instructed
    | RankStarted
    | RankEnded
    | RankNotStarted
    | RoomLacked
    | MeetingLooked
    | RendezvousListening
    | RendezvousEnded
    | Cleared
    | DiagnosticEnded
    | AgentReported
    | AgentAbsent
    | LauncherChanged
    | Ticked
)
