"""The epoch's rendezvous process, which ranks need until they have met."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.messages import Rendezvous


@pytest.fixture
def met_nobody(training):
    """Ranks of a second epoch that run, and have completed no step."""
    life = training()
    life.dies(2, signal=9)
    life.answer()
    assert (life.phase, life.job.progressed) == (Phase.RUNNING, False)
    return life


def lost(life, **more):
    where = {"job": "job", "epoch": life.job.epoch, "node": life.job.rendezvous_host} | more
    life.do(e.RendezvousLost(**where))


def test_a_store_that_died_before_the_ranks_had_met_is_followed_by_another_epoch(met_nobody):
    epoch = met_nobody.job.epoch
    lost(met_nobody)
    assert met_nobody.job.epoch > epoch
    assert met_nobody.phase is Phase.SUSPENDING
    assert met_nobody.incident.faults == 2, "it is one story with what the epoch was made for"
    assert "died before its ranks had met" in met_nobody.job.why
    assert met_nobody.evicted == []
    met_nobody.answer()
    met_nobody.progress(9)
    assert not met_nobody.incident.open


@pytest.mark.parametrize("more", [{"epoch": 1}, {"node": "n1"}, {"job": "another"}])
def test_a_store_of_another_epoch_or_job_or_node_is_nobodys_concern(met_nobody, more):
    epoch = met_nobody.job.epoch
    lost(met_nobody, **more)
    assert (met_nobody.job.epoch, met_nobody.phase) == (epoch, Phase.RUNNING)


def test_ranks_that_have_met_need_no_store(training):
    life = training()
    assert life.job.progressed
    epoch = life.job.epoch
    lost(life)
    assert (life.job.epoch, life.phase) == (epoch, Phase.RUNNING)


def replaced(life, port=1):
    store = Rendezvous(address="10.0.0.1", port=port)
    where = {"job": "job", "epoch": life.job.epoch, "node": life.job.rendezvous_host}
    life.do(e.RendezvousReady(rendezvous=store, **where))


def test_a_store_that_was_replaced_while_its_ranks_were_on_the_way_is_followed_by_another_epoch(
    met_nobody,
):
    epoch = met_nobody.job.epoch
    replaced(met_nobody, met_nobody.job.rendezvous.port)
    assert met_nobody.job.epoch == epoch, "said again is not replaced"
    replaced(met_nobody)
    assert met_nobody.job.epoch > epoch
    assert "another one has taken the place" in met_nobody.incident.evidence[-1].text


def test_where_ranks_have_met_another_store_changes_nothing(training):
    life = training()
    epoch = life.job.epoch
    replaced(life)
    assert (life.job.epoch, life.phase) == (epoch, Phase.RUNNING)
