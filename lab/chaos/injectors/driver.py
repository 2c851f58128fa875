"""Faults 35, 36 and 41: the driver is killed or cut off, or a second fault comes in a recovery."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from holdfast.keeper import processes
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, rank
from holdfast.lab.cluster import Lab

RECOVERY_S = 1.5
"""About as long as a restart in place takes here: the second blow falls somewhere within."""
CUT_OFF_S = 25.0
"""Longer than an executor may be away before its silence counts."""
LIFE_S = 2.5
"""Longest life of a driver that is killed often: it is up after about one second."""


def killed(lab: Lab, _job: str, _rng: Random) -> Done:
    """SIGKILL to the driver: the lab starts it again, as an operator's init would."""
    pid = target.wait_for(lambda: lab.pid("driver") or None, "the driver", 10.0)
    os.kill(pid, signal.SIGKILL)
    return Done(said="SIGKILL to the driver")


def cut_off(lab: Lab, _job: str, _rng: Random) -> Done:
    """No node reaches the driver for a while: connections end, and new ones lead nowhere."""
    at_s = time.time()
    with _unreachable(lab):
        time.sleep(CUT_OFF_S)
    return Done(said=f"no node reaches the driver for {CUT_OFF_S:g} s", at_s=at_s)


def alone(lab: Lab, _job: str, _rng: Random) -> Done:
    """Neither does it hear of the API server: its own way there is silent."""
    at_s, proxy = time.time(), lab.pid("proxy")
    with _unreachable(lab):
        os.kill(proxy, signal.SIGSTOP)
        try:
            time.sleep(CUT_OFF_S)
        finally:
            os.kill(proxy, signal.SIGCONT)
    said = f"the driver reaches no node and no API server for {CUT_OFF_S:g} s"
    return Done(said=said, at_s=at_s)


@contextmanager
def _unreachable(lab: Lab) -> Iterator[None]:
    """What the nodes' gateway leads to is not there; a gateway that is killed is started again."""
    socket = lab.run.socket
    aside = socket.rename(socket.with_suffix(".aside"))
    try:
        os.kill(target.cluster(lab).switch_pid, signal.SIGKILL)
        yield
    finally:
        aside.rename(socket)


def killed_in(phase: str) -> Injector:
    """Kill a rank, and the driver as soon as its job is seen in `phase`, or has passed it."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        before = lab.job(job)["epoch"]
        first = rank.signalled(signal.SIGKILL)(lab, job, rng)

        def reached() -> bool:
            seen = lab.job(job)
            passed = seen["epoch"] > before and seen["phase"] == "Running"
            return bool(seen["phase"] == phase or passed)

        target.wait_for(lambda: reached() or None, f"{job} in {phase}", 30.0)
        second = killed(lab, job, rng)
        said = f"{first.said}; in {phase}: {second.said}"
        return Done(said=said, node=first.node, rank=first.rank, at_s=first.at_s)

    return do


def killed_often(times: int) -> Injector:
    """Kill the driver `times` times, each at a random moment of its life, and a rank in between."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        turn = rng.randrange(times // 4, times // 2)
        done = Done(said="")
        for blow in range(times):
            pid = target.wait_for(lambda: lab.pid("driver") or None, "the driver", 10.0)
            time.sleep(rng.uniform(0.0, LIFE_S))
            if blow == turn:
                done = rank.signalled(signal.SIGKILL)(lab, job, rng)
            os.kill(pid, signal.SIGKILL)
            processes.wait_gone([pid], 10.0)
        said = f"SIGKILL to the driver, {times} times, with the {turn + 1}th {done.said}"
        return Done(said=said, node=done.node, rank=done.rank, at_s=done.at_s)

    return do


def followed(first: Injector, second: Injector) -> Injector:
    """`first`, and `second` at a random moment of the recovery from it."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        done = first(lab, job, rng)
        time.sleep(rng.uniform(0.0, RECOVERY_S))
        then = second(lab, job, rng)
        said = f"{done.said}, then {then.said}"
        also = (*done.also, *filter(None, (then.node, *then.also)))
        return Done(said=said, node=done.node, rank=done.rank, also=also, at_s=done.at_s)

    return do
