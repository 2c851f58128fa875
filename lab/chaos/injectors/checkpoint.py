"""Faults 24 and 25: a checkpoint in the store is damaged, or its writer dies between two shards.

Each then loses a node, so that its memory is gone and a restore has to come from the store.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, node
from holdfast.lab.cluster import Lab

WITHIN_S = 60.0
Damage = Callable[[Path, Random], str]


def damaged(damage: Damage) -> Injector:
    """Damage the newest whole checkpoint, once there are two, and lose a node."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        def newest_of_two() -> Path | None:
            whole = whole_checkpoints(lab, job)
            return whole[-1] if len(whole) > 1 else None

        folder = target.wait_for(newest_of_two, f"two whole checkpoints of {job}", WITHIN_S)
        said = damage(folder, rng)
        done = node.lost(lab, job, rng)
        said = f"{said} in {folder.name}; {done.said}"
        return Done(said=said, node=done.node, at_s=done.at_s)

    return do


def torn_save(lab: Lab, job: str, rng: Random) -> Done:
    """Lose a node while a checkpoint has a shard and no manifest yet."""
    target.wait_for(lambda: whole_checkpoints(lab, job), f"a whole checkpoint of {job}", WITHIN_S)
    folder = under_way(lab, job)
    done = node.lost(lab, job, rng)
    said = f"{done.said} between two shards of {folder.name}"
    return Done(said=said, node=done.node, at_s=done.at_s)


def under_way(lab: Lab, job: str) -> Path:
    """The folder of the next save, once it has a shard and no manifest."""

    def between_shards() -> Path | None:
        whole = set(whole_checkpoints(lab, job))
        begun = [shard.parent for shard in lab.store(job).glob("*/*/*.safetensors*")]
        return next((folder for folder in begun if folder not in whole), None)

    return target.wait_for(between_shards, f"a save of {job} under way", WITHIN_S)


def whole_checkpoints(lab: Lab, job: str) -> list[Path]:
    """Folders that have a manifest, oldest first."""
    return sorted(manifest.parent for manifest in lab.store(job).glob("*/*/manifest.json"))


def flip(folder: Path, rng: Random) -> str:
    shard = _shard(folder, rng)
    content = bytearray(shard.read_bytes())
    content[rng.randrange(len(content) // 2, len(content))] ^= 0x10
    shard.write_bytes(content)
    return f"a bit flipped in {shard.name}"


def truncate(folder: Path, rng: Random) -> str:
    shard = _shard(folder, rng)
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) // 2])
    return f"{shard.name} cut in half"


def drop(folder: Path, rng: Random) -> str:
    shard = _shard(folder, rng)
    shard.unlink()
    return f"{shard.name} removed"


def tear(folder: Path, _rng: Random) -> str:
    manifest = folder / "manifest.json"
    content = manifest.read_bytes()
    manifest.write_bytes(content[: len(content) // 2])
    return "the manifest cut in half"


def _shard(folder: Path, rng: Random) -> Path:
    return rng.choice(sorted(folder.glob("*.safetensors")))
