"""Small pure parts of the command line: words, event streams, what a run says of itself."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import sse, status
from holdfast.cli.errors import Stopped
from holdfast.cli.nodes import _struck
from holdfast.cli.run import narrate, options
from holdfast.page.words import counted, duration, ranks, sparkline
from holdfast.protocol.counts import plural


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (0.41, "0.4 s"),
        (42, "42 s"),
        (1080, "18 min"),
        (12_000, "3 h 20 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_things_are_counted_in_the_right_number() -> None:
    assert [plural(n, "fault") for n in (0, 1, 2000)] == ["0 faults", "1 fault", "2,000 faults"]


def test_a_sparkline_spans_its_own_range() -> None:
    assert sparkline([1, 2, 3]) == "▁▅█"
    assert sparkline([2, 2]) == "▁▁"
    assert sparkline([]) == ""
    assert len(sparkline([float(n) for n in range(100)], width=10)) == 10


def test_events_are_found_however_the_bytes_are_cut() -> None:
    text = (
        b': hello\n\nid: 1\nevent: A\ndata: {"sequence": 1}\n\n: alive\n\ndata: {"a":\ndata: 2}\n\n'
    )
    for size in range(1, len(text)):
        pieces = [text[begin : begin + size] for begin in range(0, len(text), size)]
        assert list(sse.events(pieces)) == [{"sequence": 1}, {"a": 2}]


INCIDENT: dict[str, Any] = {
    "number": 1,
    "kind": "rank-crashed",
    "faults": 1,
    "summary": "rank 2 on node-1 died of SIGSEGV",
    "rung": 1,
    "blame": "unknown",
    "evidence": [{"source": "executor of node-1", "text": "rank 2 on node-1 died of SIGSEGV"}],
    "open": True,
    "recovered_s": None,
    "down_s": None,
    "step": 121,
    "steps_lost": 0,
    "stages_s": {},
}
BACK = {
    **INCIDENT,
    "open": False,
    "recovered_s": 0.41,
    "down_s": 0.41,
    "stages_s": {"stop": 0.05, "step": 0.36},
}
JOB: dict[str, Any] = {
    "phase": "Succeeded",
    "step": 2000,
    "age_s": 1080,
    "ranks": 4,
    "failure": None,
    "why": "",
    "restarts": {"user": {"used": 0, "allowed": 3}},
}


def test_a_run_says_each_fault_and_each_recovery_once() -> None:
    said: list[str] = []
    narrator = narrate.Narrator(said.append, ranks=4)
    for seen in ([INCIDENT], [INCIDENT], [BACK], [BACK]):
        narrator.incidents(seen)
    narrator.end(JOB, [BACK])
    assert said == [
        "holdfast  rank 2 on node-1 died of SIGSEGV; restarting 4 ranks",
        "holdfast  back at step 121 after 0.4 s, nothing lost   (stop 0.05 · step 0.36)",
        "holdfast  done: 2,000 steps seen, 1 fault, 0.4 s lost of 18 min",
    ]


def test_who_began_again_is_not_told_to_be_back_as_if_nothing_was_repeated() -> None:
    again = {**BACK, "step": 0, "steps_lost": 37, "down_s": 42.0, "stages_s": {}}
    told = "back after 42 s; it began again from the beginning, at least 37 steps redone"
    assert narrate.back(again) == told
    assert narrate.summary(JOB, [again]) == "done: 2,000 steps seen, 1 fault, 42 s lost of 18 min"


def test_where_nobody_saw_from_where_a_script_went_on_the_loss_is_a_least() -> None:
    unseen = {**BACK, "step": None, "steps_lost": 20, "down_s": 2.0, "stages_s": {}}
    assert narrate.back(unseen) == "back after 2.0 s, at least 20 steps redone"
    assert narrate.back({**unseen, "steps_lost": 0}) == "back after 2.0 s"
    assert ", at least 20 steps done again in that time" in status._lost(JOB, [unseen])[0]


def test_a_driver_that_was_started_again_is_told_once_each_time_and_at_the_end() -> None:
    said: list[str] = []
    narrator = narrate.Narrator(said.append, ranks=4)
    for restarts in (0, 1, 1):
        narrator.driver(restarts)
    narrator.end(JOB, [])
    assert said == [
        "holdfast  the driver ended unasked and was started again; the ranks run on meanwhile",
        "holdfast  done: 2,000 steps seen, no fault, 18 min, driver restarted once",
    ]


def test_ranks_that_ran_on_after_sigterm_are_named_at_the_end_of_a_run() -> None:
    how = "ranks 0, 1 were killed, for they ran on 2 s after SIGTERM"
    stopped = {**JOB, "phase": "Stopped", "name": "speech", "why": f"speech is stopped: {how}"}
    said = f"stopped: {how}. (2,000 steps seen, no fault, 18 min)"
    assert narrate.summary(stopped, []) == said


def test_a_later_fault_of_an_incident_is_told_by_its_own_summary() -> None:
    said: list[str] = []
    narrator = narrate.Narrator(said.append, ranks=4)
    narrator.incidents([INCIDENT])
    narrator.incidents([{**INCIDENT, "faults": 2, "latest": "rank 2 on node-1 holds the job up"}])
    assert said[1] == "holdfast  rank 2 on node-1 holds the job up; restarting 4 ranks"


def test_a_standstill_is_told_with_what_was_done_about_it_and_not_before() -> None:
    """While its stacks are taken nothing is chosen yet: it may go on by itself."""
    said: list[str] = []
    narrator = narrate.Narrator(said.append, ranks=4)
    runs = {**JOB, "phase": "Running"}
    looked_at = {**INCIDENT, "kind": "hang", "summary": "rank 2 is stuck", "rung": 0}
    narrator.incidents([{**looked_at, "hypotheses": []}], runs)
    assert said == []
    judged = [{"act": "restart", "chosen": True}]
    narrator.incidents([{**looked_at, "hypotheses": judged}], {**runs, "phase": "Suspending"})
    again = {**looked_at, "faults": 2, "latest": "rank 2 is stuck again"}
    narrator.incidents([{**again, "hypotheses": []}], runs)
    assert said == ["holdfast  rank 2 is stuck; restarting 4 ranks"]
    narrator.incidents([{**again, "hypotheses": [], "open": False}], runs)
    assert said[1:] == ["holdfast  rank 2 is stuck again"]


def test_what_is_done_is_what_was_chosen_and_not_the_highest_rung_so_far() -> None:
    for act, done in (("move-cold", "; another node is to take over"), ("give-up", "")):
        judged = {**INCIDENT, "rung": 3, "hypotheses": [{"act": act, "chosen": True}]}
        assert narrate.then(judged, 4, None) == done
    nothing = {**INCIDENT, "rung": 3, "hypotheses": [{"act": None, "chosen": False}]}
    assert narrate.then(nothing, 4, None) == "; restarting 4 ranks"
    assert narrate.then({**INCIDENT, "rung": 3}, 4, None) == "; testing the suspects"


def test_each_restart_that_the_users_budget_pays_for_is_counted() -> None:
    """Whoever is blamed: where a job has one node, a few deaths are all that it has."""
    said: list[str] = []
    narrator = narrate.Narrator(said.append, ranks=4)
    for number, used in ((1, 0), (2, 1), (3, 1)):
        job = {**JOB, "restarts": {"user": {"used": used, "allowed": 3}}}
        narrator.incidents([{**INCIDENT, "number": number}], job)
    assert [line.partition("ranks")[2] for line in said] == ["", " (restart 1 of 3)", ""]


def test_a_restart_that_was_first_seen_after_the_job_had_ended_is_told_all_the_same() -> None:
    """The ranks may run to their end before a slow reader looks again."""
    said: list[str] = []
    narrator = narrate.Narrator(said.append, ranks=4)
    ended = {**JOB, "restarts": {"user": {"used": 1, "allowed": 3}}}
    judged = [{"act": "restart", "chosen": True}]
    closed = {**INCIDENT, "open": False, "blame": "user", "hypotheses": judged}
    narrator.incidents([closed, {**closed, "number": 2, "faults": 0, "summary": "told"}], ended)
    assert said == [
        "holdfast  rank 2 on node-1 died of SIGSEGV; restarting 4 ranks (restart 1 of 3)",
        "holdfast  told",
    ]
    assert narrate.then(closed, 4, {**ended, "phase": "Failed"}) == ""


def test_who_was_not_back_when_the_next_fault_came_is_not_told_to_be_back() -> None:
    said: list[str] = []
    narrator = narrate.Narrator(said.append, ranks=4)
    narrator.incidents([INCIDENT])
    second = {**INCIDENT, "number": 2, "summary": "rank 0 on node-1 holds the job up"}
    narrator.incidents([{**BACK, "overtaken": True}, second])
    assert said[1:] == [
        "holdfast  not back yet after 0.4 s, when the next fault came",
        "holdfast  rank 0 on node-1 holds the job up; restarting 4 ranks",
    ]


@pytest.mark.parametrize(
    ("attempt", "told"), [(1, ""), (2, " in the last attempt")], ids=["the only one", "the second"]
)
def test_steps_without_numbers_are_told_as_those_of_an_optimizer(attempt: int, told: str) -> None:
    job = {**JOB, "step": 600, "step_relative": True, "attempt": attempt}
    assert narrate.summary(job, []) == f"done: 600 optimizer steps seen{told}, no fault, 18 min"


def test_what_we_say_is_one_line_also_where_an_exception_has_several() -> None:
    said: list[str] = []
    summary = "rank 1 on node-1 raised RuntimeError: a\n  b\nc"
    narrator = narrate.Narrator(said.append, ranks=4)
    failed = {**JOB, "phase": "Failed", "failure": {"traceback": "", "reason": summary + "."}}
    narrator.incidents([{**INCIDENT, "summary": summary}], failed)
    assert said == [], "the last line says it"
    narrator.incidents([{**INCIDENT, "number": 2, "summary": summary, "evidence": []}])
    narrator.end(failed, [])
    assert said[0].startswith("holdfast  rank 1 on node-1 raised RuntimeError: a b c; restarting")
    assert said[1].startswith("holdfast  failed: rank 1 on node-1 raised RuntimeError: a b c. (")


def test_a_mistake_of_the_users_says_which_of_its_restarts_this_is() -> None:
    said: list[str] = []
    narrator = narrate.Narrator(said.append, ranks=4)
    restarts = {"user": {"used": 1, "allowed": 3}}
    narrator.incidents([{**INCIDENT, "blame": "user"}], {**JOB, "restarts": restarts})
    assert said[0].endswith("; restarting 4 ranks (restart 1 of 3)")


def test_where_nobody_knows_the_step_a_recovery_names_none() -> None:
    told = narrate.back({**BACK, "step": None, "steps_lost": None})
    said = "; its script began again, and repeats what it had not saved"
    assert told == f"back after 0.4 s{said}   (stop 0.05 · step 0.36)"


def test_what_a_script_repeats_is_not_left_out_of_what_was_lost() -> None:
    told = narrate.summary(JOB, [{**BACK, "step": None, "steps_lost": None}])
    assert told.endswith("0.4 s and what its script repeated lost of 18 min")


@pytest.mark.parametrize(
    ("step", "redone", "least"),
    [(None, 0, True), (None, 5, True), (0, 100, False), (121, 5, False)],
)
def test_where_a_script_goes_on_from_is_not_seen_so_the_loss_is_a_bound(
    step: int | None, redone: int, least: bool
) -> None:
    told = narrate.summary(JOB, [{**BACK, "step": step, "steps_lost": redone}])
    assert told.endswith(", at least 0.4 s lost of 18 min") is least


def test_status_names_the_last_fault_and_not_what_went_on_by_itself_since() -> None:
    calm = {
        **BACK,
        "kind": "goes-on",
        "faults": 0,
        "summary": "a goes on by itself",
        "stages_s": {},
    }
    shown = "\n".join(status._lost(JOB, [BACK, calm]))
    assert "\nlast    rank 2 on node-1 died of SIGSEGV" in shown
    assert "goes on by itself" not in shown
    told = status._lost(JOB, [{**calm, "down_s": None}])
    assert told == ["lost    nothing: no fault", "told    a goes on by itself"]


def test_status_names_the_last_fault_that_joined_an_incident() -> None:
    shown = "\n".join(status._lost(JOB, [{**BACK, "latest": "rank 0 on node-0 stood still"}]))
    assert "last    rank 0 on node-0 stood still" in shown


def test_status_tells_a_job_that_does_lost_steps_again_from_one_that_is_down() -> None:
    hit = {**INCIDENT, "stages_s": {"stop": 0.05, "fork": 0.2}}
    for phase, told in (("Running", "not yet as far as it was"), ("Suspending", "not back yet")):
        shown = status._lost({**JOB, "phase": phase}, [hit])
        assert shown[0] == "lost    not known yet: 1 fault"
        assert shown[1] == f"last    {INCIDENT['summary']}, {told}"
    ended = status._lost({**JOB, "phase": "Failed"}, [hit])
    assert ended[0] == "lost    not known, for it has not trained since: 1 fault"
    back = {**BACK, "steps_lost": 20, "down_s": 61.0}
    assert status._lost(JOB, [back])[0].startswith("lost    61 s to 1 fault, 20 steps done again")


def test_a_failure_of_the_users_is_shown_whole_before_our_own_words() -> None:
    said: list[str] = []
    failure = {"traceback": "Traceback…\nValueError: x\n", "reason": "rank 1 raised ValueError: x."}
    narrate.Narrator(said.append, ranks=4).end({**JOB, "phase": "Failed", "failure": failure}, [])
    assert said[0] == "Traceback…\nValueError: x"
    assert said[1].startswith("holdfast  failed: rank 1 raised ValueError: x. (")


def test_a_script_a_module_and_a_program_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.touch()
    binary = tmp_path / "binary"
    binary.write_text("#!/bin/sh\n")
    python = options.sys.executable
    assert options.command_of(["train.py", "--lr", "1"]) == (python, "train.py", "--lr", "1")
    assert options.command_of(["json.tool", "x"], module=True) == (python, "-m", "json.tool", "x")
    assert options.command_of(["sh", "-c", "x"]) == ("sh", "-c", "x")
    with pytest.raises(Stopped, match="not executable"):
        options.command_of(["./binary"])
    binary.chmod(0o755)
    assert options.command_of(["./binary"]) == ("./binary",)
    for words in ([], ["nowhere.py"], ["no-such-program"], ["python3", "nowhere.py"]):
        with pytest.raises(Stopped) as stopped:
            options.command_of(words)
        assert stopped.value.code == 2


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ((options.sys.executable, "src/Train_GPT.v2.py", "--lr"), "train-gpt-v2-"),
        ((options.sys.executable, "-m", "pkg.train"), "train-"),
        (("./7zip",), "run-7zip-"),
        (("sh", "-c", "x"), "sh-"),
    ],
)
def test_a_run_has_a_name_that_a_job_may_have(
    tmp_path: Path, command: tuple[str, ...], name: str
) -> None:
    asked = options.Options(command=command, ranks=1, runs=tmp_path)
    runs = {options.new_run(asked).root for _ in range(3)}
    assert len(runs) == 3
    assert all(run.is_dir() and run.name.startswith(name) for run in runs)


def test_what_the_user_has_set_is_not_set_again() -> None:
    asked = options.Options(command=("x",), ranks=2)
    spec = options.job_of(asked, "x", {"OMP_NUM_THREADS": "4"})["spec"]
    assert spec["env"] == {"PYTHONUNBUFFERED": "1"}
    assert options.job_of(asked, "x", {})["spec"]["env"]["OMP_NUM_THREADS"] == "1"


def test_a_node_that_a_person_evicts_is_a_request_and_no_fault() -> None:
    fault, request = {"kind": "hang", "faults": 2}, {"kind": "requested", "faults": 1}
    assert counted([fault]) == "2 faults"
    assert counted([request]) == "1 request"
    assert counted([fault, request]) == "2 faults and 1 request"
    assert counted([]) == ""


def test_the_last_line_of_a_run_counts_no_request_as_a_fault() -> None:
    asked = {**BACK, "kind": "requested"}
    assert narrate.summary({**JOB, "step": None, "age_s": 9}, []) == "done: no fault, 9.0 s"
    said = (
        "done: no step seen, as without an optimizer of torch or telemetry.step(), no fault, 18 min"
    )
    assert narrate.summary({**JOB, "step": None}, []) == said
    assert "1 request, 0.4 s lost" in narrate.summary(JOB, [asked])
    assert "1 fault and 1 request" in narrate.summary(JOB, [{**BACK, "kind": "hang"}, asked])


def test_what_is_only_reported_is_said_and_is_no_fault() -> None:
    said: list[str] = []
    narrator = narrate.Narrator(said.append, ranks=4)
    text = "checkpoints of speech do not reach their store: it is full"
    report = {**BACK, "kind": "store-failed", "faults": 0, "summary": text, "rung": 0}
    report |= {"recovered_s": None, "down_s": None, "evidence": []}
    narrator.incidents([report])
    narrator.incidents([report])
    narrator.end(JOB, [report])
    assert said == [f"holdfast  {text}", "holdfast  done: 2,000 steps seen, no fault, 18 min"]


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([], ""), ([0], "rank 0"), ([4, 5, 6, 7], "ranks 4-7"), ([0, 2, 3], "ranks 0, 2-3")],
)
def test_ranks_of_a_node_are_no_bare_numbers(numbers: list[int], said: str) -> None:
    assert ranks(numbers) == said


def test_a_node_with_strikes_says_where_they_are_told() -> None:
    assert _struck({"strikes": 1, "name": "node-2"}) == "1 strike lately: holdfast why node-2"
    assert _struck({"strikes": 0, "name": "node-2"}) == ""


def test_the_summary_says_where_faults_come_from_and_how_sure_that_is() -> None:
    gpu = {**BACK, "kind": "rank-crashed", "origin": "gpu", "sure": "sure"}
    assert counted([gpu]) == "1 fault (GPU)"
    unsure = {**gpu, "origin": "", "sure": "not sure"}
    assert counted([gpu, unsure, unsure]) == "3 faults (1 GPU, 2 not sure)"


def test_the_summary_names_who_held_the_others_up() -> None:
    said = "rank 1 on node-2 holds its peers up: its own part of a step takes 1.9 times as long"
    slow = {**BACK, "kind": "slow", "faults": 0, "down_s": None, "summary": said}
    assert narrate.summary(JOB, [slow]) == f"done: 2,000 steps seen, no fault, 18 min, {said}"
