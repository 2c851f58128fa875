"""Nodes that come, go and are silent: two sources, the brake, one incident a cause."""

import pytest

from holdfast.driver.batch.deadlines import next_deadline
from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate, Distrust, Instruct, Release, Trust
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.node import Awaited, Source
from holdfast.driver.core.state.orders import calls_for
from holdfast.driver.people.admission import refuse
from holdfast.protocol.faults import Finding, Kind, Weight


def test_a_connection_that_comes_back_is_no_fault(training) -> None:
    life = training()
    epoch = life.job.epoch
    life.silence("n1")
    life.connect("n1", "n1-first")
    assert life.phase is Phase.RUNNING
    assert life.job.epoch == epoch
    assert life.state.incident_count == 0


def test_the_cluster_alone_does_not_condemn_a_node_that_is_heard(training) -> None:
    life = training()
    life.do(e.NodeVanished(node="n1", why="its lease is over"))
    life.wait(until_s=life.now + 300)
    assert life.phase is Phase.RUNNING
    assert life.evicted == []


def test_a_late_end_of_an_older_connection_is_ignored(training) -> None:
    life = training()
    life.silence("n1")
    life.connect("n1", "n1-second")
    assert life.do(e.ExecutorDisconnected(node="n1", incarnation="n1-first")).idle


def test_an_executor_that_missed_its_orders_is_told_again(training) -> None:
    life = training()
    life.silence("n1")
    life.effects.clear()
    life.do(e.ExecutorConnected(node="n1", incarnation="n1-first", address="10.0.0.1"))
    assert [effect.desired.node for effect in life.ordered(Instruct)] == ["n1"]
    assert life.told("n1").seats == life.job.seats


def test_one_silent_node_is_evicted_after_its_time(training) -> None:
    life = training(nodes=4, standbys=1)
    life.silence("n1")
    life.wait(until_s=life.now + life.policy.reconnect_s - 1)
    assert life.phase is Phase.RUNNING
    life.wait(until_s=life.now + 2)
    assert life.evicted == ["n1"]
    assert life.incident.kind is Kind.EXECUTOR_LOST


def test_executors_of_a_job_that_is_to_end_may_go_without_a_word(training) -> None:
    life = training(nodes=4, grace_s=60.0)
    life.do(e.DeleteRequested(job="job"))
    life.silence("n1")
    life.wait(until_s=life.now + life.policy.reconnect_s + 1)
    assert life.evicted == []
    life.wait(until_s=life.now + 300)
    assert (life.evicted, life.state.jobs, life.state.incidents) == ([], {}, {})


def test_a_silent_executor_of_a_job_that_is_resumed_after_all_counts_again(training) -> None:
    life = training(nodes=4, standbys=1, grace_s=60.0)
    life.do(e.SuspendRequested(job="job"))
    life.silence("n1")
    life.wait(until_s=life.now + life.policy.reconnect_s + 1)
    assert life.phase is Phase.SUSPENDING
    life.do(e.ResumeRequested(job="job"))
    life.wait(until_s=life.now + life.policy.reconnect_s + 1)
    assert life.evicted == ["n1"]


def test_silence_of_everybody_is_one_incident_and_evicts_nobody(training) -> None:
    life = training(nodes=4)
    life.silence("n0", "n1", "n2", "n3")
    life.wait(until_s=life.now + 500)
    assert life.evicted == []
    assert life.phase is Phase.RUNNING
    assert life.state.incident_count == 1
    assert life.incident.outage
    for node in ("n0", "n1", "n2", "n3"):
        life.connect(node, f"{node}-first")
    assert life.incident.closed_s is not None


def test_more_silent_nodes_than_the_brake_allows_are_not_evicted(training) -> None:
    life = training(nodes=10)
    life.silence("n1", "n2", "n3")
    life.wait(until_s=life.now + 500)
    assert life.evicted == []
    assert life.state.incident_count == 1
    life.connect("n1", "n1-first")
    life.wait(until_s=life.now + 21)
    assert [life.state.nodes[node].job for node in ("n2", "n3")] == [None, None]
    assert life.evicted == [], "two at once: nothing is held against either"


def test_nodes_that_are_all_not_quiet_are_not_evicted_for_it(training) -> None:
    life = training(nodes=4)
    life.dies(1, signal=9)
    life.wait(until_s=life.now + 300)
    assert life.evicted == []
    assert "still have ranks" in life.job.waiting
    life.answer()
    assert life.phase is Phase.RUNNING


def test_the_only_node_of_a_cluster_is_never_evicted_for_silence(training) -> None:
    life = training(nodes=1)
    life.silence("n0")
    life.wait(until_s=life.now + 500)
    assert life.evicted == []


def test_a_lost_rack_is_one_incident_for_all_its_jobs(life) -> None:
    for k in range(6):
        life.node(f"n{k}", rack="a" if k < 2 else "b")
    life.submit("one", nodes=2)
    life.submit("two", nodes=2)
    first, second = life.state.jobs["one"].places[0], life.state.jobs["two"].places[0]
    for name in ("one", "two"):
        life.answer(name)
        life.progress(1, name)
    life.lose(first)
    life.lose(second)
    assert life.state.incident_count == 1
    assert life.incident.jobs == ("one", "two")
    assert life.incident.evicted == (first, second)
    life.answer("one")
    life.answer("one")
    life.progress(2, "one")
    assert life.incident.open
    life.answer("two")
    life.answer("two")
    life.progress(2, "two")
    assert not life.incident.open


def test_above_the_brake_lost_nodes_leave_their_job_and_only_rest(training) -> None:
    life = training(nodes=4)
    for node in ("n0", "n1", "n2"):
        life.lose(node)
    assert life.evicted == ["n0", "n1"]
    assert life.state.nodes["n2"].job is None
    assert (life.state.nodes["n2"].against[Source.REST].until_s or 0.0) > life.now


def test_no_node_to_be_had_is_said_and_it_goes_on_when_one_comes(training) -> None:
    life = training()
    life.lose("n1")
    life.answer()
    assert life.phase is Phase.REPLACING
    lack = "there is no node for ranks 2 to 3, and no node is free"
    assert life.job.waiting == f"{lack}; n1: it is quarantined (n1 is lost)"
    life.node("n9")
    life.answer()
    assert life.phase is Phase.RUNNING
    assert life.job.places == ("n0", "n9")


def test_a_free_node_has_nothing_to_end_and_is_given_up_where_it_does_not_come(training) -> None:
    life = training()
    life.do(e.NodeAppeared(node="n8"))
    life.lose("n1")
    assert (life.phase, life.job.places) == (Phase.SUSPENDING, ("n0", "n8"))
    life.answer(silent=["n8"])
    assert life.phase is Phase.REPLACING, "all that is missing is the new node"
    life.node("n9")
    life.wait(until_s=life.now + life.policy.connect_s + 1)
    life.answer()
    assert (life.phase, life.job.places) == (Phase.RUNNING, ("n0", "n9"))
    assert life.evicted == ["n1"]


def test_an_evicted_node_that_returns_is_not_used_until_a_person_restores_it(training) -> None:
    life = training()
    life.lose("n1")
    life.answer()
    life.do(e.NodeReleased(node="n1"))
    life.do(e.NodeAppeared(node="n1"))
    life.connect("n1", "n1-second")
    assert life.job.places == ("n0", "")
    assert life.ordered(Distrust)[-1].node == "n1"
    life.do(e.NodeRestoreRequested(node="n1", reason="new board"))
    assert life.ordered(Trust)[-1].node == "n1"
    assert life.job.places == ("n0", "n1")


def test_a_free_node_with_hardware_evidence_is_kept_out(training) -> None:
    from holdfast.protocol.faults import Finding, Weight

    life = training(spare=1)
    finding = Finding(kind=Kind.KERNEL_FAULT, weight=Weight.CONCLUSIVE, node="n2")
    life.do(e.Found(finding=finding))
    assert life.evicted == ["n2"]
    assert not life.incident.open
    assert life.phase is Phase.RUNNING


def test_a_lost_standby_is_replaced_and_training_is_not_touched(training) -> None:
    life = training(standbys=1, spare=1)
    epoch = life.job.epoch
    life.lose("n2")
    assert life.job.standbys == ("n3",)
    assert life.job.epoch == epoch
    assert life.phase is Phase.RUNNING
    assert not life.incident.open


def test_a_job_that_cannot_use_its_nodes_lets_others_have_them_after_a_while(life) -> None:
    for k in range(3):
        life.node(f"n{k}")
    life.submit("big", nodes=3)
    life.answer("big")
    life.progress(1, "big")
    life.submit("small", nodes=2)
    life.lose("n2")
    life.answer("big")
    assert life.state.jobs["big"].phase is Phase.REPLACING
    life.wait(until_s=life.now + life.policy.hold_s + 1)
    assert life.state.jobs["big"].phase is Phase.PENDING
    life.do(e.NodeReleased(node="n0"))
    life.do(e.NodeReleased(node="n1"))
    assert life.state.jobs["small"].places == ("n0", "n1")


def test_a_failed_call_to_the_cluster_is_made_again(training) -> None:
    life = training()
    life.lose("n1")
    life.effects.clear()
    life.do(e.ClusterCallFailed(call="release", node="n1", why="409"))
    life.wait(until_s=life.now + life.policy.retry_s)
    assert [effect.node for effect in life.ordered(Release)] == ["n1"]


def test_a_driver_that_takes_over_orders_everything_open_anew(life) -> None:
    life.node("n0")
    life.node("n1")
    life.submit()
    open_before = [call for node in life.state.nodes.values() for call in calls_for(node)]
    assert {type(effect) for effect in open_before} == {Allocate}
    life.effects.clear()
    life.do(e.DriverStarted(term=2))
    assert set(map(type, life.effects)) == {Allocate, Instruct}
    assert all(order.desired.term == 2 for order in life.ordered(Instruct))


def test_a_new_driver_gives_executors_time_to_come_back(training) -> None:
    life = training(nodes=3)
    epoch = life.job.epoch
    life.do(e.DriverStarted(term=2))
    life.do(e.NodeVanished(node="n2", why="not there at start"))
    assert life.phase is Phase.RUNNING
    for node in ("n0", "n1", "n2"):
        life.connect(node, f"{node}-first")
    life.wait(until_s=life.now + 60)
    assert life.job.epoch == epoch
    assert life.evicted == []


def test_nodes_whose_executors_never_came_are_not_silent_after_the_driver_was_restarted(
    life,
) -> None:
    for node in ("n0", "n1"):
        life.do(e.NodeAppeared(node=node))
    life.submit()
    for term in (2, 3):
        life.do(e.DriverStarted(term=term))
    life.wait(until_s=life.now + life.policy.return_s + life.policy.reconnect_s)
    assert life.state.incidents == {}
    assert life.phase is Phase.ALLOCATING, "its executors have their own time to come"


def test_executors_that_come_back_slowly_for_there_are_many_are_not_taken_for_silent(
    training,
) -> None:
    life = training(nodes=6)
    life.do(e.DriverStarted(term=2))
    for number in range(5):
        life.wait(until_s=life.now + 0.9 * life.policy.return_s)
        life.connect(f"n{number}", f"n{number}-first")
    life.wait(until_s=life.now + 0.9 * life.policy.reconnect_s)
    assert (life.evicted, life.state.incidents) == ([], {})
    life.wait(until_s=life.now + 0.2 * life.policy.reconnect_s)
    assert life.evicted == ["n5"], "nobody has come for so long: it is silent"


def test_a_node_that_died_while_no_driver_was_there_is_found(training) -> None:
    life = training(nodes=3, spare=1)
    life.do(e.DriverStarted(term=2))
    life.do(e.NodeVanished(node="n2", why="not there at start"))
    for node in ("n0", "n1"):
        life.connect(node, f"{node}-first")
    life.wait(until_s=life.now + life.policy.return_s + 1)
    assert life.evicted == ["n2"]


def test_a_tick_leaves_no_deadline_behind(training) -> None:
    life = training(nodes=3, deadline_s=5_000.0, ttl_s=10.0)
    life.silence("n0")
    life.dies(5, signal=9)
    for _ in range(50):
        due = next_deadline(life.state)
        if due is None:
            break
        life.wait()
        after = next_deadline(life.state)
        assert after is None or after > life.now


def test_generations_of_a_node_only_grow(training) -> None:
    life = training(nodes=3, standbys=1)
    life.dies(1, signal=9)
    life.lose("n2")
    life.answer()
    life.do(e.DriverStarted(term=2))
    for node in life.state.nodes:
        orders = [f.desired for f in life.ordered(Instruct) if f.desired.node == node]
        generations = [desired.generation for desired in orders]
        assert generations == sorted(set(generations))
        epochs = [(desired.term, desired.epoch) for desired in orders]
        assert epochs == sorted(epochs)


# ---------------------------------------------------------------- strangers


def lost(node: str) -> e.Found:
    return e.Found(finding=Finding(kind=Kind.NODE_LOST, weight=Weight.CONCLUSIVE, node=node))


def test_who_is_not_of_the_cluster_is_known_only_while_connected(training) -> None:
    life = training()
    before = life.state.nodes
    life.connect("n9", "n9-first")
    assert life.state.nodes["n9"].stranger
    life.silence("n9")
    assert life.state.nodes == before
    assert life.whys[-1].endswith("n9 is forgotten: the cluster does not know it")


def test_a_restarted_driver_forgets_strangers_and_nobody_else(training) -> None:
    life = training()
    life.connect("n9", "n9-first")
    life.do(e.DriverStarted(term=2))
    assert set(life.state.nodes) == {"n0", "n1"}


def test_an_executor_may_come_before_the_clusters_word(life) -> None:
    life.connect("n0", "n0-first")
    life.submit(nodes=1)
    assert life.phase is Phase.PENDING
    life.do(e.NodeAppeared(node="n0"))
    assert life.phase is Phase.ALLOCATING
    life.silence("n0")
    assert "n0" in life.state.nodes


@pytest.mark.parametrize(("before_s", "evicted"), [(1.0, ["n1"]), (15.0, [])])
def test_who_has_no_connection_for_a_moment_makes_no_outage(training, before_s, evicted) -> None:
    """Both of the two nodes that count are away at the check; for long only in an outage."""
    life = training(nodes=2, spare=1)
    life.silence("n1")
    due_s = life.state.nodes["n1"].silent_check_s
    life.now = due_s - before_s
    life.silence("n0")
    life.wait(until_s=due_s)
    assert life.evicted == evicted


def test_what_is_said_of_nodes_after_one_was_forgotten_is_kept(life) -> None:
    """All in one decision: the stranger stands between two others."""
    life.node("n0")
    life.connect("n1", "n1-first")
    life.node("n2")
    life.do(e.DriverStarted(term=2))
    links = {name: type(node.link) for name, node in life.state.nodes.items()}
    assert links == {"n0": Awaited, "n2": Awaited}


@pytest.mark.parametrize("connected", [True, False])
def test_what_is_found_about_a_stranger_is_nobodys_incident(training, connected: bool) -> None:
    life = training()
    if connected:
        life.connect("n9", "n9-first")
    assert life.do(lost("n9")).idle


def test_a_stranger_cannot_be_evicted(life) -> None:
    life.connect("n9", "n9-first")
    refusal = refuse(life.state, e.NodeEvictRequested(node="n9", reason="who is this?"))
    assert refusal is not None
    assert "the cluster does not know 'n9'" in refusal.sentence


def test_a_node_that_is_gone_for_a_day_is_forgotten_when_the_next_one_goes(life) -> None:
    for name in ("n0", "n1", "n2"):
        life.do(e.NodeAppeared(node=name))
    life.do(e.NodeMaintainRequested(node="n1", reason="the rack is moved", by="ada"))
    for name in ("n0", "n1"):
        life.do(e.NodeVanished(node=name, why="its Node object is deleted"))
    life.do(e.NodeVanished(node="n2", why="NotReady"), after_s=life.policy.forget_s - 1)
    assert [*life.state.nodes] == ["n0", "n1", "n2"]
    life.do(e.NodeAppeared(node="n2"))
    life.do(e.NodeVanished(node="n2", why="NotReady"), after_s=2)
    assert [*life.state.nodes] == ["n1", "n2"], "what a person said of a node stands"


def test_a_node_that_is_distrusted_is_never_forgotten(training) -> None:
    life = training(nodes=2, standbys=1)
    life.lose("n1")
    assert life.evicted == ["n1"]
    life.do(e.NodeAppeared(node="n7"))
    life.do(e.NodeVanished(node="n7", why="NotReady"), after_s=2 * life.policy.forget_s)
    assert life.evicted == ["n1"]


def test_a_distrusted_node_that_has_no_mark_of_it_any_more_is_marked_again(training) -> None:
    """Its machine was made anew under its name; the cluster would put others' work there."""
    life = training(nodes=2, standbys=1)
    life.lose("n1")
    life.do(e.NodeDistrusted(node="n1"))
    life.effects.clear()
    life.do(e.NodeAppeared(node="n1"))
    assert life.ordered(Distrust) == [], "nothing was said of marks"
    life.do(e.NodeAppeared(node="n1", unmarked=True))
    quarantine = life.state.nodes["n1"].quarantine
    reason = quarantine.why if quarantine else ""
    number = life.incident.id
    assert life.ordered(Distrust) == [Distrust(node="n1", incident=number, reason=reason)]
    assert life.whys[-1].endswith("n1 lost the mark that it is distrusted, and gets it again")
    life.do(e.NodeAppeared(node="n1", unmarked=True))
    assert len(life.ordered(Distrust)) == 1, "once, until that is done"
    life.do(e.NodeDistrusted(node="n1"))
    quarantine = life.state.nodes["n1"].quarantine
    assert quarantine
    assert quarantine.marked
    assert life.do(e.NodeAppeared(node="n0", unmarked=True)).idle


def test_an_executor_that_leaves_as_the_next_job_gets_its_node_is_not_missed_by_that(life) -> None:
    """Its own may take minutes to come: an image has to be pulled."""
    life.node("n0")
    life.submit("first", nodes=1)
    life.do(e.NodeAllocated(job="first", node="n0"))
    life.do(e.DeleteRequested(job="first"))
    life.do(e.NodeReleased(node="n0"))
    life.submit("second", nodes=1)
    life.silence("n0")
    life.do(e.NodeAllocated(job="second", node="n0"))
    life.wait(until_s=life.now + life.policy.connect_s - 1)
    assert (life.evicted, life.phase, life.state.incidents) == ([], Phase.ALLOCATING, {})
    life.connect("n0", "n0-second")
    life.silence("n0")
    assert life.state.nodes["n0"].silent_check_s is not None, "this one came, and is missed"


def test_an_executor_that_remembers_more_than_we_do_is_told_what_is_newer_than_that(life) -> None:
    """A node that was forgotten comes back with its folder, and refuses what is older than that."""
    life.do(e.NodeAppeared(node="n0"))
    life.do(e.ExecutorConnected(node="n0", incarnation="old", address="10.0.0.0", generation=10))
    life.submit(nodes=1)
    assert life.told("n0").generation > 10
