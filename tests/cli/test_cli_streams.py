"""Where output cannot go: a full disk is a sentence, a stream that is closed is /dev/null."""

import subprocess
from pathlib import Path

import pytest
from shells import HOLDFAST, Shell

pytestmark = pytest.mark.cluster


def typed(shell: Shell, words: str, redirected: str) -> subprocess.CompletedProcess[str]:
    command = f"exec {' '.join(HOLDFAST)} {words} {redirected}"
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=shell.folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("words", ["runs", "run -- echo hello", "--help"])
def test_a_full_disk_is_said_in_a_sentence(shell: Shell, words: str) -> None:
    ended = typed(shell, words, ">/dev/full")
    assert ended.returncode == 1
    assert "holdfast: cannot write to /dev/full: No space left on device." in ended.stderr
    assert "Traceback" not in ended.stderr
    assert shell.leftovers() == []


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_run_whose_streams_are_closed_goes_well(shell: Shell, closed: str) -> None:
    ended = typed(shell, "run -- echo hello", closed)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ("" if " >&-" in f" {closed}" else "hello\n")
    (log,) = Path(shell.folder).glob("runs/*/jobs/*/attempt_1/rank_0/stdout.log")
    assert log.read_text() == "hello\n"
    assert shell.leftovers() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run -n -1 a.py", "-n: -1 is not between 1 and 1024."),
        ("run -n 99999999999999999999 a.py", "is not between 1 and 1024."),
        ("run .", "'.' is a folder, not a script.  Name the script in it: ./…"),
        (
            "run tool",
            "'tool' lies in this folder, and programs are looked for in PATH alone.  ",
        ),
        ("run plain", "'plain' is not executable.  chmod +x plain, and type ./plain; or give its"),
        ("run folder.py", "'folder.py' is a folder, not a script."),
    ],
)
def test_what_cannot_be_run_is_named(shell: Shell, words: str, said: str) -> None:
    (shell.folder / "folder.py").mkdir()
    shell.script("plain", "")
    shell.script("tool", "").chmod(0o755)
    ended = typed(shell, words, "")
    assert ended.returncode == 2
    assert said in ended.stderr
