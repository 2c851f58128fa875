"""Agents of checkpoints as real processes, for the tests that need them."""

from collections.abc import Iterator

import pytest
from checkpoint_agent import AgentProcess, Start


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts agents; all have ended after the test."""
    agents: list[AgentProcess] = []

    def begin(*prefix: str, **program: tuple[str, ...]) -> AgentProcess:
        agents.append(AgentProcess(*prefix, **program))
        return agents[-1]

    yield begin
    for agent in agents:
        print(f"agent {agent.pid}: {agent.state()}")
        agent.close()
