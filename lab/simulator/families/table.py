"""Every family by its name, and what a seed of it stands for."""

from collections.abc import Callable

from holdfast.lab.simulator import scenario
from holdfast.lab.simulator.families import long, short
from holdfast.lab.simulator.scenario import Scenario

FAMILIES: dict[str, Callable[[int], Scenario]] = {
    "mixed": scenario.draw,
    "driver-stalled": short.driver_stalled,
    "exams": short.exams,
    "slow-quiet": short.slow_quiet,
    "put-back": short.put_back,
    "renamed": short.renamed,
    "lemons": short.lemons,
    "unattended": short.unattended,
    "hundreds": long.hundreds,
    "month": long.month,
}
