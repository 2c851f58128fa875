"""`holdfast trace` over made-up traces, and those of a real run whose rank is stopped."""

import importlib.util
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import made_spans
import pytest
from shells import Shell, heard
from waiting import DEADLINE_S, eventually

from holdfast.cli.find import Target, client
from holdfast.protocol import exitcodes
from holdfast.traces import read

PAGE = Path(__file__).parents[2] / "docs" / "traces.md"
QUESTIONS = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def made(shell: Shell) -> Shell:
    made_spans.made(shell.folder / "run")
    shell.told["HOLDFAST_STATE"] = str(shell.folder / "run")
    return shell


def asked(shell: Shell, *words: str) -> Any:
    done = shell.asked("trace", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_there_is_is_listed(made: Shell) -> None:
    [row] = asked(made, "ls")
    assert (row["job"], row["nodes"], row["dropped"]) == ("speech", 2, 6)
    assert row["to_s"] == pytest.approx(8.01)
    said = made.asked("trace", "ls").stdout
    assert "0.20 ms" in said


@pytest.mark.parametrize("sql", QUESTIONS)
def test_each_question_of_the_page_has_an_answer(made: Shell, sql: str) -> None:
    pytest.importorskip("duckdb")
    assert asked(made, "query", sql)


def test_the_page_has_ten_questions() -> None:
    assert len(QUESTIONS) == 10


def test_a_wrong_question_is_refused_in_a_sentence(made: Shell) -> None:
    pytest.importorskip("duckdb")
    done = made.asked("trace", "query", "SELECT nothing FROM spans")
    assert done.returncode == exitcodes.USAGE
    assert "DuckDB: Binder Error" in done.stderr
    assert "docs/traces.md" in done.stderr


def test_without_the_extra_it_is_said_what_to_install(
    made: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    for words in (("query", "FROM spans"), ("pack",)):
        done = made.asked("trace", *words)
        assert done.returncode == exitcodes.UNAVAILABLE
        assert "Install it: pip install 'holdfast[trace]'" in done.stderr


def test_a_job_is_exported_whole_or_in_part(made: Shell) -> None:
    whole = asked(made, "export", "speech")
    assert whole["file"] == "speech.pftrace"
    part = asked(made, "export", "speech", "--from", "1", "--to", "1.05", "--perfetto", "part")
    assert 0 < part["spans"] < whole["spans"]
    assert (made.folder / "part").stat().st_size < (made.folder / "speech.pftrace").stat().st_size
    late = made.asked("trace", "export", "speech", "--from", "900")
    assert "speech has no spans of that time." in late.stderr
    back = made.asked("trace", "export", "speech", "--from", "5", "--to", "4")
    assert back.returncode == exitcodes.USAGE


def test_packed_or_not_a_question_has_one_answer(made: Shell) -> None:
    pytest.importorskip("duckdb")
    sql = "SELECT rank, count(*) AS n, sum(took_s) AS took FROM spans GROUP BY rank ORDER BY rank"
    before = asked(made, "query", sql)
    [done] = asked(made, "pack", "--everything")
    assert done["files"] == 2
    assert asked(made, "query", sql) == before


def test_where_there_are_no_traces_it_is_said_why_that_may_be(shell: Shell) -> None:
    (shell.folder / "run").mkdir()
    shell.told["HOLDFAST_STATE"] = str(shell.folder / "run")
    done = shell.asked("trace", "ls")
    assert "run has no traces" in done.stderr
    made_spans.made(shell.folder / "run")
    done = shell.asked("trace", "export", "speach")
    assert "there are no traces of 'speach'.  Did you mean speech?" in done.stderr


def test_a_redis_that_is_away_is_told(made: Shell) -> None:
    pytest.importorskip("redis")
    done = made.asked("trace", "collect", "redis://127.0.0.1:1", "--once")
    assert done.returncode == exitcodes.UNAVAILABLE
    assert "redis://127.0.0.1:1: " in done.stderr
    done = made.asked("trace", "collect", "off", "--once")
    assert done.returncode == exitcodes.USAGE


STOPS = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
again = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1_000_000):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if step == 30 and again:
        break
    if step == 30:
        open(f"pid-{rank}", "w").write(f"{os.getpid()}.")
    time.sleep(0.02)
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.warm
def test_spans_of_a_run_show_who_was_stopped_and_where_everybody_waits(shell: Shell) -> None:
    shell.script("train.py", STOPS)
    running = shell.start("run", "-n", "2", "train.py")
    heard(running, "2 ranks here")
    pid = eventually(lambda: _pid(shell.folder / "pid-1"), "rank 1 trains")
    os.kill(pid, signal.SIGSTOP)
    job = shell.run.name

    def waiting() -> list[dict[str, Any]]:
        """As the driver answers, while it lasts."""
        told = client(Target(state=shell.run)).get(f"/v1alpha1/jobs/{job}/spans")
        return [
            each
            for each in told["spans"]
            if not each["ended"] and each["kind"] == "collective" and each["rank"] == 0
        ]

    live = eventually(waiting, "the API shows who waits")
    assert (live[-1]["name"], live[-1]["axis"]) == ("all_reduce", "dp")
    running.communicate(timeout=DEADLINE_S)
    found = read.find(shell.run, job)
    assert found.troubles == ()
    first = [span for span in found.spans if span.attempt == 1 and not span.ended]
    [stopped] = [span for span in first if span.name == "stopped"]
    [waits] = [span for span in first if span.kind == "collective" and span.rank == 0]
    assert stopped.rank == 1
    assert waits.name == "all_reduce"
    assert waits.took_s > 2.0
    assert waits.waited_s > 0.8 * waits.took_s
    end_s = stopped.start_s + stopped.took_s
    assert stopped.start_s < waits.start_s + 1.0
    assert end_s > waits.start_s + 1.0
    before = [span for span in found.spans if span.attempt == 1 and span.kind == "step"]
    assert {span.rank for span in before} == {0, 1}
    assert {span.attempt for span in found.spans} == {1, 2}
    assert found.clock_error_s["node-1"] < 0.5
    if importlib.util.find_spec("duckdb"):
        of_axis = "SELECT DISTINCT axis FROM waits WHERE name = 'all_reduce'"
        assert asked(shell, "query", of_axis) == [{"axis": "dp"}]


def _pid(path: Path) -> int:
    said = path.read_text() if path.exists() else ""
    return int(said[:-1]) if said.endswith(".") else 0
