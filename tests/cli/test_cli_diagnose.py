"""`holdfast diagnose` and `holdfast-diagnose`: what is typed, what is shown, exit codes."""

import json
from typing import Any

import pytest

from holdfast.cli import calibrate, diagnose
from holdfast.cli.client import Problem
from holdfast.cli.main import main
from holdfast.diagnostics import alone
from holdfast.diagnostics.figures import LEAST_NODES
from holdfast.diagnostics.plan import alone as planned
from holdfast.protocol import exitcodes
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

Capture = pytest.CaptureFixture[str]

FOUND: dict[str, Any] = {
    "state": "ended", "stage": 2, "testing": [], "bad": {"n2": "link"}, "good": ["n0", "n1"],
    "undecided": [], "left_out": {"n9": "ranks run there, or may"}, "apart": [], "why": "",
    "sides": [], "unknown": {},
    "evidence": ["neighbour all-reduce n2-n0: 1.1 MB/s, below 8.3 -> n2's link"],
    "measurements": [
        {"node": node, "test": "allreduce", "value": value, "unit": "MB/s" if value else ""}
        for node, value in (("n0", 11.0), ("n0", 1.1), ("n1", 11.2), ("n2", None), ("n2", 1.1))
    ] + [{"node": "n0", "test": "clock", "value": None, "unit": ""}],
}  # fmt: skip


class Driver:
    """Answers as a driver does, in the end."""

    def __init__(self, *answers: dict[str, Any] | type[BaseException]) -> None:
        self.answers, self.deleted = list(answers), ""

    def post(self, where: str, body: object = None) -> dict[str, Any]:
        self.body = body
        return {"sequence": 12}

    def get(self, where: str) -> dict[str, Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, type):
            raise answer
        return answer

    def delete(self, where: str) -> None:
        self.deleted = where


def run(monkeypatch: pytest.MonkeyPatch, driver: Driver, *typed: str) -> int:
    monkeypatch.setattr(diagnose, "client", lambda *_: driver)
    monkeypatch.setattr(diagnose, "LOOK_S", 0.0)
    return main(["diagnose", *typed])


def test_it_shows_who_is_bad_with_figures_and_who_was_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    testing = {**FOUND, "state": "testing", "stage": 1, "testing": ["n0", "n1"]}
    driver = Driver(testing, FOUND)
    assert run(monkeypatch, driver, "--all") == exitcodes.FAILED
    shown = capsys.readouterr()
    assert "stage 1: 2 nodes still in test (n0, n1)" in shown.err
    assert "CLOCK" not in shown.out.upper()  # nobody has a figure there
    assert [line.split() for line in shown.out.splitlines()[1:4]] == [
        ["n2", "1.1", "MB/s", "bad:", "link"],
        ["n0", "11.0", "MB/s", "good"],
        ["n1", "11.2", "MB/s", "good"],
    ]
    assert "n2's link" in shown.out
    assert "not tested: n9 (ranks run there, or may)" in shown.out
    assert driver.body == {"all": True}


def test_who_is_unknown_is_told_with_why_and_two_sides_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    unsure = {"bad": {}, "undecided": ["n2"], "unknown": {"n2": "it told nothing"}}
    apart = {"sides": [["n0", "n1"], ["n3", "n4"]], "apart": [["n1", "n3"]]}
    assert run(monkeypatch, Driver({**FOUND, **unsure, **apart}), "--all") == exitcodes.TRY_AGAIN
    shown = capsys.readouterr().out
    assert "unknown: it told nothing" in shown
    assert "none is bad for it: n0, n1 | n3, n4" in shown
    assert "cannot reach each other" not in shown


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ({"bad": {}}, exitcodes.OK),
        (
            {"bad": {}, "undecided": ["n1"], "unknown": {"n1": "it told nothing"}},
            exitcodes.TRY_AGAIN,
        ),
        ({"bad": {}, "why": "no result came in time"}, exitcodes.TRY_AGAIN),
        ({}, exitcodes.FAILED),
    ],
)
def test_the_exit_code_says_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, found: dict[str, Any], code: int
) -> None:
    assert run(monkeypatch, Driver({**FOUND, **found}), "n0", "--json") == code
    assert json.loads(capsys.readouterr().out) == {**FOUND, **found}


def test_ctrl_c_ends_the_tests(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    driver = Driver(KeyboardInterrupt)
    assert run(monkeypatch, driver, "n0") == exitcodes.INTERRUPTED
    assert driver.deleted == "/v1alpha1/diagnoses/12"
    assert "the tests are ended" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "code"), [(404, exitcodes.USAGE), (409, exitcodes.TRY_AGAIN)])
def test_a_refusal_is_not_taken_for_a_bad_node(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, status: int, code: int
) -> None:
    def refuses(where: str, body: object) -> dict[str, Any]:
        raise Problem(status, {"detail": "nodes: there is no 'n9'."})

    driver = Driver()
    monkeypatch.setattr(driver, "post", refuses)
    assert run(monkeypatch, driver, "n9") == code
    assert "there is no 'n9'" in capsys.readouterr().err


@pytest.mark.parametrize("status", [404, 500])
def test_where_the_driver_knows_of_it_no_more_no_node_is_called_bad(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, status: int
) -> None:
    def refuses(where: str) -> dict[str, Any]:
        raise Problem(status, {"detail": "diagnosis: there is no 12, or not any more."})

    driver = Driver()
    monkeypatch.setattr(driver, "get", refuses)
    assert run(monkeypatch, driver, "n0") == exitcodes.TRY_AGAIN
    assert "not any more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ((), "no NODE is named"),
        (("n0", "--all"), "--all is every node"),
        (("",), "NODE"),
    ],
)
def test_what_cannot_be_meant_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, typed: tuple[str, ...], said: str
) -> None:
    assert run(monkeypatch, Driver(), *typed) == exitcodes.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "wrong", "typed", "code"),
    [
        (90.0, False, (), exitcodes.OK),
        (None, True, (), exitcodes.FAILED),
        (90.0, False, ("--compute-gflops", "200"), exitcodes.FAILED),
        (90.0, False, ("--memory", "200"), exitcodes.FAILED),
        (90.0, False, ("--disk-write", "80", "--cpus", "75"), exitcodes.OK),
        (None, False, (), exitcodes.TRY_AGAIN),
    ],
)
def test_alone_a_machine_is_told_in_json(
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    value: float | None,
    wrong: bool,
    typed: tuple[str, ...],
    code: int,
) -> None:
    def answered(order: DiagnosticOrder, node: str, folder: str) -> DiagnosticResult:
        assert folder == "/disk"
        ok = True if value else False if wrong else None
        return DiagnosticResult(
            id="alone", test=order.test, node=node, round=order.round, ok=ok, wrong=wrong,
            value=value,
        )  # fmt: skip

    monkeypatch.setattr(alone, "_run", answered)
    assert alone.main(["--node", "n1", "--folder", "/disk", *typed]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["node"] == "n1"
    assert len(told["measurements"]) == len(planned(id="x", node="n1", limit_s=60, thorough=True))
    assert (told["bad"] is not None) == (code == exitcodes.FAILED)


FIGURE: dict[str, Any] = {
    "test": "compute", "unit": "GFLOP/s", "nodes": 8, "median": 95.0, "spread": 0.04,
    "bound": 71.25, "ago_s": 7200.0, "asked": True, "drift": -0.02,
}  # fmt: skip


def test_calibrate_keeps_what_good_nodes_reached_and_shows_it_with_its_drift(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    driver = Driver({**FOUND, "bad": {}}, {"tests": [FIGURE]})
    monkeypatch.setattr(calibrate, "client", lambda *_: driver)
    assert main(["calibrate", "--all"]) == exitcodes.OK
    shown = capsys.readouterr().out
    assert "71.25" in shown
    assert "-2.0%" in shown
    assert "ago" in shown


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (FOUND, exitcodes.FAILED),
        ({**FOUND, "bad": {}}, exitcodes.TRY_AGAIN),
        ({**FOUND, "bad": {}, "undecided": ["n1"]}, exitcodes.TRY_AGAIN),
    ],
)
def test_where_nothing_is_kept_only_a_bad_node_is_called_bad(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, found: dict[str, Any], code: int
) -> None:
    driver = Driver(found)

    def refuses(where: str, body: object = None) -> dict[str, Any]:
        if where.endswith("calibrate"):
            raise Problem(409, {"detail": "diagnosis: 2 of its nodes are good, and 3 are needed."})
        return {"sequence": 12}

    monkeypatch.setattr(driver, "post", refuses)
    monkeypatch.setattr(calibrate, "client", lambda *_: driver)
    assert main(["calibrate", "--all"]) == code
    assert "3 are needed" in capsys.readouterr().err


def test_fewer_nodes_than_are_needed_are_not_tested_first(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(calibrate, "client", lambda *_: pytest.fail("the driver is asked"))
    assert main(["calibrate", "n0", "n1", "n1"]) == exitcodes.USAGE
    assert "3 nodes are needed" in capsys.readouterr().err
    assert calibrate.LEAST_NODES == LEAST_NODES


def test_what_an_older_driver_does_not_tell_is_not_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    older = {name: told for name, told in FOUND.items() if name not in ("unknown", "sides")}
    older |= {"bad": {}, "undecided": ["n2"]}
    assert run(monkeypatch, Driver(older), "--all") == exitcodes.TRY_AGAIN
    assert "unknown" in capsys.readouterr().out


@pytest.mark.parametrize("typed", [(), ("n0", "--all"), ("--all", "--show")])
def test_calibrate_says_what_cannot_be_meant(capsys: Capture, typed: tuple[str, ...]) -> None:
    assert main(["calibrate", *typed]) == exitcodes.USAGE
    assert "Name nodes, or give --all, or --show" in capsys.readouterr().err
