"""Output of a rank as an executor writes it down, without a rank."""

from pathlib import Path

import msgspec

from holdfast.daemon.settings import Settings
from holdfast.protocol.outputs import STREAMS, Output


def printed(
    settings: Settings,
    folder: Path,
    *,
    epoch: int = 2,
    began: int = 0,
    rules: tuple[str, ...] = ("ECC error", "(broken"),
    **said: str,
) -> Path:
    """A rank of the job `job` that has printed this, and is gone. Where its files are."""
    files = folder / f"rank_0.{epoch}"
    files.mkdir()
    for stream in STREAMS:
        (files / f"{stream}.log").write_text(said.get(stream, ""))
    output = Output(
        job="job",
        epoch=epoch,
        rank=0,
        folder=str(files),
        began=dict.fromkeys(STREAMS, began),
        rules=rules,
    )
    settings.paths.outputs.mkdir(exist_ok=True)
    settings.paths.output("job", epoch, 0).write_bytes(msgspec.json.encode(output))
    return files
