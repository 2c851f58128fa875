"""What a refusal looks like, for each operation that has it: made by the code that answers so.

Put into the description of the interface by `description`; the tests hold each to its schema.
"""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.driver.adapters.rest.asking import key_reused, not_accepting, refused
from holdfast.driver.adapters.rest.body import checked_reason, checked_within, decoded, too_large
from holdfast.driver.adapters.rest.burst_views import no_burst, unreadable_burst
from holdfast.driver.adapters.rest.bursts import (
    being_taken,
    checked_seconds,
    no_job_there,
    none_taken,
    takes_none,
)
from holdfast.driver.adapters.rest.diagnoses import checked_nodes, no_diagnosis
from holdfast.driver.adapters.rest.examples import JOB
from holdfast.driver.adapters.rest.facts import checked_fact, checked_version
from holdfast.driver.adapters.rest.logs import unreadable
from holdfast.driver.adapters.rest.objects import not_here
from holdfast.driver.adapters.rest.paging import decoded as decoded_token
from holdfast.driver.adapters.rest.problems import (
    Problem,
    bad_query,
    not_found,
    of_mistakes,
    of_rebuff,
    which,
)
from holdfast.driver.adapters.rest.stacks import (
    checked_ranks,
    no_rank,
    none_there,
    not_running,
    too_soon,
)
from holdfast.driver.adapters.rest.webhooks import not_taken
from holdfast.driver.core.events import JobSubmitted, Plan
from holdfast.driver.people.access import NotAllowed, no_token, wrong_token
from holdfast.driver.people.admission import Refusal, of_defect
from holdfast.protocol import jobupdate
from holdfast.protocol.jobcheck import check
from holdfast.protocol.messages import Task
from holdfast.protocol.mistakes import BadDocument

Refusals = dict[str, Problem]
"""By a word for each, which OpenAPI shows as the name of the example."""


def _told(do: Callable[[], object]) -> Problem:
    """The problem that `do` ends with."""
    try:
        do()
    except Problem as problem:
        return problem
    except BadDocument as error:
        return of_mistakes(error)
    raise AssertionError("the example is no mistake")


def _out_of_bounds(place: str, given: int, least: int) -> Problem:
    error = {"loc": ("query", place), "type": "greater_than_equal", "input": given}
    return bad_query([error | {"msg": "", "ctx": {"ge": least}}], known=())


def _no_number(place: str) -> Problem:
    error = {"loc": ("path", place), "type": "int_parsing", "input": "x", "msg": ""}
    return bad_query([error], known=())


def not_known(known: Sequence[str]) -> Refusals:
    """Of every operation: a query parameter that it does not have."""
    error = {"loc": ("query", "colour"), "type": "extra_forbidden", "input": "red"}
    return {"unknown-parameter": bad_query([error], known)}


def _conflict(name: str, code: str, sentence: str) -> Refusals:
    return {code: refused(name, Refusal(code, sentence))}


_BAD_JOB: dict[str, Any] = JOB | {"spec": {"nodes": 0, "comand": ["python", "train.py"]}}

_SUBMITTED = JobSubmitted(
    job="speech-7b",
    plan=Plan(task=Task(command=("python", "train.py"), workdir="."), nodes=4, ranks_per_node=8),
)

_PERSON: Refusals = {
    "no-token": of_rebuff(no_token()),
    "wrong-token": of_rebuff(wrong_token()),
    "not-allowed": of_rebuff(
        NotAllowed(
            "ada may not list trainingjobs.holdfast.dev in namespace lab.",
            fix="Bind the ClusterRole holdfast-view in namespace lab.",
        )
    ),
}
_NO_JOB: Refusals = {
    "no-such-job": not_found("job", "speech-7b", ["speech-13b"]),
    "which-job": which("speech", ["lab.speech", "team.speech"]),
}
_NO_NODE: Refusals = {"no-such-node": not_found("node", "node-4", ["node-1", "node-2"])}
_NO_SUCH_NODE = "nodes: there is no 'node-9'. `holdfast nodes` lists the nodes that there are."
_NO_DIAGNOSIS: Refusals = {
    "no-such-diagnosis": no_diagnosis(12),
    "no-number": _no_number("diagnosis"),
}
_NOT_ACCEPTING: Refusals = {
    "not-accepting": not_accepting("the journal cannot be written: No space left on device."),
}
_KEY: Refusals = _NOT_ACCEPTING | {
    "key-reused": key_reused(
        "Idempotency-Key: 'speech-1' was used for another request. Use a new key."
    ),
}
_BODY: Refusals = {
    "not-json": _told(lambda: decoded(b"nodes: 4")),
    "too-large": too_large("2,097,152 bytes"),
}
_ENDED = _conflict(
    "speech-7b",
    "finished-job",
    "job: 'speech-7b' is Succeeded and stays so. Submit it again under another name.",
)
_REASON: Refusals = {"no-reason": _told(lambda: checked_reason(None))}
_WORDS: Refusals = {"no-words": _told(lambda: checked_fact({"words": ""}))}
_BURST: Refusals = (
    _PERSON
    | _NO_JOB
    | {
        "no-number": _no_number("burst"),
        "no-such-burst": no_burst("speech-7b", 1),
        "unreadable": unreadable_burst("speech-7b", 1, "is torn: its checksum is another"),
    }
)
_AFTER: Refusals = {"bad-query": _out_of_bounds("after", -1, 0)}

REFUSALS: dict[str, Refusals] = {
    "POST /jobs": _PERSON
    | _BODY
    | _conflict(
        "speech-7b",
        "duplicate-job",
        "metadata.name: 'speech-7b' is taken by a job that is Running. "
        "Choose another name, or delete that job first.",
    )
    | {"mistakes": _told(lambda: check(_BAD_JOB))}
    | {"defect": refused("speech-7b", of_defect(_SUBMITTED, "defect: KeyError('n0')"))}
    | _KEY,
    "GET /jobs": _PERSON
    | {
        "bad-token": _told(lambda: decoded_token("not ours")),
        "bad-query": _out_of_bounds("limit", 0, 1),
    },
    "GET /jobs/{job}": _PERSON | _NO_JOB,
    "PUT /jobs/{job}": _PERSON
    | _NO_JOB
    | _BODY
    | _ENDED
    | {"stays": of_mistakes(BadDocument(jobupdate.mistakes({"nodes": 4}, {"nodes": 8})))}
    | {"of-an-object": not_here("speech-7b")}
    | _KEY,
    "DELETE /jobs/{job}": _PERSON | _NO_JOB | _KEY,
    "POST /jobs/{job}/suspend": _PERSON | _NO_JOB | _ENDED | _KEY,
    "POST /jobs/{job}/resume": _PERSON
    | _NO_JOB
    | _conflict(
        "speech-7b",
        "not-suspended",
        "job: 'speech-7b' is Running, not Suspended. There is nothing to resume.",
    )
    | {"bad-query": _out_of_bounds("from_step", -1, 0)}
    | _KEY,
    "POST /jobs/{job}/stop": _PERSON | _NO_JOB | _ENDED | _KEY,
    "GET /jobs/{job}/progress": _PERSON | _NO_JOB,
    "GET /jobs/{job}/ranks": _PERSON | _NO_JOB,
    "GET /jobs/{job}/view3d": _PERSON | _NO_JOB,
    "GET /jobs/{job}/curves": _PERSON | _NO_JOB,
    "GET /jobs/{job}/attempts": _PERSON | _NO_JOB,
    "GET /jobs/{job}/ranks/{rank}/logs": _PERSON
    | _NO_JOB
    | {
        "no-number": _no_number("rank"),
        "unreadable": unreadable("node node-3: its executor is not connected"),
    },
    "GET /jobs/{job}/spans": _PERSON
    | _NO_JOB
    | {
        "no-such-incident": not_found("incident", "1", ["2", "3"]),
        "bad-query": _out_of_bounds("limit", 0, 1),
    },
    "GET /jobs/{job}/bursts": _PERSON | _NO_JOB,
    "GET /jobs/{job}/bursts/{burst}": _BURST,
    "GET /jobs/{job}/bursts/{burst}.svg": _BURST,
    "POST /nodes/{node}/burst": _PERSON
    | _BODY
    | _NO_NODE
    | {
        "no-seconds": _told(lambda: checked_seconds({"seconds": 60})),
        "no-job": no_job_there("node-4"),
        "being-taken": being_taken("node-4"),
        "no-burst": none_taken("node node-4: its daemon is not connected"),
        "old-daemon": takes_none("node node-4: its daemon is of a version that takes no bursts"),
    },
    "POST /jobs/{job}/stacks": _PERSON
    | _BODY
    | _NO_JOB
    | {
        "no-ranks": _told(lambda: checked_ranks(None)),
        "no-such-rank": no_rank("speech-7b", 8, 9),
        "not-running": not_running("speech-7b", "Suspended"),
        "too-soon": too_soon("speech-7b"),
        "no-stack": none_there(
            "speech-7b", {5: "no stack: node node-3: its executor is not connected"}
        ),
    },
    "GET /jobs/{job}/story": _PERSON | _NO_JOB | _AFTER,
    "GET /jobs/{job}/why": _PERSON | _NO_JOB,
    "GET /nodes": _PERSON,
    "GET /nodes/{node}": _PERSON | _NO_NODE,
    "GET /nodes/{node}/why": _PERSON | _NO_NODE,
    "POST /nodes/{node}/evict": _PERSON
    | _BODY
    | _NO_NODE
    | _conflict(
        "node-4",
        "quarantined-node",
        "node: 'node-4' is evicted already (a person wants node-4 out: loud fan). "
        "`holdfast nodes restore node-4` takes that back.",
    )
    | _REASON
    | _KEY,
    "POST /nodes/{node}/restore": _PERSON
    | _BODY
    | _NO_NODE
    | _conflict(
        "node-4",
        "usable-node",
        "node: 'node-4' is not evicted. There is nothing to restore.",
    )
    | _REASON
    | _KEY,
    "POST /nodes/{node}/maintain": _PERSON
    | _BODY
    | _NO_NODE
    | _conflict(
        "node-4",
        "quarantined-node",
        "node: 'node-4' is evicted already (node-4 is lost). "
        "`holdfast nodes evict node-4` keeps it from being tested, and used, meanwhile.",
    )
    | _REASON
    | {"no-time": _told(lambda: checked_within("soon"))}
    | _KEY,
    "POST /nodes/{node}/facts": _PERSON | _BODY | _NO_NODE | _WORDS | _KEY,
    "POST /jobs/{job}/facts": _PERSON
    | _BODY
    | _NO_JOB
    | _WORDS
    | {"no-version": _told(lambda: checked_version("newest"))}
    | _conflict(
        "speech-7b",
        "unknown-version",
        "version: 'speech-7b' has no version 3. Name one that it has: 1, 2.",
    )
    | _KEY,
    "GET /evidence": _PERSON | {"bad-query": _out_of_bounds("limit", 0, 1)},
    "GET /jobs/{job}/goodput": _PERSON | _NO_JOB,
    "GET /goodput": _PERSON | {"bad-query": _out_of_bounds("limit", 0, 1)},
    "POST /diagnoses": _PERSON
    | _BODY
    | {"no-such-node": refused("nodes", Refusal("unknown-node", _NO_SUCH_NODE, "node-9"))}
    | _conflict(
        "nodes",
        "busy-node",
        "nodes: 'node-4' cannot be tested now: ranks run there, or may. "
        "`holdfast nodes` shows who has it; suspend its job, or ask again later.",
    )
    | {"no-nodes": _told(lambda: checked_nodes({}))}
    | _KEY,
    "GET /diagnoses/{diagnosis}": _PERSON | _NO_DIAGNOSIS,
    "DELETE /diagnoses/{diagnosis}": _PERSON | _NO_DIAGNOSIS | _NOT_ACCEPTING,
    "POST /diagnoses/{diagnosis}/calibrate": _PERSON
    | _NO_DIAGNOSIS
    | _conflict(
        "12",
        "no-figures",
        "diagnosis: 2 of its nodes are good, and 3 are needed. Name more.",
    )
    | _NOT_ACCEPTING,
    "GET /calibrations": _PERSON,
    "GET /brake": _PERSON,
    "POST /brake/apply": _PERSON
    | _BODY
    | _conflict(
        "brake",
        "brake-on",
        "brake: it is on already (a person: we rewire rack 2). There is nothing to apply.",
    )
    | _REASON
    | _KEY,
    "POST /brake/release": _PERSON
    | _BODY
    | _conflict("brake", "brake-off", "brake: it is not on. There is nothing to release.")
    | _REASON
    | _KEY,
    "POST /codes": _PERSON,
    "GET /incidents": _PERSON,
    "GET /incidents/{number}": _PERSON
    | {
        "no-such-incident": not_found("incident", "1", ["2", "3"]),
        "no-number": _no_number("number"),
    },
    "GET /digest": _PERSON | {"bad-query": _out_of_bounds("since_s", 0, 1)},
    "GET /webhooks": _PERSON,
    "POST /webhooks/{webhook}/test": _PERSON
    | {
        "no-such-webhook": not_found("webhook", "on-cal", ["on-call", "chat"]),
        "not-taken": not_taken("on-call", "it did not answer within 10 s"),
    },
    "GET /events": _PERSON | _AFTER,
    "GET /schema": {},
    "GET /healthz": {},
    "GET /readyz": {},
    "GET /metrics": {},
}
