"""XIDs, links, log rules and pressure: a table each."""

from typing import Any

import pytest

from holdfast.driver.core.faults.fault import fault_of
from holdfast.driver.watch import Expectation, Watch
from holdfast.driver.watch.logs import LogLines
from holdfast.protocol.faults import Blame, Kind, Weight
from holdfast.protocol.messages import Heartbeat, LogHit, NicRates, Pressure, Seat
from holdfast.protocol.xids import XIDS


def beat(sequence: int = 1, **fields: Any) -> Heartbeat:
    return Heartbeat(node="n", incarnation="a", sequence=sequence, uptime_s=1.0, **fields)


def findings(watch: Watch, heartbeat: Heartbeat, now: float = 1.0) -> list[Any]:
    return [event.finding for event in watch.heard(heartbeat, now)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("xid", "weight", "blame"),
    [
        (48, Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
        (79, Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
        (95, Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
        (119, Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
        (120, Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
        (94, Weight.RESTART, Blame.INFRASTRUCTURE),
        (13, Weight.REPORT, Blame.USER),
        (31, Weight.REPORT, Blame.USER),
        (43, Weight.REPORT, Blame.USER),
        (45, Weight.REPORT, Blame.UNKNOWN),
        (74, Weight.SUSPECT, Blame.INFRASTRUCTURE),
        (63, Weight.REPORT, Blame.UNKNOWN),
        (999, Weight.REPORT, Blame.UNKNOWN),
    ],
)
def test_an_xid_leads_to_what_its_table_says(xid: int, weight: Weight, blame: Blame) -> None:
    line = f"NVRM: Xid (PCI:0000:3b:00): {xid}, pid=1, text"
    hit = LogHit(source="kernel", rule="xid", line=line, xid=xid)
    watch = Watch()
    (finding,) = findings(watch, beat(logs=(hit,)))
    assert (finding.kind, finding.weight, fault_of(finding).blame) == (
        Kind.KERNEL_FAULT,
        weight,
        blame,
    )
    assert finding.evidence[0].text == line
    assert findings(watch, beat(2, logs=(hit,))) == [], "a repeated line is one fault"


def test_another_line_of_the_kernel_weighs_what_its_table_says_and_is_no_word_of_a_rank() -> None:
    line = "mlx5_core 0000:5e:00.0: poll_health:795:(pid 0): Fatal error 1 detected"
    said = {"mlx5-dead": Weight.SUSPECT, "oom-kill": Weight.REPORT, "newer": Weight.REPORT}
    hits = tuple(LogHit(source="kernel", rule=rule, line=line + rule) for rule in said)
    found = findings(Watch(), beat(logs=hits))
    assert [each.weight for each in found] == list(said.values())
    assert {each.kind for each in found} == {Kind.KERNEL_FAULT}
    assert found[0].summary == "the kernel of n: a NIC's firmware does not answer"
    assert found[0].evidence[0].data == {"rule": "mlx5-dead"}


def test_every_xid_of_the_fault_list_is_in_the_table() -> None:
    assert set(XIDS) == {13, 31, 43, 45, 48, 63, 64, 74, 79, 94, 95, 119, 120, 154}


def nic(up: bool, changes: int, errors: float = 0.0) -> NicRates:
    return NicRates(name="eth0", up=up, carrier_changes=changes, errors_per_s=errors)


def test_one_flap_is_tolerated_two_within_five_minutes_make_a_suspect() -> None:
    watch = Watch()
    assert findings(watch, beat(nics=(nic(True, 0),)), 0) == []
    (first,) = findings(watch, beat(nics=(nic(False, 1),)), 1)
    assert findings(watch, beat(nics=(nic(True, 2),)), 4) == []
    assert findings(watch, beat(nics=(nic(True, 2),)), 5) == []
    (second,) = findings(watch, beat(nics=(nic(True, 4),)), 200)
    assert (first.kind, first.weight) == (Kind.LINK_DOWN, Weight.REPORT)
    assert (second.kind, second.weight) == (Kind.LINK_DOWN, Weight.SUSPECT)
    assert "twice within 300 s" in second.summary


def test_two_flaps_far_apart_are_two_reports() -> None:
    watch = Watch()
    findings(watch, beat(nics=(nic(True, 0),)), 0)
    found = findings(watch, beat(nics=(nic(True, 2),)), 1)
    found += findings(watch, beat(nics=(nic(True, 4),)), 400)
    assert [each.weight for each in found] == [Weight.REPORT, Weight.REPORT]


def test_a_link_that_was_never_up_and_a_replaced_counter_accuse_nobody() -> None:
    watch = Watch()
    assert findings(watch, beat(nics=(nic(False, 7),)), 0) == []
    assert findings(watch, beat(nics=(nic(False, 0),)), 1) == []


def test_counters_that_rise_are_reported_once() -> None:
    watch = Watch()
    findings(watch, beat(nics=(nic(True, 0),)), 0)
    (finding,) = findings(watch, beat(nics=(nic(True, 0, 12.5),)), 1)
    assert (finding.kind, finding.weight) == (Kind.COUNTERS, Weight.REPORT)
    assert findings(watch, beat(nics=(nic(True, 0, 13.0),)), 2) == []


def test_a_counter_that_ticks_at_every_second_heartbeat_is_one_event() -> None:
    watch = Watch()
    beats = [beat(n, nics=(nic(True, 0, 2.0 * (n % 2)),)) for n in range(1, 201)]
    found = [each for n, sent in enumerate(beats) for each in findings(watch, sent, n / 2)]
    assert [each.kind for each in found] == [Kind.COUNTERS]
    assert findings(watch, beat(201, nics=(nic(True, 0, 2.0),)), 200), "after a minute of none"


def test_a_port_that_was_down_between_two_heartbeats_has_flapped_and_is_no_two_events() -> None:
    def port(downs: int | None, *, up: bool = True) -> Any:
        return beat(nics=(NicRates(name="mlx5_0/1", up=up, downs=downs),))

    watch = Watch()
    assert findings(watch, port(3), 0) == []
    (found,) = findings(watch, port(4), 1)
    assert (found.kind, found.weight) == (Kind.LINK_DOWN, Weight.REPORT)
    assert found.evidence[0].text == "mlx5_0/1 went down 4 times so far"
    assert findings(watch, port(4, up=False), 2) == [], "its counter says it, sooner or later"
    (found,) = findings(watch, port(5, up=False), 3)
    assert found.weight is Weight.SUSPECT
    assert findings(watch, port(0), 4) == [], "a counter that was reset"


@pytest.mark.parametrize("action", ["report", "restart", "suspect", None])
def test_a_log_hit_leads_to_what_its_rule_says(action: str | None) -> None:
    watch = Watch()
    rules = (("ECC", action),) if action else ()
    seat = Seat(rank=5, local_rank=0, node="n", address="127.0.0.1")
    watch.expect(Expectation(job="j", epoch=3, seats=(seat,), log_rules=rules))
    hit = LogHit(source="rank 5 stderr", rule="ECC", line="an ECC thing", rank=5, job="j", epoch=3)
    (finding,) = findings(watch, beat(logs=(hit,)))
    assert finding.weight == Weight(action or "report")
    assert (finding.job, finding.epoch, finding.rank) == ("j", 3, 5)
    assert findings(watch, beat(logs=(hit,))) == [], "a heartbeat may repeat it"


def hit_of(epoch: int, rank: int, line: str = "loss: nan", *, always: bool = True) -> LogHit:
    return LogHit(
        source=f"rank {rank} stdout",
        rule="NaN",
        line=line,
        rank=rank,
        job="j",
        epoch=epoch,
        always=always,
    )


def test_a_line_that_a_rule_finds_shows_what_the_rule_is_about() -> None:
    hit = LogHit(source="rank 5 stderr", rule="an XID", line="NVRM: Xid (x): 79", rank=5, job="j")
    (finding,) = findings(Watch(), beat(logs=(hit,)))
    assert finding.sign == "line-xid"


def test_a_line_of_an_epoch_that_is_over_restarts_no_other() -> None:
    watch = Watch()
    seat = Seat(rank=5, local_rank=0, node="n", address="127.0.0.1")
    watch.expect(Expectation(job="j", epoch=3, seats=(seat,), log_rules=(("NaN", "restart"),)))
    (late,) = findings(watch, beat(logs=(hit_of(2, 5, always=False),)))
    assert (late.weight, late.job, late.epoch) == (Weight.REPORT, "j", 2)
    watch.forget("j")
    (last,) = findings(watch, beat(logs=(hit_of(3, 5, always=False),)))
    assert (last.weight, last.job, last.epoch) == (Weight.REPORT, "j", 3)


def test_words_that_are_always_looked_for_are_reported_once_an_epoch_whatever_a_rule_says() -> None:
    watch = Watch()
    seat = Seat(rank=5, local_rank=0, node="n", address="127.0.0.1")
    watch.expect(Expectation(job="j", epoch=3, seats=(seat,), log_rules=(("NaN", "restart"),)))
    (finding,) = findings(watch, beat(logs=(hit_of(3, 0), hit_of(3, 1, "loss: NaN"))))
    assert finding.weight is Weight.REPORT
    assert "speaks of NaN" in finding.summary
    assert findings(watch, beat("other", logs=(hit_of(3, 7),))) == []
    assert len(findings(watch, beat(logs=(hit_of(4, 0),)))) == 1
    assert len(findings(watch, beat(logs=(hit_of(20, 0),)))) == 1
    (lines,) = [each for each in watch.detectors if isinstance(each, LogLines)]
    assert len(lines._told) == 1, "what is long over is not remembered"


def test_a_full_disk_is_told_once_and_again_after_it_was_over() -> None:
    watch = Watch()
    full, free = Pressure(scratch_used=0.99), Pressure(scratch_used=0.5)
    found = [len(findings(watch, beat(pressure=each))) for each in (free, full, full, free, full)]
    assert found == [0, 1, 0, 0, 1]
    (finding,) = findings(Watch(), beat(pressure=full))
    assert (finding.kind, finding.weight) == (Kind.DISK_FULL, Weight.REPORT)
    assert finding.summary == "99% of the disk of n is used"


def test_who_neither_the_cluster_nor_a_job_knows_is_forgotten_with_its_last_connection() -> None:
    watch = Watch()
    watch.fact("node-0", True, 100.0)
    for process in ("executor", "daemon"):
        watch.connected("stranger", process, 100.0)
    assert set(watch.instructions()) == {"node-0", "stranger"}
    watch.disconnected("stranger", "executor", 101.0)
    assert set(watch.instructions()) == {"node-0", "stranger"}
    watch.disconnected("stranger", "daemon", 101.0)
    watch.disconnected("node-0", "daemon", 101.0)
    assert set(watch.instructions()) == {"node-0"}
