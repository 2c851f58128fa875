"""What a newcomer types wrong is told in one sentence, with what to do about it."""

import json
import os
from pathlib import Path

import pytest
from shells import Shell

from holdfast.cli.client import Problem
from holdfast.cli.main import main
from holdfast.driver.people import access
from holdfast.page.words import outcome
from holdfast.protocol import exitcodes

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jbs"], "holdfast: no such command 'jbs'. Did you mean 'jobs'?"),
        (["zzzz"], "holdfast: no such command 'zzzz'.  See: holdfast --help"),
        (["jobs", "--bonus"], "holdfast: no such option: --bonus.  See: holdfast jobs --help"),
        (["jobs", "--stat"], "holdfast: no such option: --stat. Did you mean --state?  See: hold"),
        (["jobs", "--nope"], "holdfast: no such option: --nope"),
        (["stop"], "holdfast: missing argument 'JOB'.  See: holdfast stop --help"),
        (["run", "-n", "many", "x.py"], "holdfast: -n: 'many' is no number."),
        (["run", "--store-url", "", "x.py"], "holdfast: --store-url: it is empty."),
        (["run", "--lr", "3", "x.py"], "holdfast: holdfast run has no option '--lr'.  Options of"),
        (
            ["run", "--first-step", "0", "x.py"],
            "holdfast: --first-step: '0' is not between 1 and 86400.  Give a number from 1 to "
            "86400. See: holdfast run --help",
        ),
        (
            ["run", "--pause_max", "x", "x.py"],
            "holdfast: --pause_max: 'x' is no number.  Give a number from 1 to 86400. See: holdf",
        ),
        (
            ["runs", "prune", "--keep", "x"],
            "holdfast: --keep: 'x' is no whole number.  Give a whole number, 0 or more. See: hold",
        ),
        (
            ["demo", "--cluster", "x"],
            "holdfast: --cluster: 'x' is not one of 'local', 'kubernetes'.  See: holdfast demo --",
        ),
        (["logs", "-r-1"], "holdfast: -r: '-1' is less than 0.  Give a number, 0 or more. See:"),
        (["runs", "--runs", "no"], "holdfast: --runs: 'no' is not there.  Name the folder that"),
        (["runs", "--runs", "x.py"], "holdfast: --runs: 'x.py' is no folder.  Name the folder t"),
        (
            ["run", "--stuck-max", "700", "x.py"],
            "holdfast: --stuck-max 700 is longer than --pause-max 600: a rank that works would "
            "have less time than one of which nothing moves.  Raise --pause-max as well.",
        ),
        (
            ["run", "--stuck-max", "nan", "x.py"],
            "holdfast: --stuck-max: 'nan' is not between 1 and 86400.",
        ),
        (
            ["run", "--keep-every", "7", "x.py"],
            "holdfast: --keep-every 7 is no multiple of --store-every 50: not each such step is "
            "written.  Give a multiple of 50.",
        ),
        (
            ["run", "--grace", "nan", "x.py"],
            "holdfast: --grace: 'nan' is not between 0 and 3600.  Give a number from 0 to 3600.",
        ),
        (["run", "--grace", "inf", "x.py"], "holdfast: --grace: 'inf' is not between 0 and"),
        (["checkpoint", "ls", "n" * 300], f"holdfast: '{'n' * 300}': File name too long."),
        (["run", f"{'n' * 300}.py"], f"holdfast: there is no script '{'n' * 300}.py' in "),
        (["run", "n" * 300], f"holdfast: '{'n' * 300}' is neither a script nor a program here."),
        (["run", "--nodes", "1000000", "x.py"], "holdfast: 1000000 nodes are too many for this"),
        (["submit", "--key", "\udcff", "x.py"], "holdfast: --key: '\\udcff' is not of ASCII"),
        (["submit", "--key", "é", "x.py"], "holdfast: --key: 'é' is not of ASCII characters"),
        (["jobs", "--name", "a\udcff"], "holdfast: --name: 'a\\udcff' is not UTF-8."),
        *[
            ([command, name], f"holdfast: {metavar}: {said}")
            for name, said in (("", "it is empty."), ("a\udcffb", "'a\\udcffb' is not UTF-8."))
            for command, metavar in (
                *(
                    (each, "JOB")
                    for each in ("status", "story", "logs", "stop", "delete", "resume")
                ),
                ("why", "NODE|JOB"),
            )
        ],
        (["evict", "", "--reason", "x"], "holdfast: NODE: it is empty."),
        (["evict", "\udcff", "--reason", "x"], "holdfast: NODE: '\\udcff' is not UTF-8."),
        *[
            ([*words, "--reason", "a\udcff"], "holdfast: --reason: 'a\\udcff' is not UTF-8.")
            for words in (
                ["evict", "node-1"],
                ["restore", "node-1"],
                ["nodes", "maintain", "node-1"],
                ["brake", "apply"],
                ["brake", "release"],
            )
        ],
        (["evict", "node-1", "--reason", ""], "holdfast: --reason: it is empty."),
        (["run", "b\udcff.py"], "holdfast: 'b\\xff.py' is not UTF-8.  Rename the file, or leave"),
        (["run", "x.py", "\udcff"], "holdfast: '\\xff' is not UTF-8.  Rename the file, or leave"),
        (["submit", "no.yaml"], "holdfast: cannot read no.yaml: No such file or directory.  Noth"),
    ],
)
def test_words_that_mean_nothing_are_one_sentence_for_people_and_for_machines(
    words: list[str], said: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.py").touch()
    assert main([*words, "--json"] if words[0] != "run" else words) == exitcodes.USAGE
    told = capsys.readouterr()
    (line,) = told.err.splitlines()
    assert line.startswith(said)
    if words[0] != "run":
        assert json.loads(told.out)["error"] in line


def test_an_option_without_its_value_sends_to_the_help_of_its_command(capsys: Capture) -> None:
    assert main(["evict", "node-1", "--reason"]) == exitcodes.USAGE
    said = "holdfast: option '--reason' requires an argument.  See: holdfast evict --help\n"
    assert capsys.readouterr().err == said


def test_more_nodes_than_a_machine_can_bear_are_refused_before_anything_is_made(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    words = ["run", "--nodes", "32", "--standbys", "1", "--", "true"]
    assert main(words) == exitcodes.USAGE
    assert "33 nodes are too many for this machine: at most 32, " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_group_without_a_command_shows_its_help(capsys: Capture) -> None:
    assert main(["chaos"]) == exitcodes.USAGE
    assert "$ holdfast chaos list" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--state file", "state {folder}/file: File exists. Name another folder with --state."),
        ("--state s --listen here", "--listen: give an IP address and a port, e.g. 127.0.0.1:0"),
    ],
)
def test_a_driver_that_cannot_start_says_why_in_a_sentence(
    words: str, said: str, shell: Shell
) -> None:
    shell.script("file", "")
    ended = shell.holdfast("driver", *words.split())
    assert ended.returncode in (exitcodes.USAGE, exitcodes.CONFIGURATION)
    (line,) = ended.stderr.splitlines()
    assert line == "holdfast-driver: " + said.format(folder=shell.folder)


def test_a_wrong_token_is_told_in_words_of_the_command_line() -> None:
    problem = Problem(401, {"detail": "the token is wrong.", "fix": access.SEND})
    assert "Authorization" not in problem.fix
    assert "HOLDFAST_TOKEN" in problem.fix


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("a person wants a suspended; a is suspended", "a is suspended"),
        ("a person wants a stopped", "a person wants a stopped"),
        ("it is so already", "a: it is so already"),
    ],
)
def test_what_came_of_a_request_is_told_without_the_request(why: str, said: str) -> None:
    assert outcome("a", why) == said


@pytest.mark.cluster
def test_a_run_that_is_over_answers_why_and_knows_whose_logs_it_has(shell: Shell) -> None:
    assert shell.holdfast("run", "-q", "--", "true").returncode == 0
    name = shell.run.name
    assert shell.asked("why").stdout.startswith(f"{name} succeeded at ")
    for words, said in (
        (["nobody"], f"holdfast: there is no job 'nobody'.  Jobs that there are: {name}."),
        ([name, "-r", "7"], f"rank 7 of {name} left no such stdout here.  The job had 1 rank."),
    ):
        ended = shell.asked("logs", *words)
        assert (ended.returncode, ended.stdout) == (exitcodes.FAILED, "")
        assert said in ended.stderr
    ended = shell.asked("logs", "--attempt", "9")
    assert (ended.returncode, ended.stdout) == (exitcodes.FAILED, "")
    assert f"--attempt: {name} left no attempt 9 here.  There is only 1." in ended.stderr
    assert name in shell.asked("jobs", "--phase", "succeeded", "--name", "tru*").stdout
    wrong = shell.asked("jobs", "--phase", "succeded", "--label", "x")
    assert wrong.returncode == exitcodes.USAGE, "as a driver that runs would have it"
    first, second, last = wrong.stderr.splitlines()
    assert first.startswith('phase[0]: "Succeded" is not one of the choices.')
    assert (second.split(":")[0], last) == ("label[0]", "holdfast: the query is not right.")


@pytest.mark.cluster
def test_logs_of_a_rank_that_wrote_to_stderr_alone_say_so(shell: Shell) -> None:
    """And a script that is no Python is started once."""
    shell.script("wrong.py", "x = (\n")
    ended = shell.holdfast("run", "wrong.py")
    assert ended.returncode == 1
    assert "No line of the script ran: another restart would not help" in ended.stderr
    assert "restarting" not in ended.stderr
    for words in ([], ["--tail", "3"]):
        logs = shell.asked("logs", *words)
        assert (logs.returncode, logs.stdout) == (0, "")
        assert logs.stderr.endswith("wrote to stderr alone: --stderr shows it\n")
    assert "SyntaxError" in shell.asked("logs", "--stderr").stdout


@pytest.mark.cluster
def test_a_program_that_cannot_be_executed_has_no_logs_to_be_sent_to(shell: Shell) -> None:
    shell.script("bad.sh", "#!/no/such/interpreter\n").chmod(0o755)
    assert shell.holdfast("run", "-n", "2", "--", "./bad.sh").returncode == 126
    why = shell.asked("why").stdout
    assert why.count("could not be executed") == 2, "in the headline, and where it was seen"
    assert "holdfast logs" not in why
