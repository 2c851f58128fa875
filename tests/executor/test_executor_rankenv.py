"""The environment of a rank: torchrun's, ours, and nothing of the node's own."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.executor.core.model import warm_key
from holdfast.protocol import messages as m
from holdfast.protocol.paths import NodePaths
from holdfast.protocol.rankenv import NodeFacts, base_environment, rank_environment

NODE = NodeFacts(
    name="node-2", paths=NodePaths(scratch=Path("/s"), memory=Path("/m")), ifname="veth1"
)
TASK = m.Task(
    command=("x",), workdir="/", env={"OMP_NUM_THREADS": "3"}, ranks_per_node=2, log_root="/run"
)


def second_of_two_nodes(task: m.Task | None = TASK) -> m.Desired:
    seats = tuple(
        m.Seat(rank=2 + local, local_rank=local, node="node-2", address="10.0.0.1")
        for local in range(2)
    )
    return m.Desired(
        node="node-2",
        generation=1,
        term=1,
        epoch=5,
        job="job",
        attempt=3,
        task=task,
        seats=seats,
        world_size=4,
        places=2,
        place=1,
        rendezvous=m.Rendezvous(address="10.0.0.1", port=77),
        restore=m.Restore(source="memory", step=9, epoch=4),
    )


def test_a_rank_knows_its_place_in_the_world_the_node_and_the_run() -> None:
    desired = second_of_two_nodes()
    env = rank_environment(desired, desired.seats[1], NODE, agent_store=True)
    expected = {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "77",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_ERROR_FILE": "/run/jobs/job/attempt_3/rank_3/error.json",
        "GLOO_SOCKET_IFNAME": "veth1",
        "HOLDFAST_RING": "/m/rings/job.e5.r3.ring",
        "HOLDFAST_SLOTS": "/m/slots/job/r3",
        "HOLDFAST_RESTORE": '{"source":"memory","step":9,"epoch":4}',
    }
    assert expected.items() <= env.items()
    assert all(isinstance(value, str) for value in env.values())


def test_the_jobs_own_environment_wins_over_the_nodes_and_secrets_stay_out() -> None:
    inherited = {"PATH": "/bin", "HOLDFAST_NODE_TOKEN_FILE": "/secret", "OMP_NUM_THREADS": "8"}
    env = base_environment(inherited, TASK)
    assert env["PATH"] == "/bin"
    assert env["OMP_NUM_THREADS"] == "3"
    assert "HOLDFAST_NODE_TOKEN_FILE" not in env


def test_seats_without_a_task_are_refused_in_a_sentence() -> None:
    desired = second_of_two_nodes(task=None)
    with pytest.raises(ValueError, match="need a job, a task and a rendezvous"):
        rank_environment(desired, desired.seats[0], NODE, agent_store=False)


DEFAULTS = {"NCCL_IB_TIMEOUT": "20", "NCCL_IB_RETRY_CNT": "7", "CUDA_DEVICE_MAX_CONNECTIONS": "1"}


def test_defaults_of_the_job_are_there_where_neither_node_nor_job_sets_them() -> None:
    task = replace(TASK, default_env=DEFAULTS, env={"NCCL_IB_RETRY_CNT": "5"})
    env = base_environment({"CUDA_DEVICE_MAX_CONNECTIONS": "8"}, task)
    assert {name: env[name] for name in DEFAULTS} == {
        "NCCL_IB_TIMEOUT": "20",
        "NCCL_IB_RETRY_CNT": "5",
        "CUDA_DEVICE_MAX_CONNECTIONS": "8",
    }


@pytest.mark.parametrize("where", ["env", "default_env"])
def test_interfaces_that_the_job_names_stand_before_the_nodes(where: str) -> None:
    named = {"NCCL_SOCKET_IFNAME": "=ib0"}
    desired = second_of_two_nodes(replace(TASK, **{where: named}))
    env = rank_environment(desired, desired.seats[0], NODE, agent_store=True)
    assert "NCCL_SOCKET_IFNAME" not in env, "the job's own stands in what all ranks share"
    assert env["GLOO_SOCKET_IFNAME"] == "veth1"


def test_a_rank_knows_where_to_meet_and_which_submission_it_is_of() -> None:
    task = replace(TASK, rendezvous="redis://h/0", store_url="file:///data/life-7")
    desired = second_of_two_nodes(task)
    env = rank_environment(desired, desired.seats[0], NODE, agent_store=True)
    assert (env["HOLDFAST_RENDEZVOUS"], env["HOLDFAST_LIFE"]) == ("redis://h/0", "life-7")


def test_a_launcher_that_is_warm_for_other_defaults_is_another() -> None:
    assert warm_key(TASK) != warm_key(replace(TASK, default_env=DEFAULTS))
