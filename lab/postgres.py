"""A PostgreSQL of one's own: made, started, stopped, and of which nothing is left.

Used by scenarios and tests of drivers that share a journal. Its guard ends it and removes its files
as soon as the process that made it is gone, however that ended. Must not touch another PostgreSQL.
"""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.lab.kubernetes.ports import free_ports

ORDINARY_USER = "nobody"
"""Who runs it where we are root: PostgreSQL refuses root."""

USER = "holdfast"

INSTALLED = Path("/usr/lib/postgresql")
"""Where Debian puts each version."""

_GUARD = 'cat >/dev/null; "$@" 2>/dev/null >&2; rm -rf "$0"'


class NotInstalled(Exception):
    """There is no PostgreSQL on this machine."""


class Failed(Exception):
    """A program of PostgreSQL failed; the message is what it said."""


class Postgres:
    """A server in `folder`: a password over TCP, none over its Unix socket."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self.password = secrets.token_urlsafe(16)
        self._programs = programs
        self._as = _ordinary(folder)

    def make(self) -> None:
        """Its files. Sync is off: it is drivers that die here, and not machines.

        Raises `Failed`.
        """
        password = self.folder / "password"
        password.write_text(self.password)
        password.chmod(0o644)
        options = f"--auth-local=trust --auth-host=scram-sha-256 --username={USER} --no-sync"
        self._run("initdb", *options.split(), "--locale=C", "-E", "UTF8", f"--pwfile={password}")

    def start(self) -> None:
        """Return once it answers. Raises `Failed`."""
        settings = f"-c unix_socket_directories={self.folder} -c fsync=off -c max_connections=50"
        self._run(
            "pg_ctl", "start", "-w", "-t", "120", "-l", str(self.folder / "log"),
            "-o", f"-p {self.port} -c listen_addresses=127.0.0.1 {settings}",
        )  # fmt: skip

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "stop", "-w", "-t", "120", "-m", mode)

    def ending(self) -> list[str]:
        """The command that ends it at once."""
        return self._command("pg_ctl", "stop", "-w", "-m", "immediate")

    def url(self, database: str, *, port: int | None = None) -> str:
        """Over the Unix socket; with `port` over TCP, where there may be a relay."""
        if port is not None:
            return f"postgresql://{USER}@127.0.0.1:{port}/{database}"
        return f"postgresql://{USER}@/{database}?host={self.folder}&port={self.port}"

    def program(self, name: str) -> str:
        """Where one of its programs is."""
        return str(self._programs / name)

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [*self._as, self.program(program), "-D", str(self.folder / "data"), *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(program, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            timeout=180,
            check=False,
        )
        log = self.folder / "log"
        said = done.stderr.decode() if done.stderr else log.read_text() if log.exists() else ""
        if done.returncode:
            raise Failed(f"{program}: {said.strip()}")


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A started server. Raises `NotInstalled`, `Failed`."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    server = Postgres(programs, folder)
    guard = subprocess.Popen(
        ["sh", "-c", _GUARD, str(folder), *server.ending()],
        stdin=subprocess.PIPE,
        start_new_session=True,  # what interrupts us is not to end it before its work
    )
    assert guard.stdin is not None
    try:
        server.make()
        server.start()
        yield server
    finally:
        guard.stdin.close()
        guard.wait(timeout=60)


def _programs() -> Path:
    """Folder of the newest installed."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve()] if on_path else []
    found += INSTALLED.glob("*/bin/initdb")
    if not found:
        raise NotInstalled(
            "no PostgreSQL here: install its server, e.g. apt-get install postgresql"
        )
    return max(found, key=lambda each: each.parent.parent.name).parent


def _ordinary(folder: Path) -> list[str]:
    """The command before a command that must not be root's, and to whom `folder` belongs."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(ORDINARY_USER)
    os.chown(folder, user.pw_uid, user.pw_gid)
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *ids, "env", f"--chdir={folder}"]
