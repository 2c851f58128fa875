"""A journal is read where nothing can be written: on a read-only disk, and on a full one."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from namespaces import own_mounts

from holdfast.driver.adapters.sql.sqlite import open_sqlite, read_only

READ = """
import sys
from pathlib import Path
from holdfast.driver.adapters.sql.sqlite import read_only
reader, missing = read_only(Path(sys.argv[1]) / "journal.sqlite")
print(reader.load()[1])
print(missing)
"""
READ_ONLY = "mount --bind {0} {0} && mount -o remount,bind,ro {0} {0} && exec {1} {2} {0}"
FULL = (
    "mount -t tmpfs -o size=256k none /mnt && cp {0}/* /mnt && "
    "{{ cat /dev/zero > /mnt/filler 2>&-; exec {1} {2} /mnt; }}"
)


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The folder of a driver that was killed: its newest entry is in the log beside."""
    journal, folder = open_sqlite(tmp_path / "journal.sqlite", reserve_bytes=0), tmp_path / "a #1?%"
    journal.close()
    folder.mkdir()
    writer = open_sqlite(tmp_path / "journal.sqlite", reserve_bytes=0)
    writer.take_over()
    for each in tmp_path.glob("journal.sqlite*"):
        if not each.name.endswith("-shm"):
            shutil.copy(each, folder)
    writer.close()
    return folder


def test_a_name_with_marks_of_an_address_is_read_too(left: Path) -> None:
    reader, missing = read_only(left / "journal.sqlite")
    assert reader.load() == (None, 0, 0.0)
    assert missing == ""


def test_a_reader_leaves_the_way_of_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    open_sqlite(path, reserve_bytes=0).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    before = path.read_bytes()
    reader, missing = read_only(path)
    assert reader.load()[1] == 0
    reader.close()
    assert (path.read_bytes(), missing) == (before, "")


@pytest.mark.parametrize("mount", [READ_ONLY, FULL], ids=["read-only", "full"])
def test_where_nothing_can_be_written_what_may_be_missing_is_said(left: Path, mount: str) -> None:
    plain, script = left.with_name("plain"), left.with_name("read.py")
    left.rename(plain)
    script.write_text(READ)
    shell = mount.format(plain, sys.executable, script)
    for expected in ("the newest entries of ", ""):
        done = subprocess.run(
            [*own_mounts(), "sh", "-c", shell], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        sequence, missing = done.stdout.split("\n")[:2]
        assert sequence == "0"
        assert missing.startswith(expected)
        assert bool(missing) == bool(expected)
        (plain / "journal.sqlite-wal").unlink(missing_ok=True)
