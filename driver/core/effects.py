"""What the core wants done, in the imperative. Idempotent, fenced by epoch, run after the commit.

Carried out by `driver.cluster.effect_runner`; every one ends as an event of `core.events`, except
`Instruct`, whose end is what the executor then observes. `cause` is the journal entry that ordered
it; it is carried on into the event.
"""

import msgspec

from holdfast.protocol.messages import Desired


class Effect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, gc=False):
    """Base of all effects; the class name is the tag. `cause` is filled in by the loop."""

    cause: int | None = None


class Allocate(Effect, frozen=True):
    """Have an executor of the job on the node. Ends: NodeAllocated | AllocationFailed."""

    job: str
    node: str


class HoldForExam(Effect, frozen=True, tag="PutOnTrial"):
    """Have an executor on a distrusted node, so that it can be tested, with what `job` had there
    (`spec` is the job's, whole). Ends: NodeAllocated | AllocationFailed; the executor goes with
    Release."""

    job: str
    node: str
    number: int = msgspec.field(name="trial")
    spec: bytes = b""


class Release(Effect, frozen=True):
    """Give the node back. Ends: NodeReleased | ClusterCallFailed."""

    node: str


class Distrust(Effect, frozen=True):
    """Mark the node in the cluster as not to be used. Ends: NodeDistrusted | ClusterCallFailed."""

    node: str
    incident: int
    reason: str


class Trust(Effect, frozen=True):
    """Take that mark back. Ends: NodeTrusted | ClusterCallFailed."""

    node: str


class Instruct(Effect, frozen=True):
    """Send the node its whole desired state; kept and sent again when its executor reconnects."""

    desired: Desired


class TakeStacks(Effect, frozen=True):
    """Have stacks taken of these ranks, within `limit_s`. Ends: StacksTaken | StacksFailed."""

    job: str
    incident: int
    ranks: dict[str, tuple[int, ...]]  # by node
    limit_s: float = 1.0


AnyEffect = Allocate | HoldForExam | Release | Distrust | Trust | Instruct | TakeStacks
