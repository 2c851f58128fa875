"""A process that is killed while it makes a slot, or puts a word beside one, leaves nothing."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.checkpoint.memory import Memory
from holdfast.checkpoint.slots import Slot
from holdfast.kit import files

KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.checkpoint.slot_folder import SlotFolder

def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, sys.argv[2], killed)
folder = SlotFolder(Path(sys.argv[1]))
folder.slots[0].make(1_000_000)
folder.ask_room(1_000_000)
"""


def killed_in(call: str, folder: Path) -> list[str]:
    """What lies there once a process is dead of SIGKILL in that call of the system's."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), call], check=False)
    assert done.returncode == -signal.SIGKILL
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("call", ["posix_fallocate", "link"])
def test_who_is_killed_while_it_makes_a_slot_leaves_nothing(tmp_path: Path, call: str) -> None:
    assert killed_in(call, tmp_path) == []


def test_what_is_left_beside_a_word_is_swept_with_the_next_order(tmp_path: Path) -> None:
    left = killed_in("rename", tmp_path / "r0")
    assert len(left) == 2
    living = tmp_path / "r0" / f".wanted.{os.getpid()}.7"
    living.touch()
    others = tmp_path / "r0" / ".of-somebody-else"
    others.touch()
    Memory("job", {0: str(tmp_path / "r0")}, print)
    found = {path.name for path in (tmp_path / "r0").iterdir()}
    assert found == {"slot-0.data", living.name, others.name}, "what a living process writes stays"


@pytest.mark.parametrize("named", [False, True], ids=["without a name", "beside"])
def test_a_slot_that_somebody_else_has_made_first_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    slot = Slot(tmp_path, 0)
    if named:
        monkeypatch.setattr(os, "open", _without_tmpfile(os.open))
    with files.new_file(slot.data, mode=0o600) as fd:
        os.write(fd, b"second")
        slot.make(5)
        slot.data.write_bytes(b"first")
    assert slot.data.read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["slot-0.data"]
    assert slot.data.stat().st_mode & 0o777 == 0o600


def _without_tmpfile(true_open):
    def refusing(path, flags, *more, **options):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return true_open(path, flags, *more, **options)

    return refusing


@pytest.mark.parametrize("another", [True, False], ids=["replaced", "removed"])
def test_a_file_that_goes_while_it_is_opened_is_not_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, another: bool
) -> None:
    """Whoever wrote into it would seal a file that it has not written."""
    slot, flock = Slot(tmp_path, 0), fcntl.flock
    slot.make(4_096)

    def late(fd: int, how: int) -> None:
        if not how & fcntl.LOCK_UN:
            slot.data.unlink()
            if another:
                slot.make(8_192)
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with slot.locked(exclusive=True) as fd:
        assert fd is None
