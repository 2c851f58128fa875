"""Routes about diagnoses: have nodes tested, see what came of it, end it."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field

from holdfast.diagnostics.answers import passes
from holdfast.diagnostics.stages import Stage, least_of
from holdfast.diagnostics.thresholds import Known
from holdfast.driver.adapters.rest.asking import Done, IdempotencyKey, ask, key_of
from holdfast.driver.adapters.rest.body import is_whole, read_json
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.nodes import PERSON
from holdfast.driver.adapters.rest.parameters import MAX_SEQUENCE
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core import events
from holdfast.driver.core.state.model import Asked, Exam
from holdfast.driver.core.testing.asked import found
from holdfast.driver.core.testing.unknown import good, unknown
from holdfast.protocol.messages import DiagnosticResult
from holdfast.protocol.mistakes import BadDocument, Mistake, shown

MOST_NODES = 10_000
NODES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "nodes": {"type": "array", "items": {"type": "string", "minLength": 1}},
        "all": {"type": "boolean"},
    },
}

router = APIRouter(
    prefix=f"{PREFIX}/diagnoses", tags=["nodes"], dependencies=[Depends(person), NO_PARAMETERS]
)
Number = Annotated[int, Path(ge=1, le=MAX_SEQUENCE)]


class Measurement(View):
    """One test that one node ran."""

    node: str
    test: str
    stage: int = Field(ge=1)
    round: int
    members: list[str]
    """Who ran it together; none where the node ran it alone."""
    passed: bool | None
    """null where it says nothing."""
    value: float | None
    unit: str
    least: float
    """What passes; 0 where every value does."""
    detail: str


class DiagnosisView(View):
    """What a person asked of nodes, and what came of it so far."""

    number: int = Field(ge=1)
    state: str
    """testing, or ended."""
    nodes: list[str]
    left_out: dict[str, str]
    """Nodes that could not be tested, with why."""
    stage: int = Field(ge=1)
    testing: list[str]
    """Who has not told its results of this stage yet."""
    bad: dict[str, str]
    """Node to the part of it that is bad: compute, memory, bus, disk, clock, link or node."""
    good: list[str]
    undecided: list[str]
    """Neither good nor bad, as far as is known: also who has left, or was never judged."""
    apart: list[list[str]]
    """Pairs that cannot reach each other, and neither of which is bad."""
    sides: list[list[str]]
    """Two, or none: who is well among themselves, and fails with those of the other one. Nobody of
    them is bad for that."""
    why: str
    """Where it ended early."""
    unknown: dict[str, str]
    """Undecided nodes, with why each is."""
    evidence: list[str]
    measurements: list[Measurement]


@router.post("", status_code=202)
async def diagnose(request: Request, control: Driver, key: IdempotencyKey = None) -> Done:
    """Test these nodes, or all that can be. `sequence` is the number of the diagnosis. Nobody is
    evicted for what is found; it can be asked for until ten minutes after its end."""
    nodes = checked_nodes(await read_json(request))
    event = events.DiagnoseRequested(nodes=nodes, by=PERSON)
    return await ask(control, "nodes", event, key=key_of(key, "diagnose", *nodes))


@router.get("/{diagnosis}")
async def get_diagnosis(diagnosis: Number, control: Driver) -> DiagnosisView:
    """How far it is, and what was found."""
    exam = found(control.state.exams.values(), diagnosis)
    if exam is None or exam.asked is None:
        raise no_diagnosis(diagnosis)
    return view(exam, exam.asked)


@router.post("/{diagnosis}/calibrate", status_code=202)
async def calibrate(diagnosis: Number, control: Driver) -> Done:
    """What its good nodes reached is what nodes have to reach from now on, where a person has them
    tested."""
    if found(control.state.exams.values(), diagnosis) is None:
        raise no_diagnosis(diagnosis)
    event = events.CalibrateRequested(diagnosis=diagnosis, by=PERSON)
    return await ask(control, str(diagnosis), event)


@router.delete("/{diagnosis}", status_code=202)
async def end(diagnosis: Number, control: Driver) -> Done:
    """End it at once: its nodes are free again."""
    event = events.DiagnoseEndRequested(diagnosis=diagnosis, by=PERSON)
    return await ask(control, str(diagnosis), event)


def no_diagnosis(number: int) -> Problem:
    """404: nobody asked for it, or it is long over."""
    why = f"diagnosis: there is no {number}, or not any more."
    return Problem(404, why, fix="What came of it is kept for ten minutes. Ask for a new one.")


def checked_nodes(body: Any) -> tuple[str, ...]:
    """The names, each once, or () for all. Raises `BadDocument`."""
    given = body if isinstance(body, dict) else {}
    nodes, everyone = given.get("nodes", []), given.get("all", False)
    if _are_names(nodes) and type(everyone) is bool and bool(nodes) != everyone:
        return tuple(dict.fromkeys(nodes))
    why = "it says which nodes are to be tested."
    fix = 'Send a list of their names, or "all": true, and not both.'
    raise BadDocument([Mistake(field="nodes", value=shown(nodes), why=why, fix=fix)])


def _are_names(nodes: Any) -> bool:
    listed = isinstance(nodes, list) and len(nodes) <= MOST_NODES
    return listed and all(isinstance(each, str) and each and is_whole(each) for each in nodes)


def view(exam: Exam, asked: Asked) -> DiagnosisView:
    """As it is now."""
    verdict, over = asked.verdict, asked.verdict is not None
    left = unknown(asked)
    stages = asked.stages if over else (*asked.stages, _so_far(exam))
    return DiagnosisView(
        number=asked.number,
        state="ended" if over else "testing",
        nodes=list(asked.nodes),
        left_out=asked.left_out,
        stage=max(1, len(stages)),
        testing=[] if over else [node for node in exam.orders if node not in exam.results],
        bad=verdict.bad if verdict else {},
        good=list(good(asked)),
        undecided=list(left),
        apart=[list(two) for two in verdict.apart] if verdict else [],
        sides=[list(side) for side in verdict.sides] if verdict else [],
        why=asked.why,
        unknown=left,
        evidence=list(verdict.evidence) if verdict else [],
        measurements=_measurements(stages, asked.known),
    )


def _so_far(exam: Exam) -> Stage:
    return Stage(exam.orders, tuple(each for told in exam.results.values() for each in told))


def _measurements(stages: tuple[Stage, ...], known: Known) -> list[Measurement]:
    least = least_of(stages, known)
    return [
        _measurement(each, number, least.of(each.test))
        for number, stage in enumerate(stages, start=1)
        for each in stage.results
    ]


def _measurement(result: DiagnosticResult, stage: int, least: float) -> Measurement:
    return Measurement(
        node=result.node,
        test=result.test,
        stage=stage,
        round=result.round,
        members=list(result.members),
        passed=passes(result, least),
        value=result.value,
        unit=result.unit,
        least=least,
        detail=result.detail,
    )
