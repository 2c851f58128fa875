"""A journal in PostgreSQL that is put back from an old backup, under drivers and pods as shipped.

One test plays it: since the backup another driver led and a rank died, so that a term and an epoch
were given that the backup does not know. The others read what was left.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from postgres import running_postgres
from shipped_pair import DEPLOYMENT, DRIVERS, Pair, shipped_pair
from trained_pods import Life, Pod, Training, check_losses
from waiting import eventually

from holdfast.driver.core.effects import Distrust
from holdfast.driver.ports import Entry
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.cluster,
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


class Left(NamedTuple):
    """What the play left. `lost`: entries that were written since the backup."""

    lost: list[Entry]
    kept: int
    entries: list[Entry]
    pods: dict[str, list[Pod]]
    lives: list[Life]
    status: dict[str, Any]


@pytest.fixture(scope="module")
def pair(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("back")
    soon = ["--restart-base-s", "0.5"]
    with (
        running_postgres() as server,
        shipped_pair(plane, folder, server, nodes=3, more=soon) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def training(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Training:
    return Training(pair.plane, "put-back", "default", tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def left(pair: Pair, training: Training) -> Left:
    pods = {}
    first = pair.another()
    training.apply()
    epoch = training.in_epoch_after(0)
    training.trains_on()
    pods["at the backup"] = training.pods()
    backup = pair.postgres.backup(pair.database)
    kept = len(pair.entries())

    term = pair.newest_term()
    pair.kubectl("delete", "pod", first, "--wait=false")
    pair.another(first)
    pair.under(term, training.nodes())
    training.tell("kill-0")
    epoch = training.in_epoch_after(epoch)
    training.trains_on()

    pair.kubectl("scale", DEPLOYMENT, "--replicas=0")
    eventually(lambda: not pair.read(DRIVERS)["items"], "no driver is left")
    lost = pair.entries()[kept:]
    training.trains_on()
    pair.postgres.restore(pair.database, backup)
    assert len(pair.entries()) == kept, "the backup is what is there"
    pair.kubectl("scale", DEPLOYMENT, "--replicas=2")
    training.in_epoch_after(epoch)
    training.trains_on()
    pods["put back"] = training.pods()
    status = training.end()
    return Left(lost, kept, pair.entries(), pods, training.lives(), status)


def test_no_rank_lives_twice_in_an_epoch_and_each_epoch_is_later(left: Left) -> None:
    for rank in (0, 1):
        epochs = [each.epoch for each in left.lives if each.rank == rank]
        assert epochs == sorted(set(epochs))
        assert len(epochs) == 3, "at first, after the kill, and after the backup was put back"


def test_whoever_writes_on_has_a_term_that_nobody_had(left: Left) -> None:
    """But for the one that found out: the term of the driver that led since the backup is its own
    number too, and it ends as soon as executors tell.
    """
    since = [each.term for each in left.entries[left.kept :]]
    assert since == sorted(since)
    assert since[-1] > max(each.term for each in left.lost)


def test_training_goes_on_from_what_the_newest_epoch_saved_and_every_loss_is_the_same(
    left: Left, training: Training
) -> None:
    assert left.status["phase"] == "Succeeded"
    last, before = (
        [each for each in left.lives if each.epoch == epoch]
        for epoch in sorted({each.epoch for each in left.lives})[:0:-1]
    )
    assert len({each.step for each in last}) == 1
    assert last[0].step > before[0].step > 0
    check_losses(training)


def test_no_pod_is_made_anew_and_nobody_is_blamed(left: Left) -> None:
    assert left.pods["put back"] == left.pods["at the backup"]
    assert not [f for entry in left.entries for f in entry.effects if isinstance(f, Distrust)]
