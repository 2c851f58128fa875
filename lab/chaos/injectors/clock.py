"""Fault 34: the wall clock of the driver's machine is stepped, forwards or backwards."""

from random import Random

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.chaos.scripts import stepped
from holdfast.lab.cluster import Lab

DRIVER = "holdfast.lab.chaos.scripts.stepped"
STEP_S = 300.0


def stepped_and(other: Injector) -> Injector:
    """Step it by five minutes either way, and do another fault; times in its journal are off."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        offset_s = rng.choice([-STEP_S, STEP_S])
        stepped.step(lab.run.root, offset_s)
        done = other(lab, job, rng)
        said = f"the driver's clock is stepped by {offset_s:g} s; {done.said}"
        return replace(done, said=said, at_s=done.at_s + offset_s)

    return do
