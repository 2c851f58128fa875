"""What pods ask of nodes, by the scheduler's rules, without a cluster."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.adapters.kubernetes import facts
from holdfast.driver.adapters.kubernetes.requests import amount, request_of_manifest, said

Object = dict[str, Any]


def container(**requests: Any) -> Object:
    return {"name": "one", "resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("quantity", "thousandths"),
    [
        ("100m", 100),
        ("2", 2_000),
        (8, 8_000),
        ("0.5", 500),
        ("1e3", 1_000_000),
        ("1E", 10**21),
        ("2k", 2_000_000),
        ("1Ki", 1_024_000),
        ("8Gi", 8 * 2**30 * 1000),
        ("1n", 1),
        ("0", 0),
    ],
)
def test_a_quantity_is_read_as_the_api_server_writes_it(quantity: Any, thousandths: int) -> None:
    assert amount(quantity) == thousandths


@pytest.mark.parametrize("wrong", ["", "many", "1 2", "Gi", "1.2.3"])
def test_what_is_no_quantity_is_said(wrong: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        amount(wrong)


def test_containers_add_up_and_an_init_container_counts_where_it_needs_more() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Gi"), container(cpu="500m")],
        "initContainers": [container(cpu="4", memory="1Mi")],
    }
    assert request_of_manifest(spec) == {"cpu": 4_000, "memory": amount("1Gi"), "pods": 1_000}


def test_one_that_stays_counts_beside_those_that_come_after_it() -> None:
    sidecar = container(cpu="1") | {"restartPolicy": "Always"}
    spec = {"containers": [container(cpu="2")], "initContainers": [sidecar, container(cpu="3")]}
    assert request_of_manifest(spec)["cpu"] == 4_000
    spec["initContainers"] = [container(cpu="2500m"), sidecar]
    assert request_of_manifest(spec)["cpu"] == 3_000


def test_the_runtimes_own_need_counts_and_a_limit_without_a_request_is_one() -> None:
    limited = {"resources": {"limits": {"nvidia.com/gpu": 8, "cpu": "1"}, "requests": {"cpu": "2"}}}
    spec = {"containers": [limited], "overhead": {"cpu": "250m"}}
    assert request_of_manifest(spec) == {"nvidia.com/gpu": 8_000, "cpu": 2_250, "pods": 1_000}


def test_what_is_said_of_the_pod_as_a_whole_counts() -> None:
    spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "6"}}}
    assert request_of_manifest(spec)["cpu"] == 6_000


def offers(**allocatable: str) -> Object:
    return {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}


def pod(**requests: Any) -> Object:
    return {"spec": {"containers": [container(**requests)]}}


def test_nodes_fit_by_quantity_and_none_of_a_device_is_none() -> None:
    gpus = {"nvidia.com/gpu": 1}
    assert (
        facts.misfit(offers(**{"nvidia.com/gpu": "0"}), pod(**gpus)) == "it has no nvidia.com/gpu"
    )
    assert facts.misfit(offers(), pod(**gpus)) == "it has no nvidia.com/gpu"
    few = offers(**{"nvidia.com/gpu": "4"})
    told = "of nvidia.com/gpu it has 4, and 8 are needed"
    assert facts.misfit(few, pod(**{"nvidia.com/gpu": 8})) == told
    assert facts.misfit(few, pod(**{"nvidia.com/gpu": 4})) == ""
    assert facts.misfit(offers(cpu="8"), pod(cpu="9")) == "of cpu it has 8, and 9 are needed"
    assert facts.misfit(offers(memory="8Gi"), pod(memory="8Gi")) == ""
    assert facts.misfit(offers(cpu="1"), pod(**{"nvidia.com/gpu": 0})) == ""


def test_what_others_use_is_not_there_and_a_node_takes_so_many_pods() -> None:
    node = offers(cpu="8", pods="110")
    request = request_of_manifest(pod(cpu="4")["spec"])
    assert facts.lacking(node, request, {"cpu": 4_000, "pods": 109_000}) == ""
    told = facts.lacking(node, request, {"cpu": 6_000})
    assert told == "it has no room: of cpu 2 of 8 are free, and 4 are needed"
    assert "of pods 0 of 110 are free" in facts.lacking(node, request, {"pods": 110_000})


@given(st.integers(1, 2**52))
def test_what_is_said_of_a_number_is_about_that(thousandths: int) -> None:
    assert amount(said(thousandths)) == pytest.approx(thousandths, rel=0.06)
