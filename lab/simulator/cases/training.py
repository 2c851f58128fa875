"""Ranks of one epoch of a case's job, as they really are. Steps are worked out when asked for."""

from collections.abc import Mapping

from holdfast.lab.simulator.cases.trouble import STEP_S, Attempt
from holdfast.protocol.messages import Desired, Snapshot

Point = tuple[int, int]
"""A step, and the epoch that saved it."""


class Training:
    """All up, they train; one gone, the rest stand still."""

    def __init__(self, desired: Desired, places: Mapping[str, tuple[int, ...]]) -> None:
        self.epoch = desired.epoch
        self.start = desired.restore.step if desired.restore is not None else 0
        self.places = places  # by node, in rank order: its ranks
        self.version = int((desired.task.env if desired.task else {}).get("CODE", "1"))
        self.up: set[str] = set()
        self.over = False  # nothing more comes of it
        self._step, self._since_s = self.start, -1.0  # below 0: it does not train

    @property
    def attempt(self) -> Attempt:
        return Attempt(nodes=tuple(self.places), start=self.start, version=self.version)

    @property
    def trains(self) -> bool:
        return self._since_s >= 0.0

    def go(self, now: float) -> None:
        self._since_s = now

    def pause(self, now: float) -> None:
        self._step, self._since_s = self.step(now), -1.0

    def step(self, now: float) -> int:
        """Steps that all ranks have completed."""
        done = int((now - self._since_s) / STEP_S + 1e-6) if self.trains else 0
        return self._step + done

    def snapshots(self, node: str, every: int, now: float) -> tuple[Snapshot, ...]:
        """The two newest of the node's ranks."""
        newest = self.step(now) // every * every
        steps = [step for step in (newest, newest - every) if step > self.start]
        ranks = self.places[node]
        return tuple(
            Snapshot(rank=rank, step=step, epoch=self.epoch) for step in steps for rank in ranks
        )

    def stored(self, every: int, now: float) -> list[Point]:
        """The checkpoints that it has written, the newest last."""
        first = (self.start // every + 1) * every
        return [(step, self.epoch) for step in range(first, self.step(now) + 1, every)]
