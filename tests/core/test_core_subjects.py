"""What is known of restore points, stores, the cluster and versions is in the one book."""

import pytest
from msgspec.structs import replace

from holdfast.driver.adapters.rest.against import of_job
from holdfast.driver.adapters.rest.worst import worst_of
from holdfast.driver.core import events as e
from holdfast.driver.core.evidence import book
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.recovery import acts
from holdfast.driver.core.state.fact import Act, Bearing, Fact, OfPoint, OfStore
from holdfast.driver.core.state.model import Fault, Phase
from holdfast.driver.core.state.restore_point import RestorePoint, Where
from holdfast.driver.core.state.versions import Version
from holdfast.driver.core.turn import Turn
from holdfast.driver.formats.encode import decode, encode
from holdfast.protocol.faults import Finding, Kind, Weight


def tells(life, kind: Kind, job: str = "job") -> None:
    found = Finding(kind=kind, weight=Weight.REPORT, job=job, epoch=life.state.jobs[job].epoch)
    life.do(e.Found(finding=found))


def test_a_job_tells_of_its_store_and_takes_it_back_and_others_are_told_of_it(training) -> None:
    life = training(spare=2)
    life.submit("other", nodes=1, ranks_per_node=1)
    other = life.state.jobs["other"]
    for _ in range(2):
        tells(life, Kind.STORE_FAILED)
    (fact,) = life.state.facts
    assert fact.subject == OfStore(url=life.job.plan.task.store_url)
    (store,) = worst_of(life.state, now=life.now, most=5).stores
    assert store.jobs == ["job"]
    told = of_job(life.state, other, life.now)
    assert told == ["its store fails for another job, too: told 0 seconds ago"]
    assert of_job(life.state, life.job, life.now) == []
    tells(life, Kind.STORE_BACK)
    (store,) = worst_of(life.state, now=life.now, most=5).stores
    assert (store.jobs, of_job(life.state, other, life.now)) == ([], [])
    assert decode(encode(life.state)) == life.state


@pytest.mark.parametrize("ttl_s", [None, 60.0])
def test_what_a_job_told_of_its_store_ends_with_the_job(training, ttl_s: float | None) -> None:
    """It could not take it back any more, and others would be told of it for a week."""
    life = training(nodes=1, spare=1, ttl_s=ttl_s)
    life.submit("other", nodes=1, ranks_per_node=1)
    for job in ("job", "other"):
        tells(life, Kind.STORE_FAILED, job)
    life.ends_well()
    assert life.job.phase is Phase.SUCCEEDED
    (store,) = worst_of(life.state, now=life.now, most=5).stores
    assert store.jobs == ["other"]
    assert of_job(life.state, life.state.jobs["other"], life.now) == []
    tells(life, Kind.STORE_FAILED)  # told late, by who had not heard of its end
    assert [fact.about.job for fact in life.state.facts] == ["other"]


def test_a_job_whose_store_is_another_one_tells_of_the_first_no_more(training) -> None:
    life = training()
    tells(life, Kind.STORE_FAILED)
    life.do(e.NodeFactTold(node="n0", to="n1", words="bent", says="accuses"))
    plan = replace(life.job.plan, task=replace(life.job.plan.task, store_url="s3://new"))
    versions = tuple(replace(each, plan=plan) for each in life.job.versions)
    life.state = replace(life.state, jobs={"job": replace(life.job, versions=versions)})
    tells(life, Kind.STORE_BACK)
    (store,) = worst_of(life.state, now=life.now, most=5).stores
    assert (store.url, store.jobs) == ("s3://new", [])
    assert Turn(life.state, life.now, life.policy).apart == (("n0", "n1"),)


def test_a_storm_about_a_store_displaces_no_link(training) -> None:
    life = training()
    life.do(e.NodeFactTold(node="n0", to="n1", words="bent", says="accuses"))
    turn = Turn(life.state, life.now, life.policy)
    for k in range(2 * book.KEPT):
        turn.add_fact(Fact(subject=OfStore(url=f"s3://{k}"), what="x", bearing=Bearing.ACCUSES))
    assert turn.apart == (("n0", "n1"),)
    assert len(turn.facts) == book.KEPT + 1


def test_a_point_that_ranks_died_of_is_told_with_since_when_and_why(training) -> None:
    life = training()
    point = RestorePoint(step=40, epoch=life.job.epoch, where=Where.MEMORY)
    life.state = replace(life.state, jobs={"job": replace(life.job, restore=point)})
    turn = Turn(life.state, life.now, life.policy)
    fault = Fault(kind=Kind.RANK_CRASHED, weight=Weight.RESTART, summary="rank 1 died")
    incident = incidents.open_or_join(turn, "job", fault)
    acts.ACTS[Act.STEP_BACK].do(turn, "job", fault, incident)
    (fact,) = [each for each in turn.jobs["job"].facts if isinstance(each.subject, OfPoint)]
    assert (fact.subject.step, fact.at_s, fact.bearing) == (40, life.now, "accuses")
    (told,) = of_job(turn.state(), turn.jobs["job"], life.now)
    why = "once ranks had started from it, rank 1 died"
    assert told == f"the snapshot of step 40 in memory is not used again: {why}, 0 seconds ago"
    assert decode(encode(turn.state())) == turn.state()


def test_many_that_are_silent_at_once_are_a_fact_of_the_cluster_until_all_are_heard(
    training,
) -> None:
    life = training(nodes=4)
    for k in range(4):
        life.silence(f"n{k}")
    life.wait(until_s=life.now + 2 * life.policy.reconnect_s)
    (outage,) = worst_of(life.state, now=life.now, most=5).cluster
    assert outage.what.startswith("4 of 4 nodes are silent at once")
    assert not outage.over
    for k in range(4):
        life.connect(f"n{k}", f"n{k}-again")
    (outage,) = worst_of(life.state, now=life.now, most=5).cluster
    assert outage.over


def test_a_fault_is_of_the_version_that_its_ranks_ran(training) -> None:
    """A newer one waits for the next attempt, and is not to blame."""
    life = training()
    (first,) = life.job.versions
    newer = Version(number=2, plan=first.plan, at_s=life.now)
    life.state = replace(life.state, jobs={"job": replace(life.job, versions=(first, newer))})
    life.dies(1, signal=9)
    (fact,) = [each for each in life.job.facts if each.fault is not None]
    (of_node,) = life.state.nodes["n0"].record.facts or life.state.nodes["n1"].record.facts
    assert (fact.subject.number, fact.about.version, of_node.about.version) == (1, 1, 1)
