"""Fault 37: the API server is down, slow, answers badly, or has forgotten what watches go on from.

Whatever is done, it is back when the injector returns: what follows is how others took it.
"""

import time
from random import Random

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import Done, Injector, on_kubernetes
from holdfast.lab.kubernetes import proxy
from holdfast.lab.kubernetes.proxy import Mood
from holdfast.lab.on_kubernetes import KubernetesLab

DOWN_S = 120.0
SOON_S = 2.0
"""From its end until another fault is done meanwhile: all have noticed."""
BADLY_S = 10.0
SLOWLY_S = 20.0
"""A hanging request is given up after 30 s: those of the recovery are still under way."""
API_SERVER = "kube-apiserver"


@on_kubernetes
def stopped(lab: KubernetesLab, _job: str, _rng: Random) -> Done:
    """It ends, and is started again after a while."""
    at_s = time.time()
    lab.plane.stop(API_SERVER)
    try:
        time.sleep(DOWN_S)
    finally:
        lab.plane.start(API_SERVER)
    return Done(said=f"the API server is down for {DOWN_S:g} s", at_s=at_s)


def stopped_while(other: Injector) -> Injector:
    """It ends, another fault is done, and the API server is away for all of the recovery."""

    @on_kubernetes
    def do(lab: KubernetesLab, job: str, rng: Random) -> Done:
        lab.plane.stop(API_SERVER)
        try:
            time.sleep(SOON_S)
            done = other(lab, job, rng)
            time.sleep(DOWN_S)
        finally:
            lab.plane.start(API_SERVER)
        said = f"{done.said}, while the API server is down for {DOWN_S:g} s"
        return replace(done, said=said)

    return do


@on_kubernetes
def compacted(lab: KubernetesLab, _job: str, _rng: Random) -> Done:
    """It starts again, and etcd has forgotten all but the present: watches have to begin anew."""
    lab.plane.stop(API_SERVER)
    try:
        lab.plane.compact()
    finally:
        lab.plane.start(API_SERVER)
    return Done(said="etcd is compacted, and the API server started again")


def answering_badly_while(other: Injector) -> Injector:
    """The driver's way to it answers every second request badly, and another fault is done."""
    return _in_a_mood(other, Mood(bad_share=0.5), BADLY_S, "is a bad one")


def answering_slowly_while(other: Injector) -> Injector:
    """Every second answer to the driver comes late or never, and another fault is done."""
    return _in_a_mood(other, Mood(slow_share=0.5), SLOWLY_S, "comes late or never")


def _in_a_mood(other: Injector, mood: Mood, for_s: float, said: str) -> Injector:
    @on_kubernetes
    def do(lab: KubernetesLab, job: str, rng: Random) -> Done:
        proxy.turn(lab.run.root, mood)
        try:
            time.sleep(SOON_S)
            done = other(lab, job, rng)
            time.sleep(for_s)
        finally:
            proxy.turn(lab.run.root, Mood())
        return replace(
            done, said=f"{done.said}, while every second answer of the API server {said}"
        )

    return do
