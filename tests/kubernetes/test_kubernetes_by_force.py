"""Pods that nobody ends: removed, if need be by force, for an entry in the journal that says why.

A driver on a real API server; its nodes are Node objects without machines.
"""

import re
import shutil
from collections.abc import Iterator

import pytest
from operated import Operated
from operated import operated as started
from waiting import eventually

from holdfast.driver.core.effects import Release
from holdfast.driver.core.events import ExecutorLingers
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


@pytest.fixture(scope="module")
def operated(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    with started(crd, tmp_path_factory.mktemp("driver"), name="forced", nodes=1) as driven:
        yield driven


def test_a_pod_that_a_node_away_never_lets_go_is_removed_for_an_entry_that_says_why(
    operated: Operated,
) -> None:
    since_bytes = operated.plane.audit_log.stat().st_size
    operated.apply("held")
    (pod,) = (each["metadata"]["name"] for each in operated.bound("held", 1))
    operated.patch("held", suspend=True)
    eventually(lambda: not operated.pods("held"), "its pod is to end")
    operated.kubectl("delete", "pod", pod, "--grace-period=1", "--wait=false")  # sooner, that is
    operated.nodes.ready("forced-1", "False")
    eventually(lambda: not operated.get("pod", pod), "the pod is gone")
    entries = operated.driver.journal()
    (entry,) = (each for each in entries if isinstance(each.event, ExecutorLingers))
    why = rf"removed by force: pod {pod} has been Terminating for \d+ s on forced-1, which is away"
    assert re.fullmatch(why, entry.why)
    assert (entry.jobs, entry.nodes) == (("held",), ("forced-1",))
    assert entry.effects == (Release(node="forced-1", cause=entry.sequence),)
    forced = eventually(lambda: forced_since(operated, since_bytes), "it is audited")
    assert forced == [
        f"holdfast-driver (term={entry.term} entry={entry.sequence} Release forced-1)"
    ]
    operated.clear("held")


def forced_since(operated: Operated, since_bytes: int) -> list[str]:
    """Who removed a pod of the namespace by force: in those of others, whose nodes are gone, the
    cluster does so itself.
    """
    pods = {"resource": "pods", "namespace": operated.namespace}
    return [
        event["userAgent"]
        for event in operated.plane.audit(since_bytes)
        if event["verb"] == "delete"
        and pods.items() <= event.get("objectRef", {}).items()
        and (event.get("requestObject") or {}).get("gracePeriodSeconds") == 0
    ]


def test_a_pod_that_a_driver_without_its_journal_does_not_want_goes(operated: Operated) -> None:
    operated.nodes.ready("forced-1", "True")
    operated.apply("lost")
    operated.bound("lost", 1)
    operated.kill()
    operated.patch("lost", suspend=True)
    shutil.rmtree(operated.driver.paths.root)
    operated.start()
    eventually(lambda: not operated.pods("lost"), "its pod is to end")
    events = [entry.event for entry in operated.driver.journal()]
    strays = [event for event in events if isinstance(event, ExecutorLingers) and event.stray]
    assert {event.node for event in strays} == {"forced-1"}
    operated.clear("lost")
