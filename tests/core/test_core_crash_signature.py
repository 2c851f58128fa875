"""Ends of ranks that come again: once more where that may help, then the end, with the evidence."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.faults.crash_signature import signature
from holdfast.driver.core.state.model import Phase, Signature
from holdfast.protocol.faults import Blame
from holdfast.protocol.messages import RankError, RankStatus

TRACE = 'Traceback (most recent call last):\n  File "train.py", line {}, in step\n'


def ended(message: str, *, line: int = 7, step: int | None = 10, code: int = 1) -> RankStatus:
    name = message.partition(":")[0]
    trace = TRACE.format(line) + message
    error = RankError(message=message, traceback=trace, exception=name)
    return RankStatus(rank=1, state="exited", exit_code=code, error=error, step=step)


def died(
    signal: int = 0, *, step: int | None = 10, code: int | None = None, saved: int | None = None
) -> RankStatus:
    ended = {"signal": signal or None, "exit_code": code, "step": step, "saved": saved}
    return RankStatus(rank=1, state="exited", **ended)


BASE = ended("ValueError: sample 17 at 0x7fae12 is bad")
SAME = {
    "numbers and addresses in its words": ended("ValueError: sample 4 at 0x7fae99 is bad"),
    "another rank": RankStatus(rank=3, state="exited", exit_code=1, error=BASE.error, step=10),
}
OTHER = {
    "other words": ended("ValueError: sample 17 is missing"),
    "another line": ended("ValueError: sample 17 at 0x7fae12 is bad", line=8),
    "another step": ended("ValueError: sample 17 at 0x7fae12 is bad", step=11),
    "another exit code": ended("ValueError: sample 17 at 0x7fae12 is bad", code=2),
    "a signal": died(11),
}
NONE = {
    "a rank killed for memory": RankStatus(
        rank=1, state="exited", signal=9, out_of_memory=True, step=10
    ),
    "a server that does not answer": ended("ConnectionRefusedError: [Errno 111]"),
    "a library's word for that": ended("ReadTimeout: timed out"),
    "a device that failed": ended("RuntimeError: CUDA error: unspecified launch failure"),
    "a step that is not known": ended("ValueError: x", step=None),
}


@pytest.mark.parametrize("case", SAME)
def test_two_ends_are_the_same_in_spite_of(case: str) -> None:
    assert signature(SAME[case]) == signature(BASE) is not None


@pytest.mark.parametrize("case", OTHER)
def test_two_ends_are_not_the_same_for(case: str) -> None:
    assert signature(OTHER[case]) != signature(BASE)


@pytest.mark.parametrize("case", NONE)
def test_nothing_is_said_of_the_place_by(case: str) -> None:
    assert signature(NONE[case]) is None


def test_a_signal_and_a_shells_word_for_it_are_one() -> None:
    assert signature(died(6)) == signature(died(code=134)) == Signature(how="SIGABRT", step=10)
    killed = Signature(how="SIGKILL", step=10, outside=True)
    assert signature(died(9)) == signature(died(code=137)) == killed


def test_an_exit_code_that_is_no_signals_is_the_scripts() -> None:
    assert signature(died(code=255)) == Signature(how="exit code 255", step=10)
    assert signature(died(code=150)) == Signature(how="exit code 150", step=10)


# ---------------------------------------------------------------- what is done


def test_the_same_exception_at_the_same_step_is_tried_once_more(training) -> None:
    life = training()
    life.dies(1, exception="ValueError: bad", own_step=10)
    life.answer()
    assert life.phase is Phase.RUNNING
    life.dies(1, exception="ValueError: bad", own_step=10)
    assert life.phase is Phase.FAILED
    failure = life.job.failure
    assert failure.traceback == "Traceback: ValueError: bad"
    assert failure.reason == (
        "rank 1 on n0 raised ValueError: bad. It ended in the same way twice after step 10: "
        "another restart would not help"
    )
    assert life.evicted == []


def test_an_exception_that_comes_at_other_steps_has_its_budget(training) -> None:
    life = training()
    for step in (10, 12, 14, 16):
        life.dies(1, exception="ValueError: bad", own_step=step)
        until_running(life)
    life.dies(1, exception="ValueError: bad", own_step=18)
    assert life.evicted == []
    assert "All 3 restarts for user faults" in life.job.failure.reason


@pytest.mark.parametrize(
    ("end", "phase"),
    [
        ({"own_step": 0}, Phase.SUSPENDING),
        ({"own_step": 10}, Phase.FAILED),
        ({"own_step": 10, "saved": 0}, Phase.SUSPENDING),
    ],
    ids=["before a step", "at a numbered step", "so many steps after its start"],
)
def test_what_befell_an_earlier_start_counts_as_long_as_the_budgets_window(
    training, end: dict[str, int], phase: Phase
) -> None:
    life = training()
    life.dies(1, exception="ValueError: bad", **end)
    life.answer()
    life.wait(until_s=life.now + life.job.plan.user.window_s + 1)
    life.dies(1, exception="ValueError: bad", **end)
    assert life.phase is phase


@pytest.mark.parametrize("end", [{"own_step": 0}, {"own_step": 10}, {"own_step": 0, "saved": 0}])
def test_an_end_that_the_job_got_past_counts_no_more(training, end: dict[str, int]) -> None:
    life = training()
    life.dies(1, exception="ValueError: bad", **end)
    life.answer()
    life.progress(None if "saved" in end else 11)
    life.dies(1, exception="ValueError: bad", **end)
    assert life.phase is Phase.SUSPENDING


@pytest.mark.parametrize("how", [{"exception": "RuntimeError: killed"}, {"code": 85}])
def test_a_job_that_saves_and_ends_so_many_steps_after_each_start_has_its_budget(
    training, how: dict[str, object]
) -> None:
    life = training()
    for _ in range(3):
        life.dies(1, own_step=1_000, saved=900, **how)
        life.answer()
        assert life.phase is Phase.RUNNING
        life.progress(None)
    life.dies(1, own_step=1_000, saved=900, **how)
    assert "All 3 restarts for user faults" in life.job.failure.reason


def test_a_crash_so_many_steps_after_each_start_is_its_nodes_where_the_script_saves(
    training,
) -> None:
    life = training(nodes=1, user=e.Budget(restarts=9, window_s=3600))
    for _ in range(3):
        life.dies(0, signal=11, own_step=1_000, saved=900)
        life.answer()
        if life.job.exam is not None:
            life.tests_end()
            life.answer()
        assert life.phase is Phase.RUNNING
        life.progress(None)


def test_what_another_rank_saved_counts_for_the_rank_that_ends(training) -> None:
    life = training()
    for _ in range(3):
        ends = (died(code=85, step=1_000, saved=0),)
        where = {"job": "job", "epoch": life.job.epoch, "node": "n0"}
        life.do(e.RanksExited(exits=ends, saved=900, **where))
        life.wait(until_s=life.now + life.policy.gather_s)
        life.answer()
        assert life.phase is Phase.RUNNING


@pytest.mark.parametrize("step", [0, 1_000])
def test_an_unnumbered_script_that_ends_so_many_steps_after_each_start_and_saves_none_is_ended(
    training, step: int
) -> None:
    life = training()
    life.dies(1, exception="ValueError: bad", own_step=step, saved=0)
    life.answer()
    life.dies(1, exception="ValueError: bad", own_step=step, saved=0)
    assert life.phase is Phase.FAILED
    at = " after step 1000" if step else ""  # it may have no optimizer, and be far
    assert f"It ended in the same way twice{at}: " in life.job.failure.reason


def test_after_an_attempt_that_saved_an_end_without_counts_as_the_first(training) -> None:
    life = training()
    for end in ({"saved": 0}, {"saved": 5}, {"saved": 0}):
        life.dies(1, exception="ValueError: bad", own_step=10, **end)
        life.answer()
        assert life.phase is Phase.RUNNING
    life.dies(1, exception="ValueError: bad", own_step=10, saved=0)
    assert life.phase is Phase.FAILED


def test_who_leaves_early_again_ends_the_job(training) -> None:
    life = training()
    for _ in range(2):
        life.dies(1, code=0, own_step=10)
        life.dies(0, echo=True, exception="RuntimeError", own_step=10)
        if life.phase is not Phase.FAILED:
            life.answer()
    assert life.phase is Phase.FAILED
    assert "ended with exit code 0 after step 10" in life.job.failure.reason


def test_the_same_signal_on_the_only_node_is_tried_once_more(training) -> None:
    life = training(nodes=1)
    life.dies(0, signal=6, own_step=10)
    life.answer()
    life.dies(1, signal=6, own_step=10)
    assert life.phase is Phase.FAILED
    assert life.job.failure.reason == (
        "rank 1 on n0 died of SIGABRT. It ended in the same way twice after step 10, and there is "
        "no other node to try"
    )


def test_the_same_signal_moves_its_place_where_another_node_is_free(training) -> None:
    life = training(nodes=1, spare=1)
    life.dies(0, signal=6, own_step=10)
    life.answer()
    life.dies(0, signal=6, own_step=10)
    assert life.job.suspects == ("n0",), "tests cost less than another node"
    until_running(life)
    life.dies(0, signal=6, own_step=10)
    until_running(life)
    assert life.job.nodes == ("n1",)
    assert life.evicted == []
    life.dies(0, signal=6, own_step=10)
    assert life.phase is Phase.FAILED
    assert "4 times after step 10, on 2 nodes: it is not the node" in life.job.failure.reason


def test_without_another_node_one_of_several_is_tested_once(training) -> None:
    life = training(nodes=2)
    life.dies(2, signal=6, own_step=10)
    life.answer()
    life.dies(2, signal=6, own_step=10)
    assert life.job.suspects == ("n1",)
    life.answer()
    life.tests_end()
    life.answer()
    assert life.phase is Phase.RUNNING
    life.dies(2, signal=6, own_step=10)
    until_running(life)
    life.dies(2, signal=6, own_step=10)
    assert life.phase is Phase.FAILED
    assert "4 times after step 10, its node passed its tests" in life.job.failure.reason


def test_a_rank_that_is_killed_from_outside_again_and_again_is_not_given_up(training) -> None:
    life = training(nodes=1)
    for _ in range(8):
        life.dies(0, signal=9, own_step=10)
        until_running(life)
        life.progress(life.state.sequence)
    assert set(life.paid) == {Blame.INFRASTRUCTURE}


@pytest.mark.parametrize("end", [{"signal": 9}, {"code": 137}, {"signal": 15}, {"code": 143}])
@pytest.mark.parametrize("step", [0, 10])
def test_a_rank_that_is_killed_at_one_place_again_and_again_has_the_users_budget(
    training, end: dict[str, int], step: int
) -> None:
    life = training(nodes=1, user=e.Budget(restarts=1, window_s=3600))
    life.dies(0, own_step=step, **end)
    assert life.paid == [Blame.INFRASTRUCTURE]
    until_running(life)
    life.dies(0, own_step=step, **end)
    assert life.paid[-1] is Blame.USER
    until_running(life)
    life.dies(0, own_step=step, **end)
    assert life.phase is Phase.FAILED
    where = "after step 10" if step else "before its first step"
    assert f"That came 3 times {where}: " in life.job.failure.reason
    assert "The one restart for user faults" in life.job.failure.reason


@pytest.mark.parametrize(("spare", "standbys"), [(1, 0), (0, 1)])
@pytest.mark.parametrize("step", [0, 10])
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_place_of_a_rank_that_is_killed_there_again_and_again_is_tried_elsewhere_first(
    training, nodes: int, spare: int, standbys: int, step: int
) -> None:
    budget = e.Budget(restarts=0, window_s=3600)
    life = training(nodes=nodes, spare=spare, standbys=standbys, user=budget)
    while "n0" in life.job.places:
        life.dies(0, signal=9, own_step=step)
        assert life.phase is not Phase.FAILED
        until_running(life)
    life.dies(0, signal=9, own_step=step)
    assert life.phase is Phase.FAILED


def test_a_script_that_may_go_on_from_a_checkpoint_of_its_own_is_not_bounded_for_kills(
    training,
) -> None:
    life = training(nodes=1, user=e.Budget(restarts=0, window_s=3600))
    for _ in range(5):
        life.dies(0, signal=9, own_step=5, saved=0)
        until_running(life)
    assert set(life.paid) == {Blame.INFRASTRUCTURE}


def until_running(life) -> None:
    while life.phase is not Phase.RUNNING:
        life.answer()
        if life.job.exam is not None:
            life.tests_end()


@pytest.mark.parametrize("spare", [0, 1])
def test_deaths_of_ranks_that_are_their_own_are_bounded_by_the_users_budget(
    training, spare: int
) -> None:
    life = training(nodes=1, spare=spare, user=e.Budget(restarts=1, window_s=3600))
    starts = 0
    for step in range(10, 40):
        life.dies(0, signal=6, own_step=step)
        if life.phase is Phase.FAILED:
            break
        until_running(life)
        starts += 1
    assert life.phase is Phase.FAILED
    assert "The one restart for user faults" in life.job.failure.reason
    assert starts == (1 if spare == 0 else 5)


def test_a_job_that_gets_on_is_not_given_up_for_one_node_of_several(training) -> None:
    life = training(nodes=2, user=e.Budget(restarts=0, window_s=3600))
    life.dies(2, signal=11, own_step=10)
    assert life.phase is Phase.SUSPENDING


def gets_on(life, *, rank: int = 2) -> int:
    """A rank dies at one step after the other, the job gets further each time: how often it was
    started again until it is given up."""
    for starts in range(60):
        step = 10 * (starts + 1)
        life.dies(rank, signal=11, own_step=step)
        if life.phase is Phase.FAILED:
            return starts
        for _ in range(6):
            if life.phase is Phase.RUNNING:
                break
            life.answer()
            if life.job.exam is not None:
                life.tests_end()
        life.progress(step)
    return 60


@pytest.mark.parametrize("spare", [0, 1])
def test_code_that_crashes_and_gets_on_is_not_given_up_and_moves_once(training, spare: int) -> None:
    life = training(nodes=2, spare=spare, user=e.Budget(restarts=0, window_s=3600))
    assert gets_on(life) == 60
    assert set(life.paid) == {Blame.INFRASTRUCTURE}
    assert life.evicted == []
    assert len(life.acquittals("n1")) == 1, "tests that found nothing are not asked again at once"
    assert len(life.moved) <= spare


UNREAD = '  File "/home/me/train.py", line 2\n    x = (\n        ^\nSyntaxError: never closed\n'
IMPORTED = 'Traceback (most recent call last):\n  File "/home/me/train.py", line 1, in <module>\n'


def _unread(life, traceback: str = UNREAD) -> None:
    """Rank 1 of the running job could not read its script, or what that imports."""
    said = "SyntaxError: never closed (train.py, line 2)"
    error = RankError(message=said, traceback=traceback, exception="SyntaxError")
    status = RankStatus(rank=1, state="exited", exit_code=1, error=error, order=1, step=0)
    job = life.job
    life.do(e.RanksExited(job="job", epoch=job.epoch, node=job.places[1], exits=(status,), step=0))
    life.wait(until_s=life.now + life.policy.gather_s)


def _begun(life) -> None:
    """A job of two nodes whose ranks have begun, and have no step."""
    life.node("n0"), life.node("n1")
    life.submit(nodes=2)
    life.answer()


def test_a_script_that_cannot_be_read_ends_its_job_at_once(life) -> None:
    _begun(life)
    _unread(life)
    assert life.phase is Phase.FAILED
    assert "No line of the script ran" in life.job.failure.reason
    assert "never closed" in life.job.failure.traceback


def test_one_that_ran_before_is_being_written_anew_and_is_tried_once_more(training) -> None:
    life = training()
    life.progress(10)
    life.dies(0, signal=9)
    life.answer()
    _unread(life)
    assert life.phase is not Phase.FAILED
    life.answer()
    _unread(life)
    assert life.phase is Phase.FAILED


NULLS = "SyntaxError: source code string cannot contain null bytes\n"
PLACE = UNREAD.replace("train.py", "model.py")
FROZEN = '  File "<frozen importlib._bootstrap>", line 241, in _call_with_frames_removed\n'
ELSEWHERE = IMPORTED.replace("/home/me", "/home/me/import")
LOADED = '  File "/lib/importlib/__init__.py", line 126, in import_module\n    return load(name)\n'


@pytest.mark.parametrize(
    "traceback",
    [
        pytest.param(f"{IMPORTED}    import model\n{PLACE}", id="a statement"),
        pytest.param(f"{IMPORTED}    from model import Net\n{NULLS}", id="a file with null bytes"),
        pytest.param(f"{IMPORTED}    load()\n{LOADED}{PLACE}", id="by its name"),
        pytest.param(f"{IMPORTED}    load()\n{LOADED}{FROZEN}{PLACE}", id="as Python shows that"),
        pytest.param(f'{IMPORTED}    __import__("model")\n{PLACE}', id="by the oldest way"),
        pytest.param(f"{IMPORTED}    if x: import model\n{PLACE}", id="behind a colon"),
    ],
)
def test_an_import_that_cannot_be_read_ends_its_job_at_once(life, traceback: str) -> None:
    _begun(life)
    _unread(life, traceback)
    assert life.phase is Phase.FAILED
    assert "Python cannot read what it imports: another" in life.job.failure.reason


@pytest.mark.parametrize(
    "traceback",
    [
        pytest.param(f"{IMPORTED}    eval(made)\n{UNREAD}", id="code that the script makes"),
        pytest.param(f"{ELSEWHERE}    eval(made)\n{UNREAD}", id="in a folder named import"),
        pytest.param(f'{IMPORTED}    eval(of("import"))\n{UNREAD}', id="a word of the line"),
        pytest.param(IMPORTED, id="its source is not shown"),
        pytest.param(NULLS, id="of whom nobody knows"),
    ],
)
def test_what_else_cannot_be_read_may_be_another_the_next_time(life, traceback: str) -> None:
    _begun(life)
    _unread(life, traceback)
    assert life.phase is not Phase.FAILED
