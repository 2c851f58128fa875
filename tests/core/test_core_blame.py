"""Who an incident names: the cause, as soon as it is known, and never one who only complained."""

import pytest
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.evidence import signs
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.state.fact import Hypothesis
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Blame, Evidence, Finding, Kind, Origin, Sure, Weight
from holdfast.protocol.kernellines import OOM_KILL, OOM_KILL_OWN
from holdfast.protocol.messages import RankStatus


def complains(life, *, judged: bool = True) -> None:
    life.dies(0, echo=True, exception="RuntimeError", judged=judged)


def kernel_fault(life) -> None:
    evidence = (Evidence(source="daemon of n1", text="XID 79"),)
    finding = Finding(
        kind=Kind.KERNEL_FAULT,
        weight=Weight.CONCLUSIVE,
        node="n1",
        evidence=evidence,
    )
    life.do(e.Found(finding=finding))


def comes_back_and(*causes):
    def do(life) -> None:
        life.answer()
        for cause in causes:
            cause(life)

    return do


CAUSES = {
    "the loss of a node": (lambda life: life.lose("n1"), Kind.NODE_LOST, None),
    "explicit evidence": (kernel_fault, Kind.KERNEL_FAULT, None),
    "a new executor": (
        comes_back_and(lambda life: life.silence("n1"), lambda life: life.connect("n1", "second")),
        Kind.EXECUTOR_LOST,
        None,
    ),
    "a signal": (comes_back_and(lambda life: life.dies(3, signal=11)), Kind.RANK_CRASHED, 3),
    "an exception": (
        comes_back_and(lambda life: life.dies(3, exception="ValueError")),
        Kind.USER_EXCEPTION,
        3,
    ),
}


def test_one_who_only_complains_is_not_named(training) -> None:
    life = training()
    complains(life)
    assert (life.incident.node, life.incident.rank) == (None, None)
    assert life.incident.summary == "rank 0 on n0 lost a peer, and no death was seen"
    assert [piece.source for piece in life.incident.evidence] == ["executor of n0"]
    assert life.blamed("n0") == []


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_that_joins_takes_the_place_of_complaints(training, cause: str) -> None:
    happens, kind, rank = CAUSES[cause]
    life = training(standbys=1)
    complains(life)
    happens(life)
    assert life.state.incident_count == 1
    assert (life.incident.kind, life.incident.node, life.incident.rank) == (kind, "n1", rank)
    assert "n1" in life.incident.summary
    assert any("lost a peer" in piece.text for piece in life.incident.evidence)
    assert life.blamed("n0") == []


def test_a_users_exception_pays_for_the_restart_that_its_echo_cost(training) -> None:
    life = training()
    complains(life)
    assert life.paid == [Blame.INFRASTRUCTURE]
    life.answer()
    life.dies(3, exception="ValueError")
    assert life.paid == [Blame.USER, Blame.USER]
    assert life.incident.blame is Blame.USER


def test_a_later_loss_does_not_take_the_place_of_a_known_cause(training) -> None:
    life = training(standbys=1)
    life.dies(1, signal=9)
    life.lose("n1")
    assert (life.incident.kind, life.incident.rank) == (Kind.RANK_CRASHED, 1)
    assert life.incident.nodes == ("n0", "n1")


# ---------------------------------------------------------------- waiting for the cause


def test_complaints_wait_while_a_node_of_the_job_is_away(training) -> None:
    life = training(standbys=1)
    life.silence("n1")
    complains(life)
    life.wait(until_s=life.now + 5)
    assert life.phase is Phase.RUNNING
    life.do(e.NodeVanished(node="n1"))
    assert (life.incident.kind, life.incident.faults) == (Kind.NODE_LOST, 1)
    assert life.evicted == ["n1"]


def test_complaints_and_the_clusters_word_are_two_sources(training) -> None:
    life = training(standbys=1)
    life.do(e.DriverStarted(term=2))
    life.do(e.NodeVanished(node="n1"))
    life.connect("n0", "n0-first")
    complains(life)
    assert (life.incident.kind, life.incident.node) == (Kind.NODE_LOST, "n1")
    assert {piece.source for piece in life.incident.evidence} == {"cluster", "executor of n0"}
    assert life.evicted == ["n1"]


def test_executors_that_ended_while_no_driver_was_there_are_no_strike_against_their_nodes(
    training,
) -> None:
    life = training()
    life.do(e.DriverStarted(term=2))
    for node in ("n0", "n1"):
        life.connect(node, f"{node}-second")
    assert life.incident.summary == (
        "the executor of n0 ended while no driver was there, its ranks with it"
    )
    assert {node.record.facts for node in life.state.nodes.values()} == {()}


def test_an_executor_that_died_while_the_driver_was_there_is_a_strike(training) -> None:
    life = training()
    life.silence("n0")
    life.connect("n0", "n0-second")
    assert life.incident.summary == "the executor of n0 died, its ranks with it"
    assert len(life.blamed("n0")) == 1


def test_after_a_restart_the_clusters_word_explains_echoes_at_once(training) -> None:
    life = training(standbys=1)
    life.silence("n1")
    complains(life)
    life.do(e.DriverStarted(term=2))
    life.do(e.NodeVanished(node="n1", why="its lease is over"))
    assert life.evicted == ["n1"]
    assert life.incident.kind is Kind.NODE_LOST
    assert [piece.source for piece in life.incident.evidence] == ["cluster", "executor of n0"]


def test_after_a_restart_the_clusters_word_alone_has_to_wait(training) -> None:
    life = training(standbys=1)
    life.do(e.DriverStarted(term=2))
    life.do(e.NodeVanished(node="n1", why="its lease is over"))
    assert life.evicted == []
    life.wait(until_s=life.now + life.policy.return_s)
    assert life.evicted == ["n1"]


def test_complaints_are_judged_soon_after_everybody_is_back(training) -> None:
    life = training()
    life.silence("n1")
    complains(life)
    life.connect("n1", "n1-first")
    life.wait(until_s=life.now + life.policy.echo_s)
    assert life.phase is Phase.SUSPENDING


def test_complaints_do_not_wait_for_ever(training) -> None:
    life = training()
    life.silence("n1")
    complains(life)
    life.wait(until_s=life.now + life.policy.doubt_s)
    assert life.phase is Phase.SUSPENDING


def test_a_real_death_is_not_kept_waiting_by_a_node_that_is_away(training) -> None:
    life = training()
    life.silence("n1")
    complains(life)
    life.dies(1, signal=11)
    assert life.phase is Phase.SUSPENDING
    assert life.incident.rank == 1


# ---------------------------------------------------------------- what the tests say


def test_a_node_that_the_tests_convict_is_named_though_another_was_suspected(training) -> None:
    life = training(nodes=4)
    suspect(life, "n2")
    life.tests_end(slow="n1")
    life.tests_end(slow="n1")  # nobody had accused it: it has failed twice, beside others
    assert (life.incident.kind, life.incident.node) == (Kind.DIAGNOSTIC_FAILED, "n1")
    assert (life.incident.rank, life.incident.blame) == (None, Blame.INFRASTRUCTURE)
    assert life.evicted == ["n1"]


def test_a_suspect_that_the_tests_convict_keeps_its_symptom_and_gets_the_blame(training) -> None:
    life = training(nodes=4)
    suspect(life, "n2")
    life.tests_end(slow="n2")
    assert (life.incident.kind, life.incident.node) == (Kind.HANG, "n2")
    assert life.incident.blame is Blame.INFRASTRUCTURE


def suspect(life, node: str) -> None:
    finding = Finding(
        kind=Kind.HANG, weight=Weight.SUSPECT, job="job", node=node, epoch=life.job.epoch
    )
    life.do(e.Found(finding=finding))
    life.wait(until_s=life.now + life.policy.stacks_s)
    life.answer()


def test_the_same_mistake_in_all_ranks_is_told_of_the_first_of_them(training) -> None:
    life = training()
    life.dies(3, exception="ValueError", judged=False)
    life.dies(0, exception="ValueError")
    assert (life.incident.rank, life.incident.summary) == (0, "rank 0 on n0 raised ValueError")


def test_a_failure_and_its_incident_blame_the_same_rank(training) -> None:
    life = training(user=e.Budget(restarts=1, window_s=3_600))
    life.dies(1, exception="ValueError")
    life.answer()
    life.dies(0, exception="ValueError")
    assert life.phase is Phase.FAILED
    assert "rank 0 on n0" in life.job.failure.reason
    incident = life.state.incidents[1]
    assert (incident.rank, incident.summary) == (0, "rank 0 on n0 raised ValueError")
    assert len(life.paid) == 1, "one restart was made"


def test_a_job_that_never_started_has_used_no_restart(life) -> None:
    life.node("n0")
    life.submit(nodes=1)
    life.answer()
    life.dies(0, unstartable="command: no", code=127)
    assert (life.phase, life.paid) == (Phase.FAILED, [])


@pytest.mark.parametrize(
    "kind",
    [
        Kind.STORE_FAILED,
        Kind.STORE_BACK,
        Kind.STORE_NOT_SHARED,
        Kind.SAVE_SKIPPED,
        Kind.SNAPSHOTS_STOPPED,
    ],
)
def test_what_is_said_of_a_store_is_in_the_jobs_story_and_changes_nothing(training, kind) -> None:
    life = training()
    life.effects.clear()
    finding = Finding(kind=kind, weight=Weight.REPORT, job=life.job.name, node="n0", summary="so")
    life.do(e.Found(finding=finding))
    assert (life.phase, life.effects) == (Phase.RUNNING, [])
    assert life.job.why == "reported: so", "the job is touched: it is in its story, and in status"
    (incident,) = life.state.incidents.values()
    assert (incident.jobs, incident.faults, incident.open) == ((life.job.name,), 0, False)


@pytest.mark.parametrize(("nodes", "strikes"), [("n0 n1", 0), ("n1 n1", 1)])
def test_ranks_killed_from_outside_on_several_nodes_at_once_speak_against_none(
    training, nodes: str, strikes: int
) -> None:
    """As by a person's one `kill -9` of all: which was heard of first says nothing."""
    life = training()
    for rank, node in zip((2, 3) if nodes == "n1 n1" else (2, 0), nodes.split()[::-1], strict=True):
        killed = RankStatus(rank=rank, state="exited", signal=9, order=1)
        gone = e.RanksExited(job="job", epoch=life.job.epoch, node=node, exits=(killed,))
        life.do(gone)
    life.wait(until_s=life.now + life.policy.gather_s)
    assert life.incident.kind is Kind.RANK_CRASHED
    assert [len(node.record.facts) for node in life.state.nodes.values()] == [0, strikes]


def test_the_story_says_where_a_fault_comes_from_where_its_words_tell(training) -> None:
    life = training()
    life.dies(0, exception="CUDA error: uncorrectable ECC error encountered")
    said = "restart the ranks on the same nodes (likely GPU)"
    assert any(why.endswith(said) for why in life.whys)
    assert life.incident.blame is Blame.INFRASTRUCTURE
    assert life.paid == [Blame.INFRASTRUCTURE]


def test_a_line_of_the_kernel_that_comes_later_tells_what_it_was(training) -> None:
    life = training()
    life.dies(0, signal=9)
    assert signs.judge(life.incident.signs)[:2] == (None, Sure.NOT_SURE)
    number = life.incident.id
    kernel_says(life, OOM_KILL_OWN)
    incident = life.state.incidents[number]
    assert signs.judge(incident.signs)[:2] == (Origin.USER, Sure.LIKELY)
    assert life.paid == [incident.blame] == [Blame.USER]


def kernel_says(life, rule: str) -> None:
    finding = Finding(
        kind=Kind.KERNEL_FAULT,
        weight=Weight.REPORT,
        sign=signs.of_kernel(rule, None),
        node="n0",
        summary=f"the kernel of n0: {rule}",
    )
    life.do(e.Found(finding=finding))


def test_a_line_of_the_kernel_that_came_before_says_who_pays(training) -> None:
    life = training()
    kernel_says(life, OOM_KILL_OWN)
    life.dies(0, signal=9)
    assert life.paid == [life.incident.blame] == [Blame.USER]


def test_a_line_of_the_kernel_that_came_again_lately_is_near(training) -> None:
    life = training()
    for _ in range(2):
        kernel_says(life, OOM_KILL)
        life.wait(until_s=life.now + 50)
    assert len(life.state.incidents) == 1, "the second joined the first"
    life.dies(0, signal=9)
    assert life.incident.signs == ("SIGKILL", signs.of_kernel(OOM_KILL, None))


def test_another_line_of_the_kernel_does_not_join_and_each_has_its_own_time(training) -> None:
    life = training()
    kernel_says(life, OOM_KILL)
    life.wait(until_s=life.now + 50)
    kernel_says(life, "hung-task")
    life.wait(until_s=life.now + 50)
    life.dies(0, signal=9)
    assert life.incident.signs == ("SIGKILL", signs.of_kernel("hung-task", None))


def test_an_incident_of_an_earlier_holdfast_keeps_what_its_kind_says(training) -> None:
    life = training()
    life.dies(0, exception="ValueError")
    old = replace(life.incident, signs=())
    assert incidents.shown(old, signs.of_kernel("hung-task", None)).blame is Blame.USER


def test_a_script_that_does_not_find_its_file_in_dev_shm_is_paid_for_by_its_user(training) -> None:
    life = training(user=e.Budget(restarts=2, window_s=3_600))
    for _ in range(3):
        assert life.phase is Phase.RUNNING
        words = "[Errno 2] No such file or directory: '/dev/shm/tokens.bin'"
        life.dies(3, exception=f"FileNotFoundError: {words}")
        life.answer()
    assert (life.phase, life.paid) == (Phase.FAILED, [Blame.USER] * 2)
    assert life.state.exams == {}


@pytest.mark.parametrize(
    "words",
    [
        "n0:41:77 [0] NCCL WARN [Service thread] Connection closed by remote peer n1<40122>",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
    ],
)
def test_who_complains_in_the_words_of_nccl_is_not_named_before_who_died(training, words) -> None:
    life = training()
    life.dies(0, exception=words, judged=False)
    life.dies(3, exception="ValueError: bad", own_step=10)
    assert (life.incident.kind, life.incident.node, life.incident.rank) == (
        Kind.USER_EXCEPTION,
        "n1",
        3,
    )
    assert life.incident.blame is Blame.USER


@pytest.mark.parametrize(
    "words",
    [
        "OSError: [Errno 28] No space left on device: '/data/ck.pt'",
        "OSError: [Errno 5] Input/output error",
        "OSError: [Errno 30] Read-only file system: '/data'",
    ],
)
def test_what_finds_no_store_at_one_place_each_time_ends_soon(training, words) -> None:
    life, number = training(), None
    for deaths in (1, 2, 3, 4):
        assert not life.job.finished, deaths
        life.dies(3, exception=words, own_step=10)
        number = number or life.job.incident
        life.answer()
        if life.phase is Phase.DIAGNOSING:
            life.tests_end()
            life.answer()
    assert life.phase is Phase.FAILED
    shown = life.state.incidents[number].signs
    assert signs.judge(shown).origin in (Origin.STORAGE, Origin.HOST)
    verdict = signs.judge(shown, Hypothesis.USER)
    assert verdict.sure is Sure.NOT_SURE
    assert "one place" in verdict.why
