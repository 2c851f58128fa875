"""A fleet that is busy, as the benchmark makes it: who takes what of which node."""

from collections import Counter, defaultdict

import pytest

pytest.importorskip("kubernetes")

from holdfast.bench.kubernetes import fleet, job, others
from holdfast.bench.kubernetes.busy import bar
from holdfast.bench.kubernetes.sizes import BadSizes
from holdfast.driver.adapters.kubernetes import facts
from holdfast.driver.adapters.kubernetes.requests import request_of_manifest

COUNT = 1_000


def taken() -> dict[str, Counter[str]]:
    """What others take of each node."""
    sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for number in range(COUNT):
        spec = others.pod(number)["spec"]
        sums[spec["nodeName"]].update(request_of_manifest(spec))
    return sums


def test_six_of_ten_nodes_have_no_room_for_a_pod_of_the_job_and_four_have() -> None:
    sums = taken()
    assert len(sums) == others.nodes_for(COUNT)
    wanted = request_of_manifest({"containers": [job.pair()["spec"]["pod"]]})
    for place in range(others.nodes_for(COUNT)):
        node = fleet.node(place)
        name = node["metadata"]["name"]
        why = facts.lacking(node, wanted, dict(sums[name]))
        assert bool(why) is others.is_full(name) is (place % 10 < 6)
        assert not facts.lacking(node, {}, dict(sums[name])), "what is there fits"


def test_no_two_pods_of_others_have_one_name() -> None:
    assert len({others.pod(number)["metadata"]["name"] for number in range(COUNT)}) == COUNT


@pytest.mark.parametrize("count", [1, 499, 501, 15_001])
def test_pods_that_would_not_fill_ten_nodes_alike_are_refused(count: int) -> None:
    with pytest.raises(BadSizes, match=f"--others {count}") as refused:
        others.nodes_for(count)
    assert "multiple of 500" in refused.value.fix


def test_the_bar_is_empty_at_first_and_full_at_last() -> None:
    assert bar(0, 500).count("█") == 0
    assert bar(500, 500).count("·") == 0
    assert bar(250, 500).endswith("250 of 500")
