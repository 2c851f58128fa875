"""Fault 44: what driver and nodes say to each other comes twice, and some of it late once more.

Done by the relay between them (`lab.replaying`), of which neither knows. Late is whatever was said
before, in earlier connections and epochs too.
"""

from random import Random

from msgspec.structs import replace

from holdfast.lab import replaying
from holdfast.lab.chaos.injectors import Done, Injector, driver, on_kubernetes
from holdfast.lab.on_kubernetes import KubernetesLab
from holdfast.lab.replaying import Mood

MOOD = Mood(again=True, late_share=0.5)


def while_repeated(*faults: Injector) -> Injector:
    """From now on repeat messages; do the faults, each once the job runs after the one before.

    The victim is that of the last one, and the fault that has to be found the first.
    """

    @on_kubernetes
    def do(lab: KubernetesLab, job: str, rng: Random) -> Done:
        replaying.turn(lab.run.root, MOOD)
        done = []
        for fault in faults:
            before = lab.job(job)["attempt"]
            done.append(fault(lab, job, rng))
            driver.wait_for_recovery(lab, job, before)
        said = f"messages are repeated; {', then '.join(each.said for each in done)}"
        return replace(done[-1], said=said, at_s=done[0].at_s)

    return do
