"""Of a job that has ended nothing is known any more, whatever was told of it."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.driver.watch import Watch
from holdfast.driver.watch.agents import SilentAgents
from holdfast.driver.watch.collective_diverged import DivergedCollectives
from holdfast.driver.watch.collective_skipped import SkippedCollectives
from holdfast.driver.watch.detector import Context
from holdfast.driver.watch.logs import LogLines
from holdfast.driver.watch.saves_skipped import SkippedSaves
from holdfast.driver.watch.slow_detector import SlowRanks
from holdfast.driver.watch.standstill_detector import Standstills
from holdfast.driver.watch.store_failing import FailingStores
from holdfast.driver.watch.store_filling import FillingStores
from holdfast.driver.watch.store_not_shared import StoresNotShared
from holdfast.driver.watch.traffic import ChangedTraffic
from holdfast.protocol.faults import Kind
from holdfast.protocol.messages import (
    Gpu,
    Heartbeat,
    LogHit,
    NicRates,
    Observed,
    Pressure,
    Probe,
    RankStatus,
)


def known(watch: Any, job: str) -> list[str]:
    """Where something of the job stands."""
    return [
        type(holder).__name__
        for holder in (watch, *watch.detectors)
        for value in vars(holder).values()
        if isinstance(value, dict | set | frozenset) and (job in value or _tells_of(value, job))
    ] + [
        name
        for name in Context.__struct_fields__
        if isinstance(value := getattr(watch._context, name), dict) and job in value
    ]


def _tells_of(value: Any, job: str) -> bool:
    """Of what is kept by node, its job is in it."""
    return isinstance(value, dict) and any(
        getattr(each, "job", None) == job for each in value.values()
    )


def seen(node: str, **fields: Any) -> Observed:
    blank = Observed(node=node, incarnation="a", sequence=1, generation=1, epoch=1, job="job")
    ranks = (RankStatus(rank=0, state="running"),)
    return msgspec.structs.replace(blank, **{"ranks": ranks, **fields})


def test_of_a_job_that_has_ended_nothing_is_kept(cluster: Any) -> None:
    two = cluster(2)
    two.watch.recall("job", {Kind.SNAPSHOTS_STOPPED: "node-0"})
    two.go(5)
    away = {"store_error": "no space left", "store_shared": False, "saved_bytes": 7}
    away |= {"agent_silent": "it has not said", "undeleted": "it lets nothing go"}
    for node in two.names:
        assert two.watch.observed(seen(node, **away)) or node != "node-0"
    everything = known(two.watch, "job")
    told = {FailingStores, StoresNotShared, SkippedSaves, SilentAgents, FillingStores, Standstills}
    followed = {SlowRanks, SkippedCollectives, DivergedCollectives, ChangedTraffic}
    assert {each.__name__ for each in told | followed | {Watch}} <= set(everything)
    assert {"jobs", "recalled"} <= set(everything)
    two.watch.forget("job")
    two.watch.observed(seen("node-0", job=None))  # the other one is lost with its executor
    two.watch.keep({"other", "job"})
    assert "FailingStores" in known(two.watch, "job"), "it is suspended, say"
    two.watch.keep({"other"})
    assert known(two.watch, "job") == []


def test_what_still_runs_is_watched_whoever_says_that_it_has_ended(cluster: Any) -> None:
    two = cluster(2)
    two.go(5)
    two.watch.keep(set())
    two.running, began_s = False, two.now
    two.alter = lambda progress: (
        replace(progress, process="T", silent_s=two.now - began_s)
        if progress.rank == 2
        else replace(progress, process="S")
    )
    assert [each.kind for each in two.go(10)] == [Kind.STANDSTILL, Kind.HANG]


def ill(node: str) -> Heartbeat:
    """Of a node of which much is wrong."""
    hits = (
        LogHit(source="kernel", rule="xid", line="Xid 63", xid=63),
        LogHit(source="rank 0", rule="slow", line="slow", job="job", epoch=1, rank=0),
    )
    return Heartbeat(
        node=node,
        incarnation="a",
        sequence=1,
        uptime_s=1.0,
        nics=(NicRates(name="eth0", up=False, carrier_changes=2, errors_per_s=1.0, lanes=8),),
        gpus=(Gpu(index=0, lost=True),),
        pressure=Pressure(memory_used=0.99, scratch_used=0.99),
        logs=hits,
        probes=(Probe(node="node-0", ok=True),),
    )


def tell_of(watch: Watch, node: str) -> set[str]:
    """Detectors in whose state its name stands."""
    return {type(each).__name__ for each in watch.detectors if node in repr(vars(each))}


EACH = {
    *("BadLinks", "BrokenGpus", "KernelFaults", "HostPressure", "LogLines", "UnreachablePairs"),
    "NarrowBuses",
}


@pytest.mark.parametrize("how", ["forgotten", "renewed"])
def test_of_nodes_that_come_and_go_nothing_is_kept(how: str) -> None:
    watch = Watch()
    for number in range(3):
        node = f"stranger-{number}"
        watch.connected(node, "daemon", 0.0)
        watch.heard(ill(node), 1.0)
        assert tell_of(watch, node) == EACH
        if how == "forgotten":
            watch.disconnected(node, "daemon", 2.0)
        else:
            watch.gone(node, 2.0)
        assert tell_of(watch, node) == set()


def test_words_that_are_looked_for_everywhere_are_forgotten_with_their_job(cluster: Any) -> None:
    one = cluster(1)
    one.go(1)
    hit = LogHit(source="rank 0", rule="nan", line="nan", job="job", epoch=1, rank=0, always=True)
    one.extra["node-0"] = {"logs": (hit,)}
    one.go(1)
    (lines,) = [each for each in one.watch.detectors if isinstance(each, LogLines)]
    assert any("job" in key for key in lines._told)
    one.extra["node-0"] = {}
    one.watch.forget("job")
    one.watch.keep(set())
    assert lines._told == frozenset()
