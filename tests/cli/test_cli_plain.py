"""Whatever an exception says, our own lines have no signs that a terminal obeys."""

import re
import sys

import pytest
from shells import Shell

from holdfast.cli.main import main
from holdfast.cli.output import table, toned

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
RAISES = r"""
print("\x1b[32mits own\x1b[0m", flush=True)
raise ValueError("\x1b[31mred\x1b[0m \x07 \x9b1m nul\0 and\nmore \x1b]0;a title\x07")
"""
SAID = r"ValueError: \x1b[31mred\x1b[0m \x07 \x9b1m nul\x00 and"


@pytest.mark.cluster
@pytest.mark.warm
def test_an_exception_with_escape_sequences_is_quoted_with_them_written_out(shell: Shell) -> None:
    shell.script("raises.py", RAISES)
    ended = shell.holdfast("run", "--max-restarts", "1", "raises.py")
    assert "\x1b[32mits own\x1b[0m\n" in ended.stdout
    ours = [line for line in ended.stderr.split("\n") if line.startswith("holdfast  ")]
    first, spent, last = ours[1:]
    assert all(rf"{SAID} more \x1b]0;a title\x07" in line for line in (first, last))
    assert spent.startswith("holdfast  time: ")
    assert not CONTROLS.search("".join(ours))
    for asked in (["why"], ["story"], ["status"], ["jobs"], ["nodes"]):
        told = shell.asked(*asked)
        assert not CONTROLS.search(told.stdout + told.stderr), asked
    assert SAID in shell.asked("why").stdout


@pytest.mark.cluster
@pytest.mark.warm
def test_a_program_that_is_no_text_is_named_without_its_bytes(shell: Shell) -> None:
    (shell.folder / "binary.py").write_bytes(b"\x7fELF\2\1\1" + 300 * b"\x1b[7m" + b"\0\0")
    ended = shell.holdfast("run", "binary.py")
    assert ended.returncode == 1
    assert r"\x7fELF\x02\x01\x01\x1b[7m" in ended.stderr
    assert not CONTROLS.search(ended.stderr)


def test_a_word_that_cannot_be_read_is_repeated_with_them_written_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["run", "\x1b[31mno.py"])
    said = capsys.readouterr().err
    assert r"\x1b[31mno.py" in said
    assert not CONTROLS.search(said)


def test_a_cell_of_a_table_is_no_mark_up(capsys: pytest.CaptureFixture[str]) -> None:
    table(("node", "state", "why"), [("node-1", toned("free"), "[red]no\x1b[7m [/] cable [/blue]")])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == r"node-1  free   [red]no\x1b[7m [/] cable [/blue]"
    assert not sys.stdout.isatty()
