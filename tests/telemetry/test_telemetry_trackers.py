"""What the hooks of tracking tools do, and that they leave alone what is the script's own."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.telemetry import trackers
from holdfast.telemetry.trackers import mlflow, tensorboard, wandb
from holdfast.telemetry.trackers.start import Runs, start

AGAIN = {
    "HOLDFAST_JOB": "speech",
    "HOLDFAST_LIFE": "life-77",
    "HOLDFAST_ATTEMPT": "2",
    "HOLDFAST_BECAUSE": "incident 1: rank 0 died",
    "HOLDFAST_RESTORE": '{"source":"memory","step":40,"epoch":4}',
    "RANK": "0",
}
SENTENCE = "attempt 2 from step 40, incident 1: rank 0 died"


class Run:
    """What `wandb.init` gives."""

    def __init__(self, named: dict[str, Any]) -> None:
        self.named = named
        self.rows: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.config = SimpleNamespace(update=self._configure)
        self.told: dict[str, Any] = {}

    def _configure(self, told: dict[str, Any], *, allow_val_change: bool) -> None:
        assert allow_val_change
        self.told |= told

    def log(self, row: dict[str, Any], **how: Any) -> None:
        self.rows.append((row, how))


def init(
    entity: str | None = None,
    project: str | None = None,
    dir: str | None = None,  # noqa: A002 W&B's own name
    id: str | None = None,  # noqa: A002
    resume: str | None = None,
    fork_from: str | None = None,
    resume_from: str | None = None,
    settings: object = None,
) -> Run:
    assert not (resume and (fork_from or resume_from)), "W&B takes one of them"
    return Run({"id": id, "resume": resume})


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in AGAIN.items():
        monkeypatch.setenv(name, value)
    for name in wandb.OWN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(wandb, "_runs", Runs())
    module = SimpleNamespace(init=init, run=None)
    wandb.hook(module)
    return module


def test_each_rank_and_each_of_its_runs_has_a_name_that_is_the_same_in_each_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in AGAIN.items():
        monkeypatch.setenv(name, value)
    runs, begun = Runs(), start()
    assert [runs.next(begun) for _ in range(2)] == ["speech-77", "speech-77-n2"]
    later = begun._replace(attempt=3)
    assert [runs.next(later), runs.next(later._replace(rank=5))] == ["speech-77", "speech-77-r5-n2"]
    odd = begun._replace(job="a" * 99, life="life-1/2:3")
    assert len(odd.run(12)) <= 64
    assert not set(odd.run(12)) & set("/\\#?%:")


def test_a_run_goes_on_and_is_marked(hooked: Any) -> None:
    run = hooked.init(project="p")
    assert run.named == {"id": "speech-77", "resume": "allow"}
    assert run.told == {"holdfast/attempt-2": SENTENCE}
    assert run.rows == [({"holdfast/attempt": 2}, {"commit": False})]


@pytest.mark.parametrize(
    "own",
    [
        {"id": "mine"},
        {"resume": "never"},
        {"settings": {"run_id": "mine"}},
        {"settings": SimpleNamespace(run_id="mine").__dict__},
        {"fork_from": "other?_step=40"},
        {"resume_from": "mine?_step=40"},
        {"settings": {"fork_from": "other?_step=40"}},
    ],
)
def test_a_script_that_names_its_run_has_that_one_and_it_is_marked(
    hooked: Any, own: dict[str, Any]
) -> None:
    run = hooked.init(**own)
    assert run.named == {"id": own.get("id"), "resume": own.get("resume")}
    assert run.told == {"holdfast/attempt-2": SENTENCE}


def test_an_id_by_its_place_is_the_scripts_own(hooked: Any) -> None:
    assert hooked.init(None, "p", None, "mine").named["id"] == "mine"


def test_what_is_given_by_its_place_stays_there(hooked: Any) -> None:
    run = hooked.init(None, "p", None, None)
    assert run.named == {"id": "speech-77", "resume": "allow"}


@pytest.mark.parametrize("name", wandb.OWN)
def test_what_is_set_in_the_environment_is_left_alone(
    hooked: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "own")
    assert hooked.init().named == {"id": None, "resume": None}


def test_the_first_attempt_is_not_marked(hooked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ATTEMPT", "1")
    run = hooked.init()
    assert (run.named["id"], run.told, run.rows) == ("speech-77", {}, [])


def test_a_tool_that_objects_does_not_end_the_script_and_it_is_said_once(
    hooked: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Run, "log", lambda *_, **__: 1 / 0)
    hooked.init()
    hooked.init()
    assert capsys.readouterr().err.count("cannot mark the restart in W&B: ZeroDivisionError") == 1


def test_an_error_of_the_tool_in_the_scripts_own_call_is_the_scripts(hooked: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        hooked.init(no_such="x")


class Fluent:
    """`mlflow.tracking.fluent`, as far as it is used. `found`: ids of runs with a tag."""

    class MlflowException(Exception):
        """A refusal."""

    def __init__(self, *found: str) -> None:
        self.found, self.asked = found, list[str]()
        self.run: Any = None
        self.tags: dict[str, Any] = {}
        self.metrics: list[tuple[str, float, int]] = []

    def start_run(
        self, run_id: str | None = None, nested: bool = False, tags: object = None
    ) -> Any:
        self.run = SimpleNamespace(info=SimpleNamespace(run_id=run_id), tags=tags)
        return self.run

    def active_run(self) -> Any:
        return self.run

    def _get_experiment_id(self) -> str:
        return "7"

    def MlflowClient(self) -> "Fluent":
        return self

    def search_runs(self, where: list[str], wanted: str, max_results: int) -> list[Any]:
        self.asked.append(wanted)
        return [SimpleNamespace(info=SimpleNamespace(run_id=one)) for one in self.found]

    def log_param(self, key: str, value: object) -> None:
        raise self.MlflowException(f"Changing param values is not allowed: {key}")

    log_params = log_param

    def set_tag(self, name: str, value: str) -> None:
        self.tags[name] = value

    def log_metric(self, name: str, value: float, step: int) -> None:
        self.metrics.append((name, value, step))


@pytest.fixture
def tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AGAIN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(mlflow.OWN, raising=False)
    monkeypatch.setattr(mlflow, "_runs", Runs())
    monkeypatch.setattr(mlflow, "_again", set())


@pytest.mark.usefixtures("tracked")
def test_a_run_of_mlflow_is_found_and_marked_and_its_parameters_are_no_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = Fluent("r1")
    mlflow.hook(module)
    assert module.start_run().info.run_id == "r1"
    assert "'speech-77'" in module.asked[0]
    assert "!= 'FINISHED'" in module.asked[0]
    assert module.tags == {"holdfast.attempt-2": SENTENCE}
    assert module.metrics == [("holdfast/attempt", 2, 40)]
    module.log_param("pid", 7)
    assert "parameters of the first attempt" in capsys.readouterr().err


@pytest.mark.usefixtures("tracked")
def test_one_that_is_not_there_is_begun_with_a_tag_and_its_errors_are_the_scripts() -> None:
    module = Fluent()
    mlflow.hook(module)
    begun = module.start_run(tags={"own": "1"})
    assert (begun.info.run_id, begun.tags) == (None, {"own": "1", mlflow.TAG: "speech-77"})
    with pytest.raises(Fluent.MlflowException):
        module.log_param("pid", 7)


@pytest.mark.usefixtures("tracked")
@pytest.mark.parametrize("own", [{"run_id": "mine"}, {"nested": True}])
def test_a_run_that_the_script_names_or_nests_is_its_own(own: dict[str, Any]) -> None:
    module = Fluent("r1")
    mlflow.hook(module)
    begun = module.start_run(**own)
    assert (begun.info.run_id, begun.tags) == (own.get("run_id"), None)
    assert module.tags == {}


@pytest.mark.usefixtures("tracked")
def test_no_run_named_by_its_place_is_no_run_named() -> None:
    module = Fluent("r1")
    mlflow.hook(module)
    assert module.start_run(None).info.run_id == "r1"


@pytest.mark.usefixtures("tracked")
def test_an_environment_that_the_script_has_changed_is_said_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "none")
    module, board = Fluent("r1"), SimpleNamespace(SummaryWriter=type("Writer", (), {}))
    mlflow.hook(module)
    tensorboard.hook(board)
    assert module.start_run().info.run_id is None
    board.SummaryWriter()
    assert capsys.readouterr().err.count("ValueError") == 2


@pytest.mark.usefixtures("tracked")
def test_what_a_launcher_had_loaded_before_is_hooked_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = Fluent("r1")
    package = SimpleNamespace(start_run=module.start_run)
    monkeypatch.setitem(__import__("sys").modules, "mlflow", package)
    mlflow.hook(module)
    assert package.start_run().info.run_id == "r1"


@pytest.mark.usefixtures("tracked")
def test_a_writer_of_a_later_attempt_begins_with_the_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    class Writer:
        """A `SummaryWriter`."""

        def __init__(self, folder: str) -> None:
            self.folder, self.written = folder, list[tuple[Any, ...]]()

        def add_text(self, *what: Any) -> None:
            self.written.append(what)

        add_scalar = add_text

    tensorboard.hook(SimpleNamespace(SummaryWriter=Writer))
    assert Writer("f").written == [
        ("holdfast/restarts", SENTENCE, 40),
        ("holdfast/attempt", 2, 40),
    ]
    monkeypatch.setenv("HOLDFAST_ATTEMPT", "1")
    assert Writer("f").written == []


def test_they_can_be_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trackers.wanted()
    monkeypatch.setenv("HOLDFAST_TRACKERS", "off")
    assert not trackers.wanted()
