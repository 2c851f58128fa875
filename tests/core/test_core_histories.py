"""Recorded histories, decided again by today's code: the same effects, in the same order.

A change of behaviour shows here first. To record anew, on purpose:
`python tests/core/test_core_histories.py`, then read the difference.
"""

from pathlib import Path

import msgspec
import pytest

from holdfast.driver.core.decide import decide
from holdfast.driver.core.effects import AnyEffect
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.core.state.model import State
from holdfast.lab.simulator.scenario import POLICY, Fault, Scenario, SimJob
from holdfast.lab.simulator.simulate import play

FOLDER = Path(__file__).parent / "histories"
JOB = SimJob("job", 0.1, 2, 1, 1, 12, 5)


class Recorded(msgspec.Struct):
    """One line of a history."""

    now: float
    event: AnyEvent
    effects: tuple[AnyEffect, ...]
    phases: dict[str, str]


HISTORIES = {
    "a-rank-is-killed": (Fault(3.0, "kill-rank", 1, 0.1),),
    "a-node-is-lost-and-a-standby-takes-over": (Fault(3.0, "lose-node", 2, 0.9),),
    "a-node-hangs-and-its-tests-fail": (Fault(3.0, "bad-node", 2, 0.9),),
    "a-standby-fails-its-test": (Fault(0.05, "bad-node", 1, 0.9),),
    "the-driver-dies-in-a-recovery": (
        Fault(3.0, "kill-rank", 1, 0.1),
        Fault(3.01, "kill-driver", 2, 0.1),
    ),
    "a-bug-of-the-users-fails-the-job": (Fault(1.0, "bug", 5, 0.1),),
    "a-suspended-job-goes-on": (Fault(3.0, "suspend", 0, 0.1), Fault(6.0, "resume", 0, 0.1)),
}


def record(name: str) -> bytes:
    """The history as it is today, one JSON line for each entry."""
    scenario = Scenario(seed=1, nodes=4, racks=2, jobs=(JOB,), faults=HISTORIES[name])
    world = play(scenario)
    state, lines = State(), []
    for entry in world.driver.journal:
        state = decide(state, entry.event, entry.now, POLICY).state
        phases = {job.name: str(job.phase) for job in state.jobs.values()}
        line = Recorded(entry.now, entry.event, entry.effects, phases)
        lines.append(msgspec.json.encode(line))
    return b"\n".join(lines) + b"\n"


@pytest.mark.parametrize("name", HISTORIES)
def test_todays_code_decides_as_it_was_recorded(name: str) -> None:
    state = State()
    lines = (FOLDER / f"{name}.jsonl").read_bytes().splitlines()
    assert len(lines) > 20
    for number, line in enumerate(lines, start=1):
        recorded = msgspec.json.decode(line, type=Recorded)
        decision = decide(state, recorded.event, recorded.now, POLICY)
        where = f"line {number}, {recorded.event}, because: {decision.why}"
        assert decision.effects == recorded.effects, where
        assert {j.name: str(j.phase) for j in decision.state.jobs.values()} == recorded.phases, (
            where
        )
        state = decision.state


if __name__ == "__main__":
    for name in HISTORIES:
        (FOLDER / f"{name}.jsonl").write_bytes(record(name))
