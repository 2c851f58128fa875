"""Ends of a first attempt that come again at once and alike: the job fails, and no restart is paid.

What may be a node's, or has run for long, or may pass, is tried once more as ever.
"""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.faults import never_began
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.messages import RankError, RankStatus

HERE: dict[str, object] = {"step": 0}
"""Of a script that is watched from within: it has no step."""


def raised(message: str, **told: object) -> RankStatus:
    name = message.partition(":")[0]
    error = RankError(message=message, traceback=f"Traceback: {message}", exception=name)
    return RankStatus(rank=0, state="exited", exit_code=1, error=error, **(HERE | told))


def refused(
    line: str = "train.py: error: the following arguments are required: --lr",
    code: int = 2,
    **told: object,
) -> RankStatus:
    error = RankError(message=line) if line else None
    return RankStatus(rank=0, state="exited", exit_code=code, error=error, **(HERE | told))


def chained(first: str, last: str, between: str = "During handling of the above") -> RankStatus:
    """One exception that came of another one, as Python prints that."""
    told = [
        f'Traceback (most recent call last):\n  File "a.py", line 1\n{e}\n' for e in (first, last)
    ]
    text = f"{told[0]}\n{between} exception, another exception occurred:\n\n{told[1]}"
    status = raised(last)
    assert status.error is not None
    return replace(status, error=replace(status.error, traceback=text))


NO_FILE = "UnboundLocalError: cannot access local variable 'file'"
ABSENT = raised("ModuleNotFoundError: No module named 'transformer'")


def begun(life, nodes: int = 1) -> None:
    """A job whose ranks have begun, one a node, and have no step."""
    for k in range(nodes):
        life.node(f"n{k}")
    life.submit(nodes=nodes)
    life.answer()


def end(life, told: Mapping[int, RankStatus]) -> None:
    """Ranks, one a node, have ended so."""
    job = life.job
    for rank, status in told.items():
        exits, node = (replace(status, rank=rank, order=1),), job.places[rank]
        life.do(e.RanksExited(job="job", epoch=job.epoch, node=node, exits=exits, step=0))
    life.wait(until_s=life.now + life.policy.gather_s)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        pytest.param(refused(), "Its arguments are refused", id="argparse"),
        pytest.param(refused("Error: No such option: --lrr"), "Its arguments are", id="click"),
        pytest.param(refused("give --data FOLDER"), "Its arguments are", id="its own words"),
        pytest.param(refused(step=None), "Its arguments are", id="below a shell"),
        pytest.param(ABSENT, "What it imports is not there", id="a module"),
        pytest.param(raised("ImportError: cannot import name 'f'"), "What it imp", id="a name"),
        pytest.param(raised("NameError: name 'prnt' is not"), "It uses a name", id="a typo"),
        pytest.param(
            chained("ModuleNotFoundError: No module named 'a'", "ImportError: b"),
            "What it imports is not there",
            id="neither of two modules",
        ),
    ],
)
def test_what_cannot_work_is_begun_once(life, status: RankStatus, why: str) -> None:
    begun(life)
    end(life, {0: status})
    assert life.phase is Phase.FAILED
    reason = life.job.failure.reason
    assert why in reason
    assert reason.endswith(": another restart would not help")


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(refused("no data yet", code=1), id="another exit code"),
        pytest.param(refused(""), id="not a word"),
        pytest.param(refused("Connection reset by peer"), id="words of a network"),
        pytest.param(refused("tar: error while reading", step=None), id="any program's words"),
        pytest.param(refused("dpkg: error: a lock was locked", step=None), id="of a lock"),
        pytest.param(refused(step=3), id="it trained"),
        pytest.param(
            chained("ConnectionError: refused\nnow", NO_FILE), id="what failed had no name"
        ),
        pytest.param(
            chained("app.StoreError", "ImportError: x", "The above exception was the direct"),
            id="an import of a store",
        ),
        pytest.param(raised("ImportError: a/fused.so: file too short"), id="it is being built"),
        pytest.param(raised("ImportError: a.py: Input/output error"), id="a disk's error"),
        pytest.param(raised("ImportError: Cannot allocate memory"), id="no memory"),
        pytest.param(raised("ValueError: bad"), id="an exception of data"),
        pytest.param(RankStatus(rank=0, state="exited", signal=6, step=0), id="a signal"),
    ],
)
def test_what_may_pass_is_tried_once_more(life, status: RankStatus) -> None:
    begun(life)
    end(life, {0: status})
    assert life.phase is not Phase.FAILED


@pytest.mark.parametrize(
    ("told", "fails"),
    [
        pytest.param({1: ABSENT}, False, id="on one node of three"),
        pytest.param({1: ABSENT, 2: ABSENT}, True, id="on two of them"),
        pytest.param({0: refused(), 1: ABSENT}, False, id="another end on each"),
        pytest.param({0: raised("ValueError: x"), 1: refused()}, False, id="beside an exception"),
    ],
)
def test_of_several_nodes_two_have_to_say_the_same(
    life, told: dict[int, RankStatus], fails: bool
) -> None:
    begun(life, nodes=3)
    end(life, told)
    assert (life.phase is Phase.FAILED) is fails


def test_what_ran_for_long_may_have_trained_unseen(life) -> None:
    begun(life)
    life.wait(until_s=life.now + never_began.BEGINS_S + 1)
    end(life, {0: refused()})
    assert life.phase is not Phase.FAILED


def test_a_job_that_was_started_before_has_its_second_try(life) -> None:
    begun(life)
    end(life, {0: raised("ValueError: bad")})
    life.answer()
    assert life.job.attempt > 1
    end(life, {0: ABSENT})
    assert life.phase is not Phase.FAILED
