"""A job's ranks in the test's own process, whose checkpoints real agents write. Needs torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from checkpoint_agent import AgentProcess

from holdfast.checkpoint.agent_protocol import AgentOrder, AgentReport
from holdfast.checkpoint.checkpointer import Checkpointer
from holdfast.checkpoint.settings import Settings
from holdfast.protocol.messages import Restore, Stored
from holdfast.protocol.topology import Topology

INTERVAL = 10
"""Steps between checkpoints in the store."""


class Job:
    """Ranks of a job in this process: their slots, their states, their orders to agents."""

    def __init__(
        self,
        root: Path,
        world_size: int = 1,
        topology: Topology | None = None,
        *,
        store_url: str = "",
        elements: int = 4_000,
    ) -> None:
        self.root = root
        self.store = root / "store"
        self.store_url = store_url or f"file://{self.store}"
        self.elements = elements
        self.world_size = world_size
        self.topology = topology or Topology(dp=world_size)
        self.epoch = 1
        self.orders = 0
        self.ranks = [self.checkpointer(rank) for rank in range(world_size)]

    def checkpointer(self, rank: int, restore: Restore | None = None) -> Checkpointer:
        return Checkpointer(
            Settings(
                job="job",
                epoch=self.epoch,
                rank=rank,
                world_size=self.world_size,
                slots=self.root / f"r{rank}",
                store_url=self.store_url,
                store_interval_steps=INTERVAL,
                topology=self.topology,
                restore=restore,
            )
        )

    def order(self, *ranks: int, slots: tuple[int, ...] = (), **changes: Any) -> AgentOrder:
        self.orders += 1
        fields: dict[str, Any] = {
            "id": self.orders,
            "job": "job",
            "epoch": self.epoch,
            "ranks": ranks,
            "world_size": self.world_size,
            "slots": {rank: str(self.root / f"r{rank}") for rank in ranks or slots},
            "store_url": self.store_url,
            "store_interval_steps": INTERVAL,
        }
        return AgentOrder(**fields | changes)

    def save(self, step: int, *ranks: int) -> None:
        for rank in ranks or range(self.world_size):
            assert self.ranks[rank].save(
                step, {"w": torch.full((self.elements,), step + rank / 10)}
            )

    def restored(self, rank: int, found: Stored) -> torch.Tensor:
        wanted = Restore(source="store", step=found.step, epoch=found.epoch)
        state = {"w": torch.zeros(self.elements)}
        assert self.checkpointer(rank, wanted).restore(state) == found.step
        return state["w"]

    def whole(self) -> list[str]:
        return sorted(path.parent.name for path in self.store.glob("*/manifest.json"))

    def look_up(self, agent: AgentProcess) -> AgentReport:
        """What the store has, as the driver asks for it: in an epoch of its own, no rank runs."""
        self.epoch += 1
        order = self.order(slots=tuple(range(self.world_size)), look_up_store=True)
        agent.give(order)
        return agent.until(lambda report: report.id == order.id and report.looked, "looked up")


def persisted(step: int) -> Callable[[AgentReport], bool]:
    return lambda report: report.persisted_step == step
