"""The demo's picture at the sizes that people have, over a whole demo of made scenes: it fits, and
what people came to see is in view.
"""

import contextlib
import io
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenario import Expected
from holdfast.lab.demo.picture import brief, closing, newest, picture, sparkline
from holdfast.lab.demo.scene import NodeCell, Scene, Struck, recovery
from holdfast.lab.demo.summary import Summary
from holdfast.lab.demo.view import RESULT_ROWS, LiveView, result

SIZES = [(80, 24), (160, 50)]
KIND = "user namespace, no cpu cgroups (v1: Permission denied; v2: Permission denied)"
FAULT = "node-4 is lost, from outside"
BACK = "training again 2.81 s after the fault; evicted: node-4"
SUMMARY = Summary(
    verdict="passed",
    fault="node-lost",
    nodes=4,
    ranks=8,
    steps=60,
    detected_s=1.31,
    recovered_s=2.81,
    steps_lost=4,
    evicted=["node-4"],
    innocent_evicted=0,
    loss_equal_bitwise=True,
    leftovers=0,
    kind=KIND,
)
LINE = "03:11:02.{}  demo: decision {} on ranks 0, 1, 2, 3, 4, 5 of node-1, node-2, node-3, ended"


def scenes() -> Iterator[Scene]:
    """A demo: starting, training, the fault, the way back, the end, the same left alone."""
    yield Scene(act="starting 4 nodes and 1 standby")
    scene = Scene(act="training", kind=KIND, job="demo", steps=100_000, nodes=cells("starting"))
    yield replace(scene, phase="Starting", lines=told(3))
    training = replace(
        scene, phase="Running", loss=4.7219, tokens_per_s=123_456.0, nodes=cells("held")
    )
    for step in range(0, 100_001, 20_000):
        losses = tuple(float(step) for step in range(step // 1_000))
        training = replace(training, step=step, losses=losses, lines=told(5 + step // 10_000))
        yield training
    hurt = replace(training, act=FAULT, struck=Struck(fault=FAULT))
    for more in range(40):
        lines = told(40 + more)
        struck = Struck(fault=FAULT, recovery=BACK if more > 30 else "", lines=lines[15:])
        phase = "Restoring" if more < 30 else "Running"
        hurt = replace(hurt, struck=struck, lines=lines, phase=phase, waiting="for news " * 30)
        yield hurt
    yield replace(hurt, phase="Succeeded", waiting="", loss=None, nodes=cells("free"))
    alone = replace(scene, act="the same job, left alone", job="left-alone", struck=hurt.struck)
    for more in range(8):
        yield replace(alone, phase="Running", step=more, lines=told(more))


def cells(state: str) -> tuple[NodeCell, ...]:
    made = [("node-1", [0, 1]), ("node-2", [2, 3]), ("node-3", [4, 5]), ("node-4", [6, 7])]
    training = (
        NodeCell(name=name, rack="rack-1", state=state, ranks=ranks, standby=False)
        for name, ranks in made
    )
    return (*training, NodeCell(name="node-5", rack="rack-1", state=state, ranks=[], standby=True))


def told(count: int) -> tuple[str, ...]:
    return tuple(LINE.format(n % 10, n) for n in range(count))


def plain(scene: Scene, columns: int, rows: int) -> list[str]:
    return [line.plain for line in picture(scene, columns, rows)]


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_every_scene_fits_and_its_newest_decision_is_whole(columns: int, rows: int) -> None:
    for scene in scenes():
        shown = plain(scene, columns, rows - 1)
        assert len(shown) < rows, scene
        assert all(cell_len(line) <= columns for line in shown), scene
        if scene.lines:
            last = newest(scene.lines[-1:], columns, rows)
            assert shown[-len(last) :] == last, scene
            assert "".join(last).endswith("ended")


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_the_fault_stays_in_view_and_so_does_what_came_of_it(columns: int, rows: int) -> None:
    struck = [scene for scene in scenes() if scene.struck]
    assert len(struck) > 40
    for scene in struck:
        shown = "\n".join(plain(scene, columns, rows - 1))
        assert f"fault     {FAULT}" in shown
        assert ("recovery  under way" in shown) is not (f"recovery  {BACK}" in shown)
    assert BACK in shown, "over the job that is left alone too"


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_the_last_frame_and_the_result_are_on_one_screen(columns: int, rows: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=columns, height=rows, force_terminal=True, color_system=None)
    *_, last = scenes()
    above = closing(last, columns, rows - RESULT_ROWS - 1)
    console.print(*above, result(SUMMARY), "   logs            /tmp/holdfast-demo-1", sep="\n")
    shown = out.getvalue().splitlines()
    assert len(shown) < rows
    assert all(cell_len(line) <= columns for line in shown)
    for words in (FAULT, BACK, "decision 78", "passed", "2.81 s after the fault"):
        assert any(words in line for line in shown), words


def test_no_line_ends_in_blanks() -> None:
    for scene in scenes():
        shown = plain(scene, 80, 23)
        assert [line.rstrip() for line in shown] == shown


def test_an_evicted_node_is_free_again_because_it_was_restored() -> None:
    *_, last = scenes()
    node = last.nodes[3]
    for state, word in (("quarantined", "quarantined"), ("gone", "gone"), ("free", "restored")):
        back = replace(node, state=state, ranks=[], restored=True)
        assert f"node-4    rack-1    {word}" in plain(replace(last, nodes=(back,)), 80, 23)
    free = replace(last, nodes=(replace(node, state="free", ranks=[]),))
    assert "node-4    rack-1    free" in plain(free, 80, 23)


def test_something_moves_and_says_what_while_nothing_is_there_yet() -> None:
    first, *_ = scenes()
    frames = {plain(replace(first, elapsed_s=tick / 8), 80, 23)[0] for tick in range(72)}
    assert len(frames) == 72, "no two frames of the first nine seconds are equal"
    assert all("starting 4 nodes and 1 standby" in frame for frame in frames)


@pytest.mark.parametrize("stopped", [False, True])
def test_the_live_view_leaves_the_recovery_but_where_it_was_interrupted(stopped: bool) -> None:
    out = io.StringIO()
    *_, last = scenes()
    with (
        contextlib.suppress(KeyboardInterrupt),
        LiveView(Console(file=out, width=80, height=24, force_terminal=True)) as view,
    ):
        view.show(last)
        if stopped:
            raise KeyboardInterrupt
    assert BACK in out.getvalue()
    assert ("decision 78" in out.getvalue()) is not stopped


def test_what_could_not_be_had_is_no_headline() -> None:
    assert brief(KIND) == "user namespace, no cpu cgroups"
    refused = "loopback, link faults are not possible: unshare(0x4): Permission denied"
    assert brief(refused) == "loopback, link faults are not possible"
    for scene in scenes():
        assert "denied" not in "".join(plain(scene, 160, 49))


def test_words_of_a_user_cannot_move_the_cursor_or_be_taken_for_markup() -> None:
    assert newest(["said \x1b[2J[bold]x\r\ny"], 80, 5) == ["said  [2J[bold]x  y"]


def test_the_recovery_is_told_once_the_driver_tells_it() -> None:
    done = Done(said="node-4 is lost", node="node-4", at_s=1_000.0)
    line = {"incident": 1, "at": "1970-01-01T00:16:41.500000+00:00", "seen": False, "verdict": ""}
    incident = {"number": 1, "rung": 2, "found_s": 5.0, "evicted": ["node-4"], "recovered_s": None}
    expected = Expected(may_evict=True)
    assert recovery(done, expected, [], []) == ""
    assert recovery(done, expected, [incident], [line]) == ""
    told = recovery(done, expected, [incident | {"recovered_s": 1.25}], [line])
    assert told == "training again 2.75 s after the fault; evicted: node-4"


def test_a_sparkline_spans_its_own_least_and_most() -> None:
    assert sparkline((3.0, 1.0, 2.0), 2) == "▁█"
    assert sparkline((), 5) == ""
    assert sparkline((2.0, 2.0), 5) == "▁▁"


def test_of_decisions_that_do_not_fit_the_newest_are_shown_whole() -> None:
    eighth, ninth = newest(told(9)[7:8], 80, 5), newest(told(9)[8:], 80, 5)
    assert [len(eighth), len(ninth)] == [2, 2]
    assert ninth[1] == f"{'':12}node-3, ended"
    assert newest(told(9), 80, 5) == [*eighth, *ninth]
    assert newest(told(9), 80, 1) == ninth[:1]
    assert newest(told(9), 80, 0) == []


def test_the_picture_shows_nodes_and_progress_and_what_is_being_started() -> None:
    scene = Scene(act="training", phase="Running", step=5, steps=60, loss=4.5, nodes=cells("held"))
    running = "\n".join(plain(scene, 80, 23))
    for word in ("node-1", "training", "standby", "■ 7", "step 5/60", "loss 4.5000"):
        assert word in running
    starting = "\n".join(plain(replace(scene, phase="Starting"), 80, 23))
    assert "import torch" in starting
    assert "■ 7" in starting
    assert "step" not in starting
