"""Rules about nodes that people want free. Looked at every few seconds."""

from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World

LATE_S = 60.0
"""How much later than announced a node may be left: ranks that are just being started, or ended,
have their own time."""


def look(world: World) -> None:
    """Nobody trains on a node at a time by which it was to be free."""
    if not world.driver.alive or world.driver.frozen:
        return
    for name, by_s in world.promises.free_by.items():
        late_s = world.now - by_s - world.driver.stood_since(by_s)
        machine = world.machines[name]
        run = machine.executor.run if machine.executor is not None else None
        trains = run is not None and run.training and not machine.cut
        left = late_s <= LATE_S or not trains
        require("who-has-a-notice-is-left-in-time", left, f"{name}, {late_s:.1f} s late")
