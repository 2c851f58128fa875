"""demo, chaos and bench as commands like the others: their help, their options, their refusals."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli import parts
from holdfast.cli.main import main
from holdfast.cli.parts import Part
from holdfast.lab.chaos import main as chaos
from holdfast.lab.chaos.kubernetes import main as kubernetes_chaos
from holdfast.lab.chaos.kubernetes.scenarios import SCENARIOS as ON_KUBERNETES
from holdfast.lab.chaos.scenarios import SCENARIOS
from holdfast.lab.demo import kubernetes as on_kubernetes
from holdfast.lab.demo import main as demo
from holdfast.protocol import exitcodes

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What demo and chaos were told to play; nothing is started."""
    asked: list[Any] = []

    def run(what: Any, **options: Any) -> int:
        asked.append((what, options))
        return 7

    for part in (demo, chaos):
        monkeypatch.setattr(part, "run", run)
    return asked


@pytest.mark.parametrize("command", ["demo", "chaos list", "chaos run", "bench restart"])
def test_each_has_a_short_help_with_examples(command: str, capsys: Capture) -> None:
    assert main([*command.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert f"$ holdfast {command}" in said
    assert "--json" in said
    assert len(said.splitlines()) < 35


@pytest.mark.parametrize("words", ["chaos run rank-kiled", "demo --fault rank-kiled"])
def test_an_unknown_fault_is_one_sentence_with_the_nearest_names(
    words: str, capsys: Capture, played: list[Any]
) -> None:
    assert main([*words.split(), "--json"]) == exitcodes.USAGE
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("holdfast: 'rank-kiled' is no fault. Nearest: rank-killed")
    assert line.endswith("holdfast chaos list")
    assert json.loads(said.out)["error"].startswith("'rank-kiled' is no fault.")
    assert played == []


def test_faults_are_listed_each_in_a_line(capsys: Capture) -> None:
    assert main(["chaos", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(SCENARIOS) + 1
    assert main(["chaos", "list", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["fault"] for line in lines] == [each.name for each in SCENARIOS]
    assert all(len(line["says"].split()) > 3 for line in lines)


def test_faults_on_kubernetes_have_a_list_of_their_own(capsys: Capture) -> None:
    assert main("chaos list --cluster kubernetes --json".split()) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["fault"] for line in lines] == [each.name for each in ON_KUBERNETES]


def test_chaos_on_kubernetes_chooses_among_its_own_faults(
    monkeypatch: pytest.MonkeyPatch, played: list[Any], capsys: Capture
) -> None:
    monkeypatch.setattr(kubernetes_chaos, "run", chaos.run)
    assert main("chaos run node-lost 37 --cluster kubernetes --json".split()) == 7
    ((faults, _),) = played
    assert [each.name for each in faults][:2] == ["node-lost", "api-down"]
    assert main("chaos run rank-spins --cluster kubernetes".split()) == exitcodes.USAGE
    assert "'rank-spins' is no fault" in capsys.readouterr().err


def test_what_was_typed_reaches_the_part_and_its_exit_code_comes_back(
    tmp_path: Path, played: list[Any]
) -> None:
    folder = tmp_path / "new"
    assert main(["demo", "--fault", "rank-spins", "--folder", str(folder), "--keep"]) == 7
    assert main("chaos run node-lost 8 --steps 90 --seed 2 --json".split()) == 7
    (options, _), (faults, more) = played
    assert (options.fault.name, options.folder, options.keep) == ("rank-spins", folder, True)
    assert [each.name for each in faults] == ["node-lost", "exception-once"]
    assert more == {
        "as_json": True,
        "seed": 2,
        "steps": 90,
        "folder": None,
        "runs": 1,
        "into": None,
    }


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("demo --steps 3", "--steps"),
        ("demo --steps many", "--steps"),
        ("demo --folder .", "is not empty"),
        ("demo --cluster kubernetes --fault node-lost", "--fault is for the local cluster"),
        ("demo --cluster nowhere", "--cluster"),
        ("demo --kubeconfig file", "--kubeconfig is for Kubernetes.  Add: --cluster kubernetes"),
        ("chaos run 4 --kubeconfig file", "--kubeconfig is for Kubernetes."),
        ("demo --folder file", "cannot use file: File exists"),
        ("chaos run all --folder file/below", "cannot use file/below: Not a directory"),
        ("chaos run", "NAME"),
        ("bench restart --rounds 0", "--rounds"),
        ("bench evidence --seeds 0", "--seeds"),
        ("bench evidence --case none", "--case 'none': there is no such case.  There are passing,"),
        ("bench none", "no such command 'none'"),
    ],
)
def test_what_is_typed_wrong_is_a_sentence_and_nothing_is_started(
    words: str,
    named: str,
    capsys: Capture,
    played: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(words.split()) == exitcodes.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("holdfast: ")
    assert named in line
    assert played == []


def test_what_kept_the_demo_from_its_end_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def run(_options: Any) -> int:
        raise demo.TooLate("not within 60 s: all nodes are connected")

    monkeypatch.setattr(demo, "run", run)
    assert main(["demo", "--json"]) == exitcodes.FAILED
    assert "all nodes are connected" in json.loads(capsys.readouterr().out)["error"]


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, played: list[Any]
) -> None:
    monkeypatch.setattr("holdfast.cli.parts.find_spec", lambda name: None)
    assert main(["demo"]) == exitcodes.UNAVAILABLE
    assert "torch is not installed" in capsys.readouterr().err
    assert played == []


def test_on_kubernetes_the_demo_has_its_own_fault(
    monkeypatch: pytest.MonkeyPatch, played: list[Any]
) -> None:
    monkeypatch.setattr(on_kubernetes, "run", demo.run)
    assert main(["demo", "--cluster", "kubernetes", "--steps", "90"]) == 7
    ((options, _),) = played
    assert (options.fault, options.steps) == (on_kubernetes.FAULT, 90)


def test_a_cluster_that_is_given_reaches_the_part_that_plays_there(
    monkeypatch: pytest.MonkeyPatch, played: list[Any]
) -> None:
    monkeypatch.setattr(on_kubernetes, "run", demo.run)
    monkeypatch.setattr(kubernetes_chaos, "run", chaos.run)
    assert main("demo --cluster kubernetes --kubeconfig admin.yaml".split()) == 7
    assert main("chaos run 43 --cluster kubernetes --kubeconfig admin.yaml".split()) == 7
    (options, _), (_, more) = played
    assert options.kubeconfig == more["kubeconfig"] == Path("admin.yaml")


def test_a_cluster_that_is_given_needs_a_library_more(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, played: list[Any]
) -> None:
    monkeypatch.setattr("holdfast.cli.parts.find_spec", lambda name: name != "cryptography" or None)
    given = ["--cluster", "kubernetes", "--kubeconfig", "admin.yaml"]
    for words in (["demo"], ["chaos", "run", "43"]):
        assert main([*words, *given]) == exitcodes.UNAVAILABLE
        assert "holdfast[kubernetes,train,tls]" in capsys.readouterr().err
    assert played == []


def test_without_the_kubernetes_library_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, played: list[Any]
) -> None:
    monkeypatch.setattr("holdfast.cli.parts.find_spec", lambda name: name != "kubernetes" or None)
    assert main(["demo", "--cluster", "kubernetes"]) == exitcodes.UNAVAILABLE
    assert "holdfast[kubernetes,train]" in capsys.readouterr().err
    assert played == []


def test_options_that_people_type_are_read_in_one_place() -> None:
    root = Path(holdfast.__file__).parent
    readers = [
        str(file.relative_to(root))
        for folder in ("cli", "bench", "lab/chaos", "lab/demo")
        for file in (root / folder).rglob("*.py")
        if "argparse" in file.read_text()
    ]
    assert readers == []


@pytest.mark.parametrize("name", [name for name, it in vars(parts).items() if isinstance(it, Part)])
def test_every_part_is_there_and_needs_what_an_extra_brings(name: str) -> None:
    part: Part = getattr(parts, name)
    assert find_spec(part.module) is not None
    assert set(part.needs) <= set(parts.EXTRAS)


def test_the_help_says_how_kubectl_is_told_which_control_plane(capsys: Capture) -> None:
    assert main(["lab", "kubernetes", "--help"]) == exitcodes.OK
    shown = capsys.readouterr().out
    assert "kubectl  [--folder DIR] ARGUMENT" in shown
    assert "$ holdfast lab kubernetes kubectl --folder DIR get nodes" in shown
