"""Faults 35, 36 and 41: the driver is killed, stopped or cut off, or a second fault comes in a
recovery.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

from msgspec.structs import replace

from holdfast.keeper import processes
from holdfast.kit import procstat
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, rank
from holdfast.lab.cluster import Lab

RECOVERED_WITHIN_S = 60.0
RECOVERY_S = 1.5
"""About as long as a restart in place takes here: the second fault falls somewhere within."""
CUT_OFF_S = 25.0
"""Longer than an executor may be away before its silence counts."""
STALLED_S = (5.0, 45.0)
"""Within which a driver is stopped: longer than ranks may take to be gone, and than an executor may
be away."""
LIFE_S = 2.5
"""Longest life of a driver that is killed often: it is up after about one second."""


def killed(lab: Lab, _job: str, _rng: Random) -> Done:
    """SIGKILL to the driver: the lab starts it again, as an operator's init would."""
    pid = target.wait_for(lambda: lab.pid("driver") or None, "the driver", 10.0)
    os.kill(pid, signal.SIGKILL)
    return Done(said="SIGKILL to the driver")


def stalled(lab: Lab, _job: str, rng: Random) -> Done:
    """SIGSTOP to the driver, and SIGCONT a while later. Raises `NotThere` where it did not stop."""
    pid = target.wait_for(lambda: lab.pid("driver") or None, "the driver", 10.0)
    at_s, stalled_s = time.time(), rng.uniform(*STALLED_S)
    os.kill(pid, signal.SIGSTOP)
    try:
        target.wait_for(lambda: _is_stopped(pid), "a driver that is stopped", 10.0)
        time.sleep(stalled_s)
        target.wait_for(lambda: _is_stopped(pid), "a driver that is still stopped", 0.0)
    finally:
        os.kill(pid, signal.SIGCONT)
    return Done(said=f"the driver is stopped for {stalled_s:.1f} s", at_s=at_s)


def _is_stopped(pid: int) -> bool:
    seen = procstat.stat(pid)
    return seen is not None and seen.state == "T"


def cut_off(lab: Lab, _job: str, _rng: Random) -> Done:
    """No node reaches the driver for a while: connections end, and new ones lead nowhere."""
    at_s = time.time()
    with _unreachable(lab):
        time.sleep(CUT_OFF_S)
    return Done(said=f"no node reaches the driver for {CUT_OFF_S:g} s", at_s=at_s)


def alone(lab: Lab, _job: str, _rng: Random) -> Done:
    """Neither does it hear of the API server: its own way there is silent."""
    proxy = target.wait_for(lambda: lab.pid("proxy") or None, "the proxy", 10.0)
    at_s = time.time()
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


def killed_in(phase: str, *faults: Injector, kill: Injector = killed) -> Injector:
    """Do the faults, each once the job has recovered from the one before, and `kill` the driver as
    soon as the job is seen in `phase` after the last, or has passed it.
    """

    def do(lab: Lab, job: str, rng: Random) -> Done:
        *earlier, last = faults
        done = [_and_recovered(fault, lab, job, rng) for fault in earlier]
        before = lab.job(job)["attempt"]
        done.append(last(lab, job, rng))

        def reached() -> str:
            now = lab.job(job)
            return str(now["phase"]) if now["phase"] == phase or _recovered(now, before) else ""

        seen = target.wait_for(reached, f"{job} in {phase}", RECOVERED_WITHIN_S)
        second = kill(lab, job, rng)
        said = f"{'; '.join(each.said for each in done)}; in {seen}: {second.said}"
        return replace(done[0], said=said)

    return do


def _and_recovered(fault: Injector, lab: Lab, job: str, rng: Random) -> Done:
    before = lab.job(job)["attempt"]
    done = fault(lab, job, rng)
    wait_for_recovery(lab, job, before)
    return done


def wait_for_recovery(lab: Lab, job: str, before: int) -> None:
    """Until the job runs in a later attempt than `before`. Raises `NotThere`."""

    def recovered() -> bool:
        return _recovered(lab.job(job), before)

    target.wait_for(recovered, f"{job} in another attempt", RECOVERED_WITHIN_S)


def _recovered(seen: Mapping[str, Any], before: int) -> bool:
    return bool(seen["attempt"] > before and seen["phase"] == "Running")


def killed_often(times: int) -> Injector:
    """Kill the driver `times` times, each at a random moment of its life, and a rank in between."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        turn = rng.randrange(times // 4, times // 2)
        done = Done(said="")
        for nth in range(times):
            pid = target.wait_for(lambda: lab.pid("driver") or None, "the driver", 10.0)
            time.sleep(rng.uniform(0.0, LIFE_S))
            if nth == turn:
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
