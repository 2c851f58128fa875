"""What a good request and its answer look like, for each operation: one story of one job, recorded.

Put into the description of the interface by `description`; `python -m holdfast.lab.recorded` plays
the story and writes the file. The tests hold each to its schema, and the file to the story.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from holdfast.protocol import jobspec

RECORDED = Path(__file__).with_name("examples.json")

PARAMETERS: dict[str, Any] = {
    "from_step": 0,
    "interrupt": True,
    "job": "speech-7b",
    "node": "node-4",
    "number": 1,
    "incident": 1,
    "burst": 1,
    "diagnosis": 12,
    "webhook": "on-call",
    "since_s": 604800,
    "rank": 5,
    "Idempotency-Key": "speech-1",
    "limit": 50,
    "from_s": 10.0,
    "to_s": 20.0,
    "ranks": "4,5",
    "continue": "NTA=",
    "phase": ["Running", "Restoring"],
    "label": ["team=speech"],
    "name": "speech-*",
    "after": 24,
    "last-event-id": 24,
    "all": True,
    "earlier": False,
    "stream": "stderr",
    "attempt": 1,
    "tail": 100,
    "follow": False,
}


class Text(msgspec.Struct, frozen=True):
    """An answer that is not JSON."""

    media_type: str
    text: str


def _shown(answer: Any) -> Any:
    """A pair is text, with its media type before it."""
    return Text(*answer) if isinstance(answer, list) else answer


_RECORDED: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())

BODIES = _RECORDED["bodies"]
ANSWERS = {name: _shown(answer) for name, answer in _RECORDED["answers"].items()}
ANSWERS["GET /schema"] = jobspec.schema()
JOB = BODIES["POST /jobs"]
