"""What a good request and its answer look like, for each operation: one story of one job.

Put into the description of the interface by `description`; the tests hold each to its schema.
"""

from typing import Any

import msgspec

from holdfast.protocol import jobspec

JOB = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "speech-7b", "labels": {"team": "speech"}},
    "spec": {
        "nodes": 4,
        "ranksPerNode": 2,
        "standbys": 1,
        "command": ["python", "train.py", "--lr", "3e-4"],
        "workdir": "/data/speech",
        "topology": {"tp": 2, "pp": 2, "dp": 2},
    },
}
REASON = {"reason": "its fan is loud; a technician looks at it on Monday"}

PARAMETERS: dict[str, Any] = {
    "from_step": 0,
    "job": "speech-7b",
    "node": "node-4",
    "number": 1,
    "rank": 5,
    "Idempotency-Key": "speech-1",
    "limit": 50,
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


def _done(name: str, sequence: int, why: str) -> dict[str, Any]:
    return {"name": name, "sequence": sequence, "why": why}


_VIEW = {
    "name": "speech-7b",
    "labels": {"team": "speech"},
    "phase": "Running",
    "wanted": "run",
    "since_s": 312.5,
    "age_s": 4210.0,
    "why": "speech-7b completed step 1207, the furthest so far",
    "waiting": "",
    "unsure_s": None,
    "parked": "",
    "ranks": 8,
    "places": [
        {"node": node, "ranks": [2 * place, 2 * place + 1], "connected": True}
        for place, node in enumerate(("node-1", "node-2", "node-3", "node-5"))
    ],
    "standbys": [],
    "attempt": 2,
    "step": 1320,
    "stored_step": 1300,
    "stored_s": 55.0,
    "step_relative": False,
    "step_s": 2.75,
    "best_step_s": 2.71,
    "loss": 3.125,
    "tokens_per_s": 95300.0,
    "incident": None,
    "restarts": {
        "infrastructure": {"used": 1, "allowed": 20, "window_s": 86400.0},
        "user": {"used": 0, "allowed": 3, "window_s": 3600.0},
    },
    "failure": None,
    "exit": None,
    "store_url": "file:///data/checkpoints/speech/life-7f3a91c2d4b0865e",
    "spec": JOB,
}
_NODE: dict[str, Any] = {
    "name": "node-4",
    "state": "quarantined",
    "rack": "rack-2",
    "address": "10.0.0.4",
    "job": None,
    "ranks": [],
    "standby": False,
    "present": False,
    "connected": False,
    "at_rest": False,
    "reason": "node-4 is lost",
    "free_by_s": None,
    "incident": 1,
    "on_trial": False,
    "next_trial_s": 2651.5,
    "strikes": 1,
}
_SEEN = {
    "sequence": 25,
    "at": "2026-03-02T07:09:11.004",
    "text": "node-4 is gone",
    "seen": True,
    "source": "cluster",
    "verdict": "",
    "cause": None,
    "incident": 1,
}
_DECIDED = {
    "sequence": 25,
    "at": "2026-03-02T07:09:11.004",
    "text": "replace the node; node-4 is evicted; "
    "standby node-5 takes over ranks 6 to 7 of speech-7b",
    "seen": False,
    "source": "",
    "verdict": "",
    "cause": None,
    "incident": 1,
}
_INCIDENT = {
    "number": 1,
    "kind": "node-lost",
    "blame": "infrastructure",
    "summary": "node-4 is lost",
    "latest": "node-4 is lost",
    "jobs": ["speech-7b"],
    "node": "node-4",
    "rank": None,
    "evicted": ["node-4"],
    "rung": 2,
    "faults": 1,
    "open": False,
    "outcome": "back at step 1207",
    "found_s": 901.3,
    "stages_s": {"stop": 0.2, "replace": 0.1, "restore": 1.1, "step": 2.8},
    "recovered_s": 4.2,
    "overtaken": False,
    "down_s": 5.8,
    "step": 1200,
    "steps_lost": 6,
    "evidence": [
        {"source": "cluster", "text": "node-4 is gone"},
        {"source": "driver", "text": "the executor of node-4 has no connection"},
    ],
    "stacks": {},
}
_ATTEMPT = {
    "attempt": 2,
    "began": "2026-03-02T07:09:11.204",
    "nodes": ["node-1", "node-2", "node-3", "node-5"],
    "source": "store",
    "step": 1200,
    "ended": "",
    "why": "",
}
_PROGRESS = {
    "job": "speech-7b",
    "step": 1320,
    "best_step": 1320,
    "loss": 3.125,
    "tokens_per_s": 95300.0,
    "step_s": 2.75,
    "best_step_s": 2.71,
    "ranks": [{"rank": 0, "node": "node-1", "step": 1320, "phase": "forward", "hooks": True}],
}
_EVENTS = (
    'id: 25\nevent: NodeVanished\ndata: {"sequence":25,"at":"2026-03-02T07:09:11.004",'
    '"now_s":901.3,"kind":"NodeVanished","why":"the cluster says that node-4 is gone",'
    '"jobs":["speech-7b"],"nodes":["node-4"],"incident":1,"cause":null,"effects":["Distrust"],'
    '"event":{"type":"NodeVanished","node":"node-4","why":"its lease is over"}}\n\n'
)
_METRICS = (
    "# HELP holdfast_jobs Jobs by phase.\n# TYPE holdfast_jobs gauge\n"
    'holdfast_jobs{phase="Running"} 1.0\n'
)

BODIES: dict[str, dict[str, Any]] = {
    "POST /jobs": JOB,
    "POST /nodes/{node}/evict": REASON,
    "POST /nodes/{node}/restore": {"reason": "it has a new fan"},
    "POST /nodes/{node}/maintain": {"reason": "new kernel", "within_s": 300},
    "POST /brake/apply": {"reason": "we rewire rack 2"},
    "POST /brake/release": {"reason": "the switch is mended"},
}

ANSWERS: dict[str, Any] = {
    "POST /jobs": _done("speech-7b", 8, "speech-7b is submitted by a person"),
    "GET /jobs": {"items": [_VIEW], "continue": None},
    "GET /jobs/{job}": _VIEW,
    "DELETE /jobs/{job}": _done("speech-7b", 90, "a person wants speech-7b deleted"),
    "POST /jobs/{job}/suspend": _done("speech-7b", 51, "a person wants speech-7b suspended"),
    "POST /jobs/{job}/resume": _done("speech-7b", 60, "a person wants speech-7b to go on"),
    "POST /jobs/{job}/stop": _done("speech-7b", 81, "a person wants speech-7b stopped"),
    "GET /jobs/{job}/progress": _PROGRESS,
    "GET /jobs/{job}/attempts": {"items": [_ATTEMPT]},
    "GET /jobs/{job}/ranks/{rank}/logs": Text("text/plain", "step 1320  loss 3.12500\n"),
    "GET /jobs/{job}/story": {"job": "speech-7b", "earlier": False, "lines": [_SEEN, _DECIDED]},
    "GET /jobs/{job}/why": {
        "subject": "speech-7b",
        "headline": "speech-7b has been Running since 07:09:12",
        "details": [],
        "lines": [_SEEN, _DECIDED],
        "exception": "",
        "fix": "How it is now: holdfast status speech-7b --watch",
    },
    "GET /nodes": {"items": [_NODE]},
    "GET /nodes/{node}": _NODE,
    "GET /nodes/{node}/why": {
        "subject": "node-4",
        "headline": "node-4 has been quarantined since 07:09:11 (incident 1): node-4 is lost; "
        "it is put on trial at 07:19:11, if it can be tested then",
        "details": ["incident 1 at 07:09:11: node-4 is lost (back at step 1320)"],
        "lines": [_SEEN, _DECIDED],
        "exception": "",
        "fix": 'To use it again: holdfast nodes restore node-4 --reason "…"',
    },
    "POST /nodes/{node}/evict": _done(
        "node-4", 44, f"a person wants node-4 out: {REASON['reason']}"
    ),
    "POST /nodes/{node}/restore": _done(
        "node-4", 70, "a person wants node-4 used again: it has a new fan"
    ),
    "POST /nodes/{node}/maintain": _done(
        "node-4", 75, "node-4 is to be free within 300 s: a person wants to work on it: new kernel"
    ),
    "GET /brake": {
        "on": True,
        "why": "4 of 8 nodes were evicted within 60 s, node-7 next",
        "since_s": 812.4,
        "dry_run": False,
    },
    "POST /brake/apply": _done(
        "brake",
        80,
        "the brake is put on, nobody is evicted any more (a person: we rewire rack 2)",
    ),
    "POST /brake/release": _done(
        "brake", 91, "the brake is released (a person: the switch is mended)"
    ),
    "GET /incidents": {"items": [_INCIDENT]},
    "GET /incidents/{number}": _INCIDENT,
    "GET /events": Text("text/event-stream", _EVENTS),
    "GET /schema": jobspec.schema(),
    "GET /healthz": Text("text/plain", "ok\n"),
    "GET /readyz": {"ready": True, "why": "", "stale": False},
    "GET /metrics": Text("text/plain", _METRICS),
}
