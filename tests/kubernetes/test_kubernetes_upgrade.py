"""Another version of the drivers, rolled out as people do, and back; training is not touched.

The next version's journal is one migration further, and its messages have words that executors of
today do not know. One test plays it, the others read what was left.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from next_version import REVISION, next_version
from postgres import running_postgres
from shipped_pair import DEPLOYMENT, Pair, shipped_pair
from trained_pods import Life, Pod, Training, check_losses
from waiting import eventually

from holdfast.driver.core.events import ExecutorConnected
from holdfast.driver.ports import Entry
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.cluster,
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

NEXT = "holdfast-driver:0.2.0"


class Left(NamedTuple):
    """What the play left, by scene: the pods of the job, its ranks' lives, steps, who leads."""

    pods: dict[str, list[Pod]]
    lives: dict[str, list[Life]]
    steps: dict[str, int]
    leaders: dict[str, str]
    revisions: dict[str, str]
    refused: str
    status: dict[str, Any]
    entries: list[Entry]


class Play:
    """The drivers and the job, and what is seen of them scene by scene."""

    def __init__(self, pair: Pair, training: Training) -> None:
        self.pair = pair
        self.training = training
        self.seen: tuple[dict[str, Any], ...] = ({}, {}, {}, {}, {})

    def look(self, scene: str) -> None:
        """Once the job has trained on, with every executor connected."""
        found = (
            self.training.pods(),
            self.training.lives(),
            self.training.trains_on(),
            self.pair.leader(),
            self.pair.revision(),
        )
        for kind, now in zip(self.seen, found, strict=True):
            kind[scene] = now

    def upgraded(self) -> None:
        """`kubectl set image`: pod after pod is of the next version, and one of them leads."""
        term = self.pair.newest_term()
        self.pair.kubectl("set", "image", DEPLOYMENT, f"driver={NEXT}")
        self.pair.rolled_out()
        eventually(lambda: len(self.pair.ready(NEXT)) == 2, "both are of the next version")
        assert self.pair.revision() == REVISION, "it is the next version that runs"
        self.pair.under(term, self.training.nodes())

    def taken_back(self) -> str:
        """`kubectl rollout undo`: what the driver of before says, which does not begin."""
        self.pair.kubectl("rollout", "undo", DEPLOYMENT)
        said = eventually(self._refused, "the driver of before has ended, for its journal")
        self.look("taken back")
        eventually(lambda: self.pair.leader() in self.pair.ready(NEXT), "the next one leads on")
        self.pair.kubectl("rollout", "undo", DEPLOYMENT)
        self.pair.rolled_out()
        return said

    def _refused(self) -> str:
        """What a driver of before said, once it has ended for what its journal is; before that it
        may end for another reason, as where the API server takes its time.
        """
        for pod in self.pair.drivers():
            container = pod["spec"]["containers"][0]
            statuses = pod["status"].get("containerStatuses", ())
            ended = [each["restartCount"] > 0 for each in statuses]
            if NEXT not in container["image"] and any(ended):
                said = self.pair.kubectl("logs", pod["metadata"]["name"], "--previous")
                return said if "journal: " in said else ""
        return ""


@pytest.fixture(scope="module")
def pair(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("next")
    with next_version() as command, running_postgres() as server:
        more = ["--restart-base-s", "0.5", "--image", f"{NEXT}={command}"]
        with shipped_pair(plane, folder, server, nodes=3, more=more) as made:
            yield made


@pytest.fixture(scope="module")
def training(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Training:
    return Training(pair.plane, "upgraded", "default", tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def left(pair: Pair, training: Training) -> Left:
    play = Play(pair, training)
    pair.rolled_out()
    pair.another()
    training.apply()
    training.in_epoch_after(0)
    play.look("at first")
    play.upgraded()
    play.look("upgraded")
    refused = play.taken_back()
    play.look("again")
    status = training.end()
    return Left(*play.seen, refused, status, pair.entries())


def test_pods_and_ranks_live_on_and_make_steps_all_the_time(left: Left) -> None:
    scenes = ["at first", "upgraded", "taken back", "again"]
    for scene in scenes:
        assert left.pods[scene] == left.pods["at first"], scene
        assert left.lives[scene] == left.lives["at first"], scene
    steps = [left.steps[scene] for scene in scenes]
    assert steps == sorted(set(steps))


def test_executors_are_the_ones_of_before_with_drivers_of_both_versions(left: Left) -> None:
    connected = [each.event for each in left.entries if isinstance(each.event, ExecutorConnected)]
    nodes = {pod.node for pod in left.pods["at first"]}
    for node in nodes:
        assert len({each.incarnation for each in connected if each.node == node}) == 1, node
    assert left.leaders["upgraded"] != left.leaders["at first"]


def test_the_next_version_brings_the_journal_further(left: Left) -> None:
    assert left.revisions["at first"] < REVISION
    assert left.revisions["upgraded"] == REVISION


def test_a_driver_of_before_does_not_take_the_place_of_one_that_leads(left: Left) -> None:
    assert "journal: of another version of Holdfast" in left.refused
    assert "Use that version, or a newer one." in left.refused
    assert "Traceback" not in left.refused
    assert left.revisions["again"] == REVISION


def test_the_job_ends_well_and_every_loss_is_the_same(left: Left, training: Training) -> None:
    assert left.status["phase"] == "Succeeded"
    assert left.status.get("restarts", 0) == 0
    check_losses(training)
