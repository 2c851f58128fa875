"""What is done to the Lease by which drivers say who leads."""

import json
import time
from datetime import UTC, datetime
from random import Random

from holdfast.lab.chaos.injectors import Done, Injector, on_kubernetes
from holdfast.lab.on_kubernetes import KubernetesLab
from holdfast.lab.operators import LEASE

THIEF = "a-stranger"
THEFT_S = 10.0
"""From the fault on: a rank is back in less."""
RENEW_EVERY_S = 1.0


def stolen_while(other: Injector) -> Injector:
    """Somebody else writes himself into the Lease, again and again; another fault comes meanwhile.

    Then he is silent.
    """

    @on_kubernetes
    def do(lab: KubernetesLab, job: str, rng: Random) -> Done:
        _write(lab)
        done = other(lab, job, rng)
        end_s = time.monotonic() + THEFT_S
        while time.monotonic() < end_s:
            _write(lab)
            time.sleep(RENEW_EVERY_S)
        return _also(f"{THIEF} has the Lease for {THEFT_S:g} s", done)

    return do


def deleted_and(other: Injector) -> Injector:
    """Somebody deletes the Lease, and another fault comes."""

    @on_kubernetes
    def do(lab: KubernetesLab, job: str, rng: Random) -> Done:
        namespace, name = LEASE
        lab.plane.kubectl("-n", namespace, "delete", "lease", name)
        return _also("the Lease is deleted", other(lab, job, rng))

    return do


def _write(lab: KubernetesLab) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": THIEF, "renewTime": now, "leaseDurationSeconds": 60}
    (namespace, name), body = LEASE, json.dumps({"spec": spec})
    lab.plane.kubectl("-n", namespace, "patch", "lease", name, "--type=merge", "-p", body)


def _also(what: str, done: Done) -> Done:
    return Done(said=f"{what}; {done.said}", node=done.node, rank=done.rank, at_s=done.at_s)
