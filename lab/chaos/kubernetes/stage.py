"""Plays scenarios on a real Kubernetes, with nodes, a driver and a namespace of its own for each.

Called by `chaos.kubernetes.main`. Scenarios share one control plane, which is stock Kubernetes and
not what is tried; after one that went astray the next gets a new one. Must not judge.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from holdfast.driver.core.state.model import FINISHED
from holdfast.kubeapi import paths
from holdfast.lab import replaying
from holdfast.lab.chaos import play
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.kubernetes import witnesses
from holdfast.lab.chaos.kubernetes.rows import GONE, OnKubernetes
from holdfast.lab.chaos.kubernetes.scenarios import LEFT_ALONE
from holdfast.lab.chaos.kubernetes.seen import Seen, forked, lines, printed, stored, told
from holdfast.lab.chaos.kubernetes.witnesses import Witness
from holdfast.lab.chaos.play import JOB
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.score import Facts
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.kubelet import joined
from holdfast.lab.kubernetes import proxy
from holdfast.lab.kubernetes.build import KUBERNETES
from holdfast.lab.kubernetes.given import AnyPlane
from holdfast.lab.kubernetes.plane import ControlPlane, KubectlFailed, NotReady
from holdfast.lab.losses import Losses
from holdfast.lab.on_kubernetes import KubernetesLab, install
from holdfast.lab.operators import LEASE
from holdfast.lab.postgres import Failed, NotInstalled, running_postgres

GRACE_S = 16.0
"""How long a node may be silent before it is NotReady. On a busy machine a kubelet stands still for
seconds, and a node that is NotReady for that alone would be another fault than the one done.
"""
GONE_WITHIN_S = 150.0
"""A pod that is deleted may work on for two minutes, until its ranks have moved."""
DATABASE = "postgres"
"""The one that every new server has."""
MARKED_WITHIN_S = 30.0
"""From a job's end until the node that it was evicted from has its mark."""


class Stage(play.Stage):
    """See the module."""

    failures: tuple[type[Exception], ...] = (
        *(*play.FAILURES, NotReady, KubectlFailed, joined.NotReady),
        *(httpx.HTTPError, subprocess.SubprocessError),
        *(NotInstalled, Failed),
    )
    shows_audit_log = True

    def __init__(self, root: Path, *, steps: int, seed: int, say: play.Say) -> None:
        super().__init__(root, steps=steps, seed=seed, say=say)
        self._up = ExitStack()
        self._plane: AnyPlane | None = None
        self._planes = 0
        self._audited_bytes = self._starts = 0

    def __exit__(self, *exc_info: object) -> None:
        self._end_plane()

    @contextmanager
    def lab(self, name: str, scenario: Scenario | None) -> Iterator[Lab]:
        row = scenario if isinstance(scenario, OnKubernetes) else LEFT_ALONE
        plane = self._plane or self._new_plane()
        if self.shows_audit_log:
            self._audited_bytes, self._starts = plane.audit_log.stat().st_size, len(plane.starts)
        try:
            with ExitStack() as up:
                journal = up.enter_context(running_postgres()).url(DATABASE) if row.shared else ""
                lab = KubernetesLab(
                    self.root / name,
                    plane,
                    nodes=row.shape.nodes,
                    standbys=row.shape.spare,
                    racks=row.shape.racks,
                    show=lambda _: None,
                    namespace=f"{JOB}-{name}",
                    proxied=row.proxied,
                    driver=row.driver,
                    journal=journal,
                    two=row.two,
                    relayed=row.relayed,
                )
                yield up.enter_context(lab)
            _clear(plane, lab.namespace)
            if row.starts_api:
                self._end_plane()  # its scheduler does not look again for half a minute and more
        except BaseException:
            self._give_up()
            raise

    def facts(self, lab: Lab, scenario: Scenario, done: Done, undisturbed: Losses) -> Facts:
        assert isinstance(lab, KubernetesLab)
        assert isinstance(scenario, OnKubernetes)
        if scenario.expected.phase == GONE:
            lab.until(lambda: _is_gone(lab), f"{lab.namespace} is gone", GONE_WITHIN_S)
        else:
            lab.until(lambda: _phase(lab) in FINISHED, "the job is over", play.JOB_WITHIN_S)
        if scenario.expected.must_evict:
            _wait_for_mark(lab, done.node or "")
        seen = self._seen(lab, scenario, done)
        ask = [*witnesses.ALWAYS, *scenario.there, *scenario.holds]
        facts = super().facts(lab, scenario, done, undisturbed)
        mute = set() if self.shows_audit_log else witnesses.BY_AUDIT_LOG
        return msgspec.structs.replace(
            facts,
            marked=self._marked(seen),
            wrong=[
                *facts.wrong,
                *(each for holds in ask if holds not in mute for each in holds(seen)),
            ],
            not_looked_at=[_words(holds) for holds in ask if holds in mute],
        )

    def ended(self, lab: Lab) -> tuple[str, list[dict[str, Any]], list[dict[str, Any]]]:
        assert isinstance(lab, KubernetesLab)
        phase = _phase(lab)
        return (phase, [], []) if phase == GONE else (phase, *super().ended(lab)[1:])

    def _marked(self, seen: Seen) -> list[str]:
        return witnesses.marked(seen)

    def _seen(self, lab: KubernetesLab, row: OnKubernetes, done: Done) -> Seen:
        settled = lab.entries()[-1].sequence
        audited = lab.plane.audit(self._audited_bytes) if self.shows_audit_log else ()
        entries = lab.entries()  # after what they ordered, before what is left once they are over
        nodes, hosts = lab.plane.read(paths.nodes())["items"], lab.joined.state().nodes.values()
        return Seen(
            done=done,
            job=lab.plane.read(paths.training_jobs(lab.namespace, JOB)),
            nodes={node["metadata"]["name"]: node for node in nodes},
            audited=audited,
            entries=entries,
            settled=settled,
            api_starts=lab.plane.starts[self._starts :] if row.starts_api else (),
            lease=lab.plane.read(paths.leases(*LEASE)),
            forked=forked(lab.run.job(JOB)),
            stored=stored(lab.store(JOB)),
            driver_starts=lab.starts("driver"),
            driver_said=lines(lab.run.root / "driver.log"),
            printed={each.name: printed(Path(each.folder)) for each in hosts},
            told=told(lab.run.job(JOB)),
            repeated=replaying.counted(lab.run.root),
            answered=proxy.counted(lab.run.root),
            drivers_up=lab.drivers_up(),
            pods=lab.plane.read(paths.pods(lab.namespace))["items"],
        )

    # ------------------------------------------------------------ the control plane

    def use(self, plane: ControlPlane) -> None:
        """Play on this one, which is somebody else's to end, for as long as nothing goes astray."""
        install(plane)
        self._plane = plane

    def _new_plane(self) -> ControlPlane:
        self._planes += 1
        self.say(f"starting a control plane of Kubernetes {KUBERNETES}")
        folder = self.root / f"kubernetes-{self._planes}"
        plane = self._up.enter_context(ControlPlane(folder, grace_s=GRACE_S))
        install(plane)
        self._plane = plane
        return plane

    def _give_up(self) -> None:
        """After a scenario that went astray."""
        self._end_plane()

    def _end_plane(self) -> None:
        self._plane = None
        self._up.close()


def _words(witness: Witness) -> str:
    """What it witnesses."""
    return getattr(witness, "__name__", "").replace("_", " ")


def _phase(lab: KubernetesLab) -> str:
    """As the job's object says."""
    found = lab.plane.read(paths.training_jobs(lab.namespace, JOB))
    return str(found.get("status", {}).get("phase", "")) if found else GONE


def _is_gone(lab: KubernetesLab) -> bool:
    """The namespace, and so all that was in it."""
    return not lab.plane.read(paths.namespaces(lab.namespace))


def _wait_for_mark(lab: KubernetesLab, node: str) -> None:
    """The mark comes late where the API server was away."""

    def marked() -> bool:
        return witnesses.is_marked(lab.plane.read(paths.nodes(node)))

    lab.until(marked, f"{node} is marked as distrusted", MARKED_WITHIN_S)


def _clear(plane: AnyPlane, namespace: str) -> None:
    """The nodes are gone, so nobody else would confirm the end of their pods."""
    plane.kubectl("-n", namespace, "delete", "pods", "--all", "--force", "--grace-period=0")
    plane.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
