"""`holdfast ranks`, `heatmap`, `timeline`, `view3d`: of real ranks, one of which is slowed."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from shells import Shell
from waiting import eventually

TRAIN = """
import time, torch, torch.distributed as dist
from torch import nn
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(192, 192), nn.ReLU()))
optimizer = torch.optim.SGD(model.parameters(), lr=.01)
inputs = torch.randn(64, 192)
for step in range(10_000_000):
    optimizer.zero_grad()
    time.sleep(0.004)
    model(inputs).square().mean().backward()
    optimizer.step()
    if step % 50 == 0:
        print("step", step, flush=True)
"""
SLOW = 1
ENDS = f"""
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
part = torch.nn.Parameter(torch.ones(100))
optimizer = torch.optim.SGD([part], lr=1e-3)
for step in range(100):
    part.square().sum().backward()
    time.sleep(0.08 if dist.get_rank() == {SLOW} else 0.02)
    dist.all_reduce(part.grad)
    optimizer.step()
    optimizer.zero_grad()
"""
STOPPED_S, GOES_S = 0.06, 0.05
"""Of each tenth of a second: so long it is stopped, and so long it goes."""


@contextmanager
def slowed(pid: int) -> Iterator[None]:
    """The process is stopped and continued again and again, by somebody outside."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(STOPPED_S)
            os.kill(pid, signal.SIGCONT)
            over.wait(GOES_S)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def rows(shell: Shell) -> list[dict[str, Any]]:
    asked = shell.asked("ranks", "--json")
    found: list[dict[str, Any]] = json.loads(asked.stdout)["ranks"] if asked.returncode == 0 else []
    return found


def waited_on(shell: Shell) -> list[list[int]]:
    return [row["waits_on"] for row in rows(shell) if row.get("state") == "waits"]


def trains(shell: Shell, steps: int) -> bool:
    found = rows(shell)
    return bool(found) and all(row.get("step", 0) > steps for row in found)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.warm
def test_the_rank_that_is_slowed_is_the_one_that_is_seen_and_named(shell: Shell) -> None:
    shell.script("train.py", TRAIN)
    run = shell.start("run", "-n", "3", "train.py")
    eventually(lambda: trains(shell, 100), "they train")
    quiet = shell.asked("heatmap")
    assert (quiet.returncode, "holds its peers up" in quiet.stdout) == (0, False)
    pid = rows(shell)[SLOW]["pid"]
    with slowed(pid):
        eventually(lambda: "verdict" in rows(shell)[SLOW], "the detector names it")
        said = shell.asked("heatmap").stdout
        picture = shell.folder / "heat.svg"
        assert shell.asked("heatmap", "--svg", str(picture)).returncode == 0
        table = shell.asked("ranks", "--format", "csv").stdout.splitlines()
        below = shell.asked("ranks", "--sort", "wait").stdout
    lines = {line.split()[1]: line for line in said.splitlines() if line.startswith("rank ")}
    assert "████" in lines[str(SLOW)]
    named = next(line for line in said.splitlines() if line.startswith("█ "))
    assert named.startswith(f"█ rank {SLOW} on ")
    assert "its own part of a step takes" in named
    assert f"rank {SLOW} on " in below.splitlines()[-1]
    assert table[0].startswith("rank,local_rank,node,")
    assert [line.split(",")[0] for line in table[1:]] == ["0", "1", "2"]
    text = " ".join(ElementTree.parse(picture).getroot().itertext())
    assert "holds its peers up" in text
    assert "step " in below  # the last line of each

    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: rows(shell)[SLOW].get("state") == "stopped", "it is seen to be stopped")
    eventually(lambda: "waits" in {row.get("state") for row in rows(shell)}, "others wait for it")
    eventually(lambda: json.loads(shell.asked("view3d", "--json").stdout)["ends"], "waits end")
    view = json.loads(shell.asked("view3d", "--json").stdout)
    assert view["ends"] == [SLOW]
    assert f"end at rank {SLOW}" in shell.asked("view3d").stdout
    eventually(lambda: waited_on(shell) == [[SLOW], [SLOW]], "both others wait for it alone")
    said = shell.asked("timeline", "--last", "20").stdout.splitlines()
    assert said[-1].startswith(f"rank {SLOW} on node-1 has done nothing since ")
    assert "; ranks 0, 2 wait in all_reduce #" in said[-1]
    lines = {line.split()[1]: line for line in said if line.startswith("rank ")}
    assert lines["0"].rstrip()[-1] == lines["2"].rstrip()[-1] == "░"
    os.kill(pid, signal.SIGCONT)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.warm
def test_a_run_that_has_ended_is_drawn_of_its_traces(shell: Shell) -> None:
    shell.script("train.py", ENDS)
    assert shell.holdfast("run", "-n", "3", "train.py").returncode == 0
    told = shell.asked("heatmap", "--json")
    assert "does not run now: of " in told.stderr
    rows = {row["rank"]: row["spent"] for row in json.loads(told.stdout)["ranks"]}
    assert rows[SLOW]["own_s"] > 1.3 * rows[0]["own_s"]
    assert rows[SLOW]["waits_s"] < rows[0]["waits_s"]
    assert f"█ rank {SLOW} on node-1: own part of a step takes" in shell.asked("heatmap").stdout
    said = shell.asked("timeline").stdout
    assert {line.split()[1] for line in said.splitlines() if line.startswith("rank ")} == set("012")
    assert "░ waits" in said
    table = shell.asked("ranks", "--json")
    ended = json.loads(table.stdout)["ranks"]
    assert [(row["rank"], row["state"], row["node"]) for row in ended] == [
        (rank, "ended", "node-1") for rank in range(3)
    ]
    assert all(row["step"] > 10 and row["phase"] for row in ended)
    assert "of its last spans" in shell.asked("ranks").stdout
    none = shell.asked("timeline", "nobody")
    assert "there is no job 'nobody'" in none.stderr
    assert none.returncode != 0


@pytest.mark.warm
def test_after_a_run_it_is_said_what_is_not_kept(shell: Shell) -> None:
    shell.script("train.py", "print('over')")
    assert shell.holdfast("run", "-n", "2", "train.py").returncode == 0
    ranks = shell.asked("ranks")
    assert ranks.returncode == 0
    assert (
        "what ranks did at each moment, and for whom they waited, is in no journal." in ranks.stdout
    )
    for words, what in (("heatmap", "has no traces."), ("view3d", "is in no journal.")):
        told = shell.asked(words)
        assert told.returncode != 0
        assert what in told.stderr
        assert len(told.stderr.splitlines()) <= 2


def test_a_picture_that_cannot_be_made_is_refused_in_a_sentence(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib import util

    from holdfast.cli import pictures

    real = util.find_spec
    monkeypatch.setattr(
        pictures.util, "find_spec", lambda name: None if name == "resvg_py" else real(name)
    )
    with pytest.raises(Exception, match=r"--png needs resvg-py\.") as told:
        pictures.to_file(lambda theme: "<svg/>", None, Path("a.png"), dark=False)
    assert "pip install 'holdfast[png]'" in told.value.fix  # type: ignore[attr-defined]
    monkeypatch.undo()
    with pytest.raises(Exception, match=r"cannot write /no/such/a\.svg"):
        pictures.to_file(lambda theme: "<svg/>", Path("/no/such/a.svg"), None, dark=False)


def test_a_png_is_one(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    from holdfast.bench.page import made as made_ranks
    from holdfast.cli import pictures
    from holdfast.page.draw import heat_svg

    path = tmp_path / "a.png"
    answer = made_ranks.answer(64, slow=[3])
    assert pictures.to_file(
        lambda theme: heat_svg.drawn(answer, theme=theme), None, path, dark=True
    )
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_of_thousands_of_ranks_the_one_that_is_slow_is_seen_in_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from holdfast.bench.page import made as made_ranks
    from holdfast.cli import picture_text

    picture_text.heatmap(made_ranks.answer(12_288, slow=[5_000]))
    said = capsys.readouterr().out
    field = [line for line in said.splitlines() if line and set(line) <= set(picture_text.SHADES)]
    assert 10 < len(field) <= picture_text.MOST_LINES
    assert max(map(len, field)) <= picture_text.MOST_COLUMNS
    assert "".join(field).count("█") == 1
    assert "█ rank 5000 on node-625: " in said
    picture_text.timeline(made_ranks.spans(16, stopped=5), None)
    assert (
        "rank 5 on node-0 has done nothing since 12.0 s; 15 ranks wait in all_reduce"
        in capsys.readouterr().out
    )
    picture_text.view3d(made_ranks.view3d(4, 4, 2, stopped=13), 3)
    said = capsys.readouterr().out
    assert "rank 3 waits for rank 12 waits for rank 13" in said
    assert said.count("█") == 2  # one is the legend's


@pytest.mark.parametrize("alive", [True, False])
def test_the_heat_map_of_an_incident_is_made_of_its_traces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], alive: bool
) -> None:
    from holdfast.cli import asking, pictures

    class Asked:
        def job(self, name: str) -> dict[str, Any]:
            return {"name": name}

        def spans(self, job: str, *, last_s: float, incident: int | None) -> dict[str, Any]:
            assert (job, incident) == ("speech", 3)
            fields = {"node": "node-1", "kind": "step", "step": 1, "start_s": 1.0}
            spans = [{"rank": rank, **fields, "took_s": 1.0 + rank} for rank in range(2)]
            return {"job": job, "from_s": 0.0, "to_s": 5.0, "spans": spans}

    monkeypatch.setattr(asking, "source", lambda *_: (Asked(), alive))
    pictures.heatmap("speech", incident=3, json=True)
    told = json.loads(capsys.readouterr().out)
    assert [row["spent"]["own_s"] for row in told["ranks"]] == [1.0, 2.0]
