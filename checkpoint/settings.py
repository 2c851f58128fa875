"""What a rank's checkpointer is told by its environment. The only place here that reads it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.protocol.messages import Restore
from holdfast.protocol.topology import Topology

T = TypeVar("T")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's place and intervals. `slots` is None outside Holdfast: only what `alone` says is
    saved then, straight to the store.
    """

    job: str = ""
    epoch: int = 0
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    slots: Path | None = None
    store_url: str = ""
    begin_from: str = ""
    memory_interval_steps: int = 1
    store_interval_steps: int = 0
    peer_interval_steps: int = 0
    restore: Restore | None = None
    topology: Topology = Topology()
    retention: int = 2
    alone: bool = False


ALONE = "alone"
"""The job's name in what is saved outside Holdfast."""


def outside(
    store_url: str,
    *,
    every_steps: int,
    retention: int,
    begin_from: str,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """The settings of a script that names its own store; in Holdfast those of its job stand.

    Raises `ValueError` naming what cannot be.
    """
    known = from_environment(environment)
    if known.slots is not None or not store_url:
        return known
    for name, number in (("store_interval_steps", every_steps), ("retention", retention)):
        if number < 1:
            raise ValueError(f"{name}: {number} is less than 1. Give a whole number from 1 on.")
    return replace(
        known,
        job=ALONE,
        store_url=store_url,
        begin_from=begin_from,
        memory_interval_steps=0,
        store_interval_steps=every_steps,
        retention=retention,
        alone=True,
    )


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this rank. Raises `ValueError` naming the variable that is malformed."""
    world_size = _number(environment, "WORLD_SIZE", 1)
    topology = environment.get("HOLDFAST_TOPOLOGY", "")
    restore = environment.get("HOLDFAST_RESTORE", "")
    slots = environment.get("HOLDFAST_SLOTS", "")
    return Settings(
        job=environment.get("HOLDFAST_JOB", ""),
        epoch=_number(environment, "HOLDFAST_EPOCH", 0),
        rank=_number(environment, "RANK", 0),
        world_size=world_size,
        local_rank=_number(environment, "LOCAL_RANK", 0),
        local_world_size=_number(environment, "LOCAL_WORLD_SIZE", 1),
        slots=Path(slots) if slots else None,
        store_url=environment.get("HOLDFAST_STORE_URL", ""),
        begin_from=environment.get("HOLDFAST_BEGIN_FROM", ""),
        memory_interval_steps=_number(environment, "HOLDFAST_MEMORY_INTERVAL", 1),
        store_interval_steps=_number(environment, "HOLDFAST_STORE_INTERVAL", 0),
        peer_interval_steps=_number(environment, "HOLDFAST_PEER_INTERVAL", 0),
        restore=_json("HOLDFAST_RESTORE", restore, Restore) if restore else None,
        topology=_json("HOLDFAST_TOPOLOGY", topology, Topology)
        if topology
        else Topology(dp=world_size),
    )


def of_now(settings: Settings, environment: Mapping[str, str] = os.environ) -> Settings:
    """In `holdfast.run` a process goes on as the rank of another attempt: the settings of that."""
    if _number(environment, "HOLDFAST_EPOCH", 0) == settings.epoch:
        return settings
    return from_environment(environment)


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "") or str(default)
    if not text.isdecimal():
        raise ValueError(f"{name}: {text!r} is no whole number of 0 or more. Set one.")
    return int(text)


def _json(name: str, text: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise ValueError(f"{name}: {error}. It is set by Holdfast; do not change it.") from error
