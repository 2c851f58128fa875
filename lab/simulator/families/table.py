"""Every family by its name, and what a seed of it stands for."""

from collections.abc import Callable

from holdfast.lab.simulator import scenario
from holdfast.lab.simulator.families import cluster, long, people, short, twice
from holdfast.lab.simulator.scenario import Scenario

FAMILIES: dict[str, Callable[[int], Scenario]] = {
    "mixed": scenario.draw,
    "driver-stalled": short.driver_stalled,
    "doubts": short.doubts,
    "exams": short.exams,
    "slow-quiet": short.slow_quiet,
    "put-back": short.put_back,
    "renamed": short.renamed,
    "lemons": short.lemons,
    "heartbeats": short.heartbeats,
    "unattended": short.unattended,
    "same-name": people.same_name,
    "slow-calls": cluster.slow_calls,
    "wrong-tests": twice.wrong_tests,
    "flapping": cluster.flapping,
    "maintenance": people.maintenance,
    "updated": people.updated,
    "mounts": twice.mounts,
    "hungry": twice.hungry,
    "queue": people.queue,
    "apart": cluster.apart,
    "crowded": cluster.crowded,
    "switch": cluster.switch,
    "overruled": people.overruled,
    "exams-again": twice.exams_again,
    "suspects": twice.suspects,
    "again-and-again": twice.again_and_again,
    "people-evict": people.people_evict,
    "hundreds": long.hundreds,
    "month": long.month,
}
