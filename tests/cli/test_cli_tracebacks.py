"""An exception is shown once and whole, whatever its form, and nothing else is held back."""

import json
import operator
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from shells import Shell

from holdfast.cli.run.merge import SAME_LINE_S, Merge
from holdfast.cli.run.tails import Output
from holdfast.cli.run.tracebacks import Once, uncaught
from holdfast.protocol.paths import RunPaths

pytestmark = pytest.mark.warm

RAISE = {
    "lines": "raise RuntimeError('a\\n  b\\n\\nc')",
    "chain": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
    "group": "raise ExceptionGroup('two', [ValueError('x'), TypeError('y\\n  z')])",
    "syntax": "compile('a b', 'other.py', 'exec')",
}
HOOKED = "import sys\nfrom holdfast.telemetry import errors\nerrors.install()\n"


def raised(folder: Path, code: str) -> bytes:
    """What Python prints of it; its error file is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "script.py"
    script.write_text(HOOKED + code)
    environment = {"TORCHELASTIC_ERROR_FILE": str(folder / "error.json")}
    ended = subprocess.run([sys.executable, script], env=environment, capture_output=True)
    return ended.stderr


def marked(text: bytes, rank: int) -> bytes:
    """As torch prints it."""
    return b"\n".join(b"[rank%d]: %s" % (rank, s) if s else b"" for s in text.split(b"\n"))


@pytest.mark.parametrize("code", RAISE.values(), ids=RAISE)
@pytest.mark.parametrize("chunk_bytes", [7, 100_000])
def test_an_exception_of_any_form_is_shown_once_and_whole(
    tmp_path: Path, code: str, chunk_bytes: int
) -> None:
    folders = [tmp_path / f"rank_{rank}" for rank in range(3)]
    text = raised(folders[0], code)
    error = json.loads((folders[0] / "error.json").read_text())
    whole = error["message"]["extraInfo"]["py_callstack"]
    for folder in folders[1:]:
        folder.mkdir()
        (folder / "error.json").write_bytes((folders[0] / "error.json").read_bytes())
    once, shown = Once(), b""
    for folder, all_of_it in zip(folders, (b"before\n" + text, marked(text, 1), text), strict=True):
        for at in range(0, len(all_of_it), chunk_bytes):
            shown += once.take(folder, all_of_it[at : at + chunk_bytes])
    assert shown.decode() == "before\n" + whole
    assert once.ended_in(whole)
    shown += once.take(folders[0], b"after\n")
    assert shown.endswith(b"after\n"), "a process may live on"
    assert not once.ended_in(whole)


def test_what_a_rank_prints_in_its_own_way_is_shown_at_its_end(tmp_path: Path) -> None:
    raised(tmp_path, "raise ValueError('x')")
    once = Once()
    assert once.take(tmp_path, b"oh no: x\n") == b""
    assert once.rest(tmp_path) == b"oh no: x\n"


def test_an_exception_that_is_seen_in_two_parts_the_second_at_the_end_is_whole(
    tmp_path: Path,
) -> None:
    paths, written = RunPaths(tmp_path), {"stdout": b"", "stderr": b""}
    folder = paths.rank("wrong", 1, 0)
    text = raised(folder, RAISE["chain"])
    (folder / "stdout.log").touch()
    take = {name: partial(operator.setitem, written, name) for name in written}
    output = Output(paths, "wrong", 1, **take)
    with (folder / "stderr.log").open("wb", buffering=0) as stderr:
        stderr.write(text[:-7])
        output.show(0.0)
        stderr.write(text[-7:])
    output.end(1.0)
    error = uncaught(folder)
    assert error is not None
    assert written == {"stdout": b"", "stderr": error.text}
    assert output.ended_in(error.text.decode())


@pytest.mark.parametrize("mark", [b"", b"[rank1]: "])
def test_a_rank_that_is_ended_while_it_prints_its_exception_shows_it_once_and_whole(
    tmp_path: Path, mark: bytes
) -> None:
    text = raised(tmp_path, RAISE["chain"])
    error = uncaught(tmp_path)
    assert error is not None
    lines = (marked(text, 1) if mark else text).splitlines(keepends=True)
    for number, line in enumerate(lines):
        for cut in range(len(mark) + (number == 0), len(line)):
            printed = b"before\n" + b"".join(lines[:number]) + line[:cut]
            once = Once()
            shown = once.take(tmp_path, printed) + once.rest(tmp_path)
            assert shown == b"before\n" + error.text
            assert once.ended_in(error.text.decode())
            assert once.take(tmp_path, printed) + once.rest(tmp_path) == b"before\n"


def test_a_traceback_that_ends_no_rank_is_a_line_as_any_other(tmp_path: Path) -> None:
    logged = b"Traceback (most recent call last):\n  File x\nValueError: it goes on\n"
    once = Once()
    assert once.take(tmp_path, logged) + once.take(tmp_path, logged) == logged * 2


def lost_its_peer(folder: Path, port: int) -> bytes:
    """What torch prints in a rank of which a peer has died; its error file is in `folder`."""
    message = f"RuntimeError: [/a/gloo/pair.cc:553] Connection closed by peer: {port}. GLHF!"
    text = f"Traceback (most recent call last):\n  File x\n{message}\n"
    folder.mkdir(parents=True, exist_ok=True)
    told = {"message": message, "extraInfo": {"py_callstack": text}}
    (folder / "error.json").write_text(json.dumps({"message": told}))
    return text.encode()


def test_what_ranks_print_that_only_lost_a_peer_is_one_line_below_the_cause(tmp_path: Path) -> None:
    """Whoever has printed first; the exception that is the cause says whose it is."""
    paths, written = RunPaths(tmp_path), bytearray()
    folders = [paths.rank("speech", 1, rank) for rank in range(4)]
    said = {rank: marked(lost_its_peer(folders[rank], 4000 + rank), rank) for rank in (0, 1, 3)}
    said[2] = raised(folders[2], "raise ValueError('bad batch')")
    output = Output(paths, "speech", 4, stdout=lambda _: None, stderr=written.extend)
    for turn, rank in enumerate((3, 0, 1, 2)):
        (folders[rank] / "stderr.log").write_bytes(said[rank])
        output.show(turn * (SAME_LINE_S + 0.1))
    output.end(9.0)
    *cause, echo = written.decode().splitlines()
    assert cause[0] == "[r2] Traceback (most recent call last):"
    assert cause[-1] == "[r2] ValueError: bad batch"
    assert all(line.startswith("[r2] ") for line in cause)
    assert echo == (
        "[r0, r1, r3] lost a peer: RuntimeError: Connection closed by peer: 4000 "
        f"(whole in {folders[0] / 'stderr.log'})"
    )
    assert output.ended_in("ValueError: bad batch"), "the line below is no news"


def test_each_attempt_tells_of_its_own_ranks_that_lost_a_peer(tmp_path: Path) -> None:
    once = Once()
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        assert once.take(folder, lost_its_peer(folder, 7)) == b""
        assert once.folded([folder]).startswith(b"[r0] lost a peer: ")
        assert once.folded([folder]) == b"", "once"


def test_of_many_ranks_that_lost_a_peer_the_first_are_named(tmp_path: Path) -> None:
    once, folders = Once(), [tmp_path / f"rank_{rank}" for rank in range(11)]
    for folder in folders:
        once.take(folder, lost_its_peer(folder, 7))
    assert once.folded(folders).startswith(b"[r0, r1, r2, r3, r4, r5, r6, r7, \xe2\x80\xa6] lost")


def test_the_exception_of_the_only_rank_needs_no_name(tmp_path: Path) -> None:
    paths, written = RunPaths(tmp_path), bytearray()
    text = raised(paths.rank("speech", 1, 0), "raise ValueError('bad batch')")
    (paths.rank("speech", 1, 0) / "stderr.log").write_bytes(text)
    output = Output(paths, "speech", 1, stdout=lambda _: None, stderr=written.extend)
    output.show(0.0)
    output.end(1.0)
    assert written.startswith(b"Traceback ")


def test_attempts_that_are_over_before_anybody_looks_are_shown_in_order(tmp_path: Path) -> None:
    paths, written = RunPaths(tmp_path), bytearray()
    output = Output(paths, "quick", 1, stdout=written.extend, stderr=lambda _: None)
    output.show(0.0)
    for attempt in (1, 2, 10):
        folder = paths.rank("quick", attempt, 0)
        folder.mkdir(parents=True)
        (folder / "stdout.log").write_text(f"attempt {attempt}\n")
    output.end(1.0)
    assert written.decode() == "attempt 1\nattempt 2\nattempt 10\n"


def test_ends_of_lines_are_the_scripts_own() -> None:
    merge = Merge(2)
    for rank in range(2):
        merge.add(rank, b"dos %d\r\n" % rank, 0.0)
    assert merge.take(SAME_LINE_S + 0.1) == b"[r0] dos 0\r\n[r1] dos 1\r\n"


@pytest.mark.cluster
def test_a_run_shows_an_exception_of_several_lines_once_over_all_attempts(shell: Shell) -> None:
    shell.script("wrong.py", "raise RuntimeError('a\\n  b\\nc')\n")
    ended = shell.holdfast("run", "-n", "3", "--max-restarts", "1", "wrong.py")
    others = [line for line in ended.stderr.splitlines() if not line.startswith("holdfast  ")]
    rank = others[0][:5]
    assert rank in ("[r0] ", "[r1] ", "[r2] ")
    assert others[0] == f"{rank}Traceback (most recent call last):"
    assert others[-3:] == [f"{rank}RuntimeError: a", f"{rank}  b", f"{rank}c"]
    assert ended.stderr.count("Traceback") == 1


def test_an_exception_that_says_nothing_is_told_by_its_name(tmp_path: Path) -> None:
    raised(tmp_path, "raise MemoryError")
    error = json.loads((tmp_path / "error.json").read_text())
    assert error["message"]["message"] == "MemoryError"


@pytest.mark.parametrize("code", ["prnt('x')", "import sys\nsys.exitt"], ids=["name", "attribute"])
def test_what_python_adds_as_a_hint_is_no_other_exception(tmp_path: Path, code: str) -> None:
    folder = tmp_path / "rank_0"
    text = raised(folder, code)
    once = Once()
    shown = once.take(folder, text)
    assert shown == text
    told = json.loads((folder / "error.json").read_text())["message"]["extraInfo"]["py_callstack"]
    assert once.ended_in(told), "it is not told a second time"
