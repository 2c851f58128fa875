"""What W&B, MLflow and TensorBoard have of a run, read from their own files."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK_BYTES, HEADER, FILE_HEADER_BYTES = 32_768, struct.Struct("<IHB"), 7
"""W&B's files are logs as LevelDB writes them (leveldb, doc/log_format.md), after a header."""


class WandbRun:
    """One offline folder: the run's id, its configuration, and the rows of its history. Of a
    process that was killed the last rows, or all, may be missing.
    """

    def __init__(self, folder: Path) -> None:
        from wandb.proto import wandb_internal_pb2

        (file,) = folder.glob("*.wandb")
        self.id = file.stem.removeprefix("run-")
        self.config, self.rows = dict[str, Any](), list[dict[str, Any]]()
        for data in _records(file.read_bytes()):
            record = wandb_internal_pb2.Record.FromString(data)
            for each in (*record.run.config.update, *record.config.update):
                self.config[_name(each)] = json.loads(each.value_json)
            if record.HasField("history"):
                row = {_name(each): json.loads(each.value_json) for each in record.history.item}
                self.rows.append(row)


def _name(item: Any) -> str:
    return item.key or ".".join(item.nested_key)


def _records(data: bytes) -> Iterator[bytes]:
    at, part = FILE_HEADER_BYTES, b""
    while at + HEADER.size <= len(data):
        left = BLOCK_BYTES - at % BLOCK_BYTES
        if left < HEADER.size:
            at += left
            continue
        _, length, kind = HEADER.unpack_from(data, at)
        part += data[at + HEADER.size : at + HEADER.size + length]
        at += HEADER.size + length
        if kind in (1, 4):  # whole, or the last of it
            yield part
            part = b""
