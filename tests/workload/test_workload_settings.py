"""Bad input is told before anything starts: each mistake with its field, value and fix."""

import pytest

from holdfast.protocol.topology import Topology
from holdfast.workload.settings import Mistakes, read

pytestmark = pytest.mark.torch

EIGHT = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}


def test_without_a_topology_the_world_is_data_parallel() -> None:
    settings, place = read([], EIGHT)
    assert settings.topology == Topology(dp=8)
    assert (place.rank, place.local_rank, place.world_size) == (3, 1, 8)


def test_the_topology_of_the_environment_is_used_and_the_command_line_may_say_more() -> None:
    environment = EIGHT | {"HOLDFAST_TOPOLOGY": '{"dp":2,"pp":2,"tp":2,"order":["tp","dp","pp"]}'}
    assert read([], environment)[0].topology == Topology(dp=2, pp=2, tp=2)
    only_replicas = EIGHT | {"HOLDFAST_TOPOLOGY": '{"dp":8}'}
    assert read(["--tp", "4"], only_replicas)[0].topology == Topology(dp=2, tp=4)


def test_the_command_line_must_not_contradict_a_topology_that_splits_the_model() -> None:
    environment = EIGHT | {"HOLDFAST_TOPOLOGY": '{"dp":2,"pp":2,"tp":2}'}
    assert read(["--tp", "2", "--pp", "2"], environment)[0].topology == Topology(dp=2, pp=2, tp=2)
    with pytest.raises(Mistakes, match="the job's topology is tp 2, pp 2, dp 2"):
        read(["--tp", "4"], environment)


@pytest.mark.parametrize(
    ("arguments", "sentences"),
    [
        (["--tp", "3"], ["--tp 3 x --pp 1 x --dp 2 = 6 ranks, but WORLD_SIZE is 8"]),
        (["--tp", "8"], ["--heads: 4 is not a multiple of the tensor-parallel size 8"]),
        (["--pp", "8"], ["--layers: 4 is not a multiple of the pipeline-parallel size 8"]),
        (["--hidden", "66"], ["--hidden: 66 is not a multiple of --heads 4"]),
        (["--seq", "0", "--lr", "-1"], ["--seq: 0 is below 1", "--lr: -1.0 is not above 0"]),
        (["--global-batch", "12"], ["--global-batch: 12 is not a multiple of"]),
    ],
)
def test_every_mistake_is_told_at_once(arguments: list[str], sentences: list[str]) -> None:
    with pytest.raises(Mistakes) as caught:
        read(arguments, EIGHT)
    for sentence in sentences:
        assert sentence in str(caught.value)
