"""Fault 35 where two drivers share a journal: the one that leads dies, or stands still for a while.

Nobody starts it again: what is to be done the other has to do.
"""

import os
import signal
from random import Random

from msgspec.structs import replace

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, driver, on_kubernetes
from holdfast.lab.on_kubernetes import KubernetesLab

LED_WITHIN_S = 30.0
"""A Lease is over after 6 s."""
COME_WITHIN_S = 60.0
"""From then on, until the executors of the job are with who leads."""


@on_kubernetes
def killed(lab: KubernetesLab, _job: str, _rng: Random) -> Done:
    """SIGKILL to the driver that leads."""
    leader = _leader(lab)
    lab.leave(leader)
    os.kill(_pid(lab, leader), signal.SIGKILL)
    return Done(said=f"SIGKILL to the leader {leader}")


def killed_and(other: Injector) -> Injector:
    """It is killed, and another fault comes once the executors are with the other driver."""

    @on_kubernetes
    def do(lab: KubernetesLab, job: str, rng: Random) -> Done:
        led = _leader(lab)
        first = killed(lab, job, rng)
        _wait_for_another(lab, job, led)
        done = other(lab, job, rng)
        return replace(done, said=f"{first.said}; under {lab.leader()}: {done.said}")

    return do


def stopped_while(other: Injector) -> Injector:
    """It is stopped (SIGSTOP), another fault comes as above, and it wakes once that is cured."""

    @on_kubernetes
    def do(lab: KubernetesLab, job: str, rng: Random) -> Done:
        led = _leader(lab)
        pid = _pid(lab, led)
        lab.leave(led)
        os.kill(pid, signal.SIGSTOP)
        try:
            _wait_for_another(lab, job, led)
            before = lab.job(job)["attempt"]
            done = other(lab, job, rng)
            driver.wait_for_recovery(lab, job, before)
        finally:
            os.kill(pid, signal.SIGCONT)
        said = f"the leader {led} stands still, and wakes; under {lab.leader()}: {done.said}"
        return replace(done, said=said)

    return do


def _leader(lab: KubernetesLab) -> str:
    return target.wait_for(lambda: lab.leader() or None, "a driver that leads", LED_WITHIN_S)


def _pid(lab: KubernetesLab, name: str) -> int:
    """Never 0, which a process between two lives has, and which is everybody to `kill`."""
    return target.wait_for(lambda: lab.pid(name) or None, f"the {name}", LED_WITHIN_S)


def _wait_for_another(lab: KubernetesLab, job: str, led: str) -> None:
    """Until another than `led` has the Lease, and all executors of the job."""

    def led_by_another() -> bool:
        return lab.leader() not in ("", led)

    def all_connected() -> bool:
        ours = [node["connected"] for node in lab.nodes() if node["job"] == job]
        return bool(ours) and all(ours)

    target.wait_for(led_by_another, "another leader", LED_WITHIN_S)
    target.wait_for(all_connected, f"the executors of {job} with {lab.leader()}", COME_WITHIN_S)
