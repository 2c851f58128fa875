"""Traces of flows, read and played into the detector. Pure but for `read`."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import convert

from holdfast.driver.watch.detector import Context
from holdfast.driver.watch.jobs import JobSeen, RankSeen
from holdfast.driver.watch.model import Expectation, Settings
from holdfast.driver.watch.slow_links import SlowLinks
from holdfast.protocol.faults import Finding
from holdfast.protocol.messages import Flow, Heartbeat, RankProgress, Seat

JOB = "job"


class Beat(NamedTuple):
    """What one node told at one time, and the step that all had completed then."""

    at_s: float
    phase: str
    step: int
    node: str
    flows: tuple[Flow, ...]


def read(path: Path) -> list[Beat]:
    """Of a file as it was written, or packed by xz."""
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    rows: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    return [Beat(**{**row, "flows": convert(row["flows"], tuple[Flow, ...])}) for row in rows]


def told(beats: list[Beat]) -> Iterator[tuple[float, str, Finding]]:
    """What is found, when, and in which phase."""
    detector = SlowLinks()
    nodes = sorted({beat.node for beat in beats})
    seats = tuple(
        Seat(rank=rank, local_rank=0, node=node, address="") for rank, node in enumerate(nodes)
    )
    job = JobSeen(expected=Expectation(job=JOB, epoch=1, seats=seats), began_s=0.0)
    for number, beat in enumerate(beats):
        context = Context(settings=Settings(), now=beat.at_s, sees_most=True)
        for rank in range(len(nodes)):
            seen = RankProgress(rank=rank, epoch=1, job=JOB, step=beat.step)
            job.ranks[rank] = RankSeen(progress=seen, heard_s=beat.at_s, uptime_s=0.0)
        heard = Heartbeat(
            node=beat.node, incarnation="a", sequence=number, uptime_s=beat.at_s, flows=beat.flows
        )
        detector.heard_of(heard, job, context)
        for finding in detector.looked_at(job, context):
            yield beat.at_s, beat.phase, finding
