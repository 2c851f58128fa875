"""A whole laboratory: what is broken from outside is found from outside, and nothing stays."""

import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from waiting import DEADLINE_S

from holdfast.keeper import processes
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import driver, process, rank
from holdfast.lab.cluster import Lab, Refused

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

SLEEPER = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "sleeper"},
    "spec": {
        "nodes": 2,
        "ranksPerNode": 2,
        "command": ["/bin/sleep", "1000"],
        "workdir": "/tmp",
    },
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    laboratory = Lab(tmp_path / "lab", nodes=2)
    with laboratory:
        laboratory.ready(within_s=DEADLINE_S)
        yield laboratory
        assert laboratory.leftovers().count > 10, "looking sees what is there"
    assert laboratory.leftovers().count == 0, laboratory.leftovers()


def test_ranks_processes_and_the_driver_are_found_killed_and_come_back(lab: Lab) -> None:
    with pytest.raises(Refused, match="nodes"):
        lab.submit(SLEEPER | {"spec": SLEEPER["spec"] | {"nodes": 0}})
    job = lab.submit(SLEEPER)

    def all_run() -> dict[int, int]:
        pids = target.rank_pids(lab, job)
        return pids if len(pids) == 4 else {}

    before = target.wait_for(all_run, "four ranks", DEADLINE_S)
    carriers = [target.node_of(lab, pid).name for pid in before.values()]
    assert carriers == ["node-1", "node-1", "node-2", "node-2"]

    done = rank.signalled(signal.SIGKILL, rank=3)(lab, job, Random(1))
    assert (done.node, done.rank) == ("node-2", 3)
    lab.until(
        lambda: set(all_run().values()).isdisjoint(before.values()) and bool(all_run()),
        "all anew",
        DEADLINE_S,
    )
    assert not [pid for pid in before.values() if processes.start_ticks(pid)]
    lab.until(lambda: len(lab.incidents(job)) == 1, "an incident", DEADLINE_S)
    assert lab.incidents(job)[0]["rank"] == 3

    anew, starts = all_run(), lab.starts("driver")
    driver.killed(lab, job, Random(1))
    lab.until(lambda: lab.starts("driver") > starts, "another driver", DEADLINE_S)
    process.keeper_killed(lab, job, Random(1))
    lab.until(lambda: lab.starts("keeper") > 1, "another keeper", DEADLINE_S)
    lab.ready(within_s=DEADLINE_S)
    assert all_run() == anew, "training noticed neither"

    lab.ask("POST", f"/jobs/{job}/stop")
    assert lab.finished(job, within_s=DEADLINE_S)["phase"] == "Stopped"
    assert target.rank_pids(lab, job) == {}
