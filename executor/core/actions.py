"""What the core wants done, in the imperative; carried out in order by `executor.loop`."""

import msgspec

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.executor.core.fence import Fence
from holdfast.protocol.messages import Desired, DiagnosticOrder, Refused, Seat, Task


class Action(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all actions; the class name is the tag."""


class Remember(Action, frozen=True):
    """Put the fence on disk, before anything that follows."""

    fence: Fence


class Answer(Action, frozen=True):
    """Tell the driver that its desired state was refused."""

    refused: Refused


class Warm(Action, frozen=True):
    """Have a launcher that has imported what this task needs."""

    task: Task


class Clear(Action, frozen=True):
    """End whatever runs, children of children too. Ends as Cleared.

    `grace_s` above 0 sends SIGTERM first, with `interrupt` SIGINT to those that would not hear it;
    a later Clear with 0 cuts that short. `rest`: the same
    program goes on in another attempt, so ranks that can begin anew in their own process are told
    to rest, and are left alone once they do.
    """

    grace_s: float
    interrupt: bool = False
    rest: bool = False


class HostRendezvous(Action, frozen=True):
    """Ends: RendezvousListening, and when the process dies RendezvousEnded. Before it RoomLacked,
    twice, where the disk of `logs` is full: room there is awaited. So is an answer of the Redis at
    `meets`, and MeetingLooked tells of it.
    """

    job: str
    epoch: int
    logs: str
    meets: str = ""  # its URL; "": ranks meet at the rendezvous itself


class StartRanks(Action, frozen=True):
    """Fork these ranks. Each ends as RankStarted or RankNotStarted, and later RankEnded."""

    desired: Desired
    seats: tuple[Seat, ...]
    agent_store: bool


class RunDiagnostic(Action, frozen=True):
    """Ends: DiagnosticEnded, within the order's time box and a margin."""

    order: DiagnosticOrder


class OrderAgent(Action, frozen=True):
    """Tell the checkpoint agent. Ends: AgentReported with the order's id, or AgentAbsent."""

    order: AgentOrder


AnyAction = (
    Remember | Answer | Warm | Clear | HostRendezvous | StartRanks | RunDiagnostic | OrderAgent
)
