"""What to tell the checkpoint agent, and whether it has answered. Pure."""

from msgspec.structs import replace

from holdfast.checkpoint.agent_protocol import AgentOrder, AgentReport
from holdfast.executor.core.model import Care, State, own_seats
from holdfast.protocol.messages import UploadLimits


def agent_order(state: State) -> AgentOrder | None:
    """The order that should stand, or None where the one that stands will do.

    Folders of slots are left out: the agent's adapter adds those that are there.
    """
    desired = state.desired
    job = desired and (desired.job or desired.forget_job)
    if desired is None or not job:
        return None
    task = desired.task
    quiet = desired.job is not None and not desired.seats
    order = AgentOrder(
        id=0,
        job=job,
        epoch=desired.epoch,
        ranks=tuple(seat.rank for seat in own_seats(state)),
        world_size=desired.world_size or (task.topology.world_size if task else 1),
        store_url=task.store_url if task else "",
        begin_from=task.begin_from if task else "",
        store_interval_steps=task.store_interval_steps if task else 0,
        retention=task.retention if task else 2,
        keep_every_steps=task.keep_every_steps if task else 0,
        upload=task.upload if task else UploadLimits(),
        peer_interval_steps=task.peer_interval_steps if task else 0,
        peer=desired.peer,
        save=desired.save if quiet else None,
        look_up_store=quiet and desired.host_rendezvous,
        forget_job=desired.forget_job,
    )
    last = state.care.order
    if last is not None and replace(order, id=last.id) == last:
        return None
    return replace(order, id=last.id + 1 if last else 1)


def settled(care: Care) -> bool:
    """Whether the agent has done what it was told last, or never will: it bounds its own time."""
    told = care.report is not None and care.order is not None and care.report.id == care.order.id
    return care.order is None or care.final or told


def answered(care: Care, now: float) -> bool:
    """Whether the agent has said what is in memory, or cannot, or has had its time.

    What the store holds is told when it is known: see `looking`.
    """
    return care.order is None or care.final or now >= care.wait_until or current(care) is not None


def current(care: Care) -> AgentReport | None:
    """The agent's report on the order that stands; None: it has not answered that yet."""
    report, order = care.report, care.order
    return report if report and order and report.id == order.id else None


def looking(care: Care) -> str:
    """Why it is not known yet what the store holds, as far as this node is to look; "" where it is.

    An agent that is silent knows no more than one that is still at it.
    """
    if care.order is None or not care.order.look_up_store:
        return ""
    if care.final:
        return f"there is no checkpoint agent to look: {care.absent}"
    report = current(care)
    if report is None:
        return f"the checkpoint agent has not answered{f': {care.absent}' if care.absent else ''}"
    if report.looked:
        return ""
    newest = max((one.step for one in report.stored), default=None)
    return "nothing found so far" if newest is None else f"step {newest} found so far"
