"""On a cluster that a person gives: what cannot be done or seen there is said, and never passes."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_seen import seen

from holdfast.lab.chaos import main, play
from holdfast.lab.chaos.kubernetes import witnesses
from holdfast.lab.chaos.kubernetes.given import GivenStage
from holdfast.lab.chaos.kubernetes.rows import OnKubernetes
from holdfast.lab.chaos.kubernetes.scenarios import SCENARIOS
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.scenarios import chosen
from holdfast.lab.chaos.score import Score
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.losses import Losses
from holdfast.lab.on_kubernetes import KubernetesLab
from holdfast.protocol import exitcodes
from holdfast.protocol.forks import Fork

Capture = pytest.CaptureFixture[str]
HELD = sorted(
    {*witnesses.ALWAYS, *(w for each in SCENARIOS for w in (*each.there, *each.holds))},
    key=lambda witness: witness.__qualname__,
)
TAINT = {"key": "holdfast.dev/distrusted", "effect": "NoSchedule"}


class Asked(Exception):
    """Somebody asked for what is not there."""


class Mute(Sequence[Any]):
    """An audit log that nobody has."""

    def __iter__(self) -> Iterator[Any]:
        raise Asked

    def __len__(self) -> int:
        raise Asked

    def __getitem__(self, at: Any) -> Any:
        raise Asked


class Unstoppable:
    """An API server that is not ours."""

    def stop(self, component: str) -> None:
        raise Asked(component)


FORKED = Fork(rank=0, epoch=1, node="node-1", generation=1, term=1)


def asks_for_the_log(witness: witnesses.Witness) -> bool:
    try:
        witness(msgspec.structs.replace(seen(forked=[FORKED]), audited=Mute()))
    except Asked:
        return True
    return False


@pytest.mark.parametrize("witness", HELD)
def test_who_reads_the_audit_log_is_known_as_one_who_does(witness: witnesses.Witness) -> None:
    assert asks_for_the_log(witness) == (witness in witnesses.BY_AUDIT_LOG)


def test_a_mark_that_is_there_still_is_seen_without_the_log() -> None:
    nodes = {"node-1": {"spec": {}}, "node-2": {"spec": {"taints": [TAINT]}}}
    assert witnesses.marked_now(seen(nodes=nodes)) == ["node-2"]


# ---------------------------------------------------------------- which are left out


@pytest.fixture
def stage(tmp_path: Path) -> GivenStage:
    return GivenStage(tmp_path, kubeconfig=tmp_path / "admin.yaml", steps=30, seed=1, say=print)


def test_those_that_stop_the_api_server_are_left_out_and_all_the_others_of_their_kind_are_not(
    stage: GivenStage,
) -> None:
    lab: Any = object.__new__(KubernetesLab)
    lab.plane = Unstoppable()
    for scenario in chosen(["37"], SCENARIOS):
        if scenario.proxied:
            assert stage.cannot(scenario) == ""
            continue
        with pytest.raises(Asked, match="kube-apiserver"):
            scenario.do(lab, "chaos", None)
        assert "is not ours to stop" in stage.cannot(scenario)


def test_those_that_only_the_audit_log_could_judge_are_left_out(stage: GivenStage) -> None:
    judged = {each.name for each in SCENARIOS if "audit log" in stage.cannot(each)}
    assert judged == {
        *("kubelet-frozen", "kubelets-stopped", "kubelet-killed"),
        *("lease-deleted", "lease-stolen"),
    }


# ---------------------------------------------------------------- how it is said


PASSED = Score(
    fault="node-lost",
    passed=True,
    detected_s=1.0,
    blame="",
    blame_right=True,
    innocent_evicted=0,
    down_s=2.0,
    steps_lost=1,
    steps_lost_told=1,
    loss_equal_bitwise=True,
    not_looked_at=("each call once",),
)


class MadeStage(play.Stage):
    """Plays nothing; what it cannot do it says before, or finds out."""

    def cannot(self, scenario: Scenario) -> str:
        return "not ours" if scenario.name.startswith("api") else ""

    def left_alone(self, scenario: Scenario) -> Losses:
        assert not self.cannot(scenario), "nothing is trained for what is not played"
        return Losses(by_step={})

    def play(self, scenario: Scenario, run: int = 1) -> Score:
        if scenario.name == "node-unplugged":
            raise NotPossible("no links")
        return PASSED


def run(folder: Path, *names: str, as_json: bool = True) -> int:
    what: list[OnKubernetes] = chosen(list(names), SCENARIOS)
    return main.run(what, as_json=as_json, seed=1, steps=30, folder=folder, on=MadeStage)


def test_what_is_left_out_is_a_line_with_its_reason_that_neither_passed_nor_failed(
    tmp_path: Path, capsys: Capture
) -> None:
    assert run(tmp_path, "node-lost", "node-unplugged", "api-down") == exitcodes.OK
    played, unplugged, down = map(json.loads, capsys.readouterr().out.splitlines())
    assert (played["passed"], played["not_looked_at"]) == (True, ["each call once"])
    no_links = "not possible here: no links"
    assert unplugged == {"fault": "node-unplugged", "passed": None, "skipped": no_links}
    assert down == {"fault": "api-down", "passed": None, "skipped": "not ours"}


def test_a_run_in_which_all_is_left_out_has_not_passed(tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path, "api-down", as_json=False) == exitcodes.UNAVAILABLE
    assert capsys.readouterr().out.split() == ["skipped", "api-down", "not", "ours"]


def test_people_are_told_what_was_not_looked_at(tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path, "node-lost", as_json=False) == exitcodes.OK
    assert "(not looked at: each call once)" in " ".join(capsys.readouterr().out.split())
