"""Commands say so where the driver can write nothing down: what it tells may be old then."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from namespaces import own_mounts
from running_driver import DriverProcess
from shells import HOLDFAST, Shell
from waiting import eventually

from holdfast.cli.main import main
from holdfast.protocol import exitcodes

WHY = "the disk under /state is full: no new work is accepted, running jobs go on."

FULL = f"""
import sys
from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.main import main


SqlJournal.shortage = lambda self: {WHY!r}
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    driver = DriverProcess(tmp_path / "state")
    driver.program = ("-c", FULL)
    driver.spawn()
    try:
        eventually(driver.paths.address.exists, "the driver answers")
        yield driver.paths.root
    finally:
        driver.end()


def test_who_asks_a_driver_whose_disk_is_full_is_told(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ("jobs", "jobs --json", "nodes"):
        assert main([*words.split(), "--state", str(state)]) == exitcodes.OK
        said = capsys.readouterr()
        assert said.err == f"holdfast: {WHY}\n"
        assert WHY not in said.out
    job = tmp_path / "job.yaml"
    job.write_text("metadata: {name: a}\nspec: {nodes: 1, command: ['true']}\n")
    assert main(["submit", str(job), "--state", str(state)]) == exitcodes.TRY_AGAIN
    assert capsys.readouterr().err.count(WHY) == 1


@pytest.mark.cluster
def test_a_run_whose_disk_is_full_does_not_say_that_anything_goes_on(shell: Shell) -> None:
    disk = shell.folder / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=24m none {disk} && {shlex.join(HOLDFAST)} run --runs disk"
    ended = subprocess.run(
        [*own_mounts(), "sh", "-c", f"{mount} -- true; code=$?; ls disk; exit $code"],
        cwd=shell.folder,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == exitcodes.TRY_AGAIN, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert "is full: this run was not begun. Free at least 32 MiB there." in line
    assert ended.stdout == "", "a run that never began leaves nothing"
