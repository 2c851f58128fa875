"""A job that is stopped or suspended has its last step in the store before its nodes forget it."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Instruct
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.messages import Stored

ENDS = {e.StopRequested: Phase.STOPPED, e.SuspendRequested: Phase.SUSPENDED}


@pytest.fixture(params=ENDS, ids=["stop", "suspend"])
def ending(request, storing):
    """Ranks that got to step 17, asked to end; their nodes have 17 in memory, the store has 10."""
    life = storing
    life.progress(17)
    life.do(request.param(job="job", by="ada"))
    life.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    life.end = ENDS[request.param]
    return life


def test_it_is_written_and_then_the_job_ends(ending):
    assert ending.phase is Phase.SUSPENDING
    assert ending.told("n0").save == Stored(step=17, epoch=1)
    ending.answer(snapshots=[(17, 1)], stored=[(17, 1), (10, 1)])
    assert ending.phase is ending.end
    assert ending.ordered(Instruct)


def test_a_store_that_fails_is_not_waited_for(ending):
    ending.answer(snapshots=[(17, 1)], stored=[(10, 1)], store_error="it is away")
    assert ending.phase is Phase.SUSPENDING
    ending.wait(until_s=ending.now + 60)
    assert ending.phase is ending.end


@pytest.mark.parametrize("kind", ENDS, ids=["stop", "suspend"])
def test_what_the_store_has_is_not_written_again(storing, kind):
    life = storing
    life.do(kind(job="job", by="ada"))
    life.answer(snapshots=[(10, 1)], stored=[(10, 1)])
    assert life.phase is ENDS[kind]


def test_a_job_that_is_to_be_deleted_saves_nothing(storing):
    storing.progress(17)
    storing.do(e.DeleteRequested(job="job", by="ada"))
    storing.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    assert "job" not in storing.state.jobs
