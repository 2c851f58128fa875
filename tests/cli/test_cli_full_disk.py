"""A disk that ranks have filled with what they print: a real one, mounted for these tests alone."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from namespaces import own_mounts
from shells import HOLDFAST, Shell, heard
from waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.warm]

PRINTS = """
import sys, time
while True:
    sys.stdout.write(("x" * 99 + "\\n") * 10_000)
    sys.stdout.flush()
    time.sleep(0.02)
"""
MOUNTED = 'mount -t tmpfs -o size=64m none "$1" && cd "$1" && shift && exec "$@" >/dev/null'


FILLED = 'mount -t tmpfs -o size=8m none "$1" && head -c "$2" /dev/zero > "$1/filler" && shift 2'
"""So much of 8 MiB is taken by others; what follows is the command."""


class Disk:
    """One of 64 MiB, on which a run of two ranks lies. Seen from here through its process."""

    def __init__(self, shell: Shell) -> None:
        disk = shell.folder / "disk"
        disk.mkdir()
        script = shell.script("prints.py", PRINTS)
        run = [*HOLDFAST, "run", "--grace", "1", "-n", "2", str(script)]
        self.process = subprocess.Popen(
            [*own_mounts(), "sh", "-c", MOUNTED, "sh", str(disk), *run],
            cwd=shell.folder,
            env=os.environ | {"HOLDFAST_TEST_FOLDER": str(shell.folder)},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        shell.started.append(self.process)
        self._shell, self._seen = shell, Path(f"/proc/{self.process.pid}/root{disk}")
        self.greeting = heard(self.process, "ranks here")

    @property
    def run(self) -> Path:
        (run,) = (self._seen / "runs").iterdir()
        return run

    def logs(self, attempt: int) -> list[Path]:
        return [*self.run.glob(f"jobs/*/attempt_{attempt}/*/stdout.log")]

    def free(self) -> None:
        for log in self.run.glob("jobs/*/attempt_*/*/stdout.log"):
            os.truncate(log, 0)

    def fill(self) -> None:
        with (self._seen / "filler").open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                return

    def asked(self, *words: str) -> str:
        """As a terminal shows it."""
        ended = self._shell.asked(*words, "--state", str(self.run))
        return ended.stdout + ended.stderr


def test_an_attempt_waits_for_room_and_goes_on_by_itself(shell: Shell) -> None:
    disk = Disk(shell)
    said = heard(disk.process, "training is held")
    assert "No space left on device" in said
    assert "Free at least 32 MiB there" in said
    assert disk.logs(2) == [], "no rank is started to die of it"
    for words in ("status", "why"):
        told = disk.asked(words)
        assert "is full, and training is held. Free at least 32 MiB there" in told
        assert told.count("no new work is accepted, running jobs go on") == 1
        assert "Running" not in told
    assert json.loads(disk.asked("status", "--json"))["degraded"]
    disk.free()
    eventually(
        lambda: any(log.stat().st_size for log in disk.logs(2)), "ranks print again by themselves"
    )
    disk.process.send_signal(signal.SIGTERM)
    assert disk.process.wait(DEADLINE_S) == 128 + signal.SIGTERM


def test_a_driver_that_can_write_nothing_is_told_and_goes_on_once_there_is_room(
    shell: Shell,
) -> None:
    disk = Disk(shell)
    (disk.run / "journal.reserve").unlink()
    said = heard(disk.process, "nothing could be written in")
    assert f"{disk.run.parent.parent.name}/runs/" in said
    assert "Free at least 32 MiB there" in said
    status, why = disk.asked("status"), disk.asked("why")
    assert ", as last written down" in status
    assert why.startswith("This may be old. journal: nothing could be written in")
    assert [told.count("journal: nothing could be written in") for told in (status, why)] == [1, 1]
    assert json.loads(disk.asked("status", "--json"))["stale"]
    disk.free()
    eventually(
        lambda: any(log.stat().st_size for log in disk.logs(2)), "ranks print again by themselves"
    )


def test_a_stop_that_cannot_be_written_down_takes_all_down_in_its_time(shell: Shell) -> None:
    disk = Disk(shell)
    heard(disk.process, "training is held")
    (disk.run / "journal.reserve").unlink()
    disk.fill()
    disk.process.send_signal(signal.SIGTERM)
    said = heard(disk.process, "nothing of it runs")
    assert "the driver could not end the job within 6 s" in said
    assert "nothing could be written in" in said
    assert disk.process.wait(DEADLINE_S) == 128 + signal.SIGTERM
    eventually(lambda: shell.leftovers() == [], "nothing is left")


@pytest.mark.parametrize(
    ("free_kib", "said"),
    [
        (0, "cannot write to {state}/tokens/user: No space left on device.  Free some space"),
        (8, "does not stay up: the disk of {state} is full.  Free at least 4 MiB there"),
        (16, "does not stay up: the disk of {state} is full.  Free at least 4 MiB there"),
    ],
)
def test_a_driver_that_cannot_begin_on_a_full_disk_says_what_to_free(
    tmp_path: Path, free_kib: int, said: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    driver = [*HOLDFAST, "driver", "--local-nodes", "1", "--state", str(disk / "state")]
    filled = ["sh", "-c", f'{FILLED} && exec "$@"', "sh", str(disk), str((8192 - free_kib) << 10)]
    ended = subprocess.run(
        [*own_mounts(), *filled, *driver], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert ended.returncode == 1
    assert said.format(state=disk / "state") in ended.stderr
    assert "Traceback" not in ended.stderr
