"""The words in which a simulated executor says what it observes."""

from holdfast.driver.core import events as e
from holdfast.lab.simulator import checkpoints
from holdfast.lab.simulator.machines import Machine
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import Desired, RankError, RankStatus


def quiet(
    world: World,
    machine: Machine,
    desired: Desired,
    *,
    looks: bool = False,
    looking: str = "",
    error: str = "",
) -> e.NodeQuiet:
    """No rank is left here; `looks`: and this is what the store holds."""
    assert desired.job is not None
    looks = looks and machine.name not in world.lookup.unmounted
    points, damaged, failed = checkpoints.look_up(world, desired.job) if looks else ((), (), error)
    return e.NodeQuiet(
        job=desired.job,
        epoch=desired.epoch,
        node=machine.name,
        snapshots=machine.memory.get(desired.job, ()),
        stored=points,
        looking=looking,
        damaged=damaged,
        store_error=failed,
    )


def exited(
    world: World, machine: Machine, desired: Desired, exits: tuple[RankStatus, ...]
) -> e.RanksExited:
    """Ranks of the epoch that is desired have ended."""
    assert desired.job is not None
    job, epoch = desired.job, desired.epoch
    step = world.step_of(job, epoch)
    return e.RanksExited(job=job, epoch=epoch, node=machine.name, exits=exits, step=step)


def ended(
    rank: int, code: int, signal: int, error: str, *, order: int, step: int, sealed: bool
) -> RankStatus:
    """How a rank ended: of an exception, of a signal, or as it should. "echo": it lost a peer."""
    told = RankError(message=error, exception=error, in_collective=error == "echo")
    return RankStatus(
        rank=rank,
        state="exited",
        exit_code=None if signal else code,
        signal=signal or None,
        error=told if error else None,
        order=order,
        step=step,
        sealed=sealed,
    )
