"""Drivers as processes that share a journal in a PostgreSQL, each with a state folder of its own.

Used by tests of who of them leads. None is left at the end.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from postgres import Postgres
from running_driver import DriverProcess

MakeDriver = Callable[..., DriverProcess]
"""Of a name for its state folder, the port to the database, and further arguments."""


@contextmanager
def sharing_drivers(postgres: Postgres, database: str, folder: Path) -> Iterator[MakeDriver]:
    """Makes drivers that go to the database through a port."""
    passwords = password_file(postgres, folder)
    made: list[DriverProcess] = []

    def make(name: str, port: int, *more: str) -> DriverProcess:
        journal = f"--journal={postgres.url(database, port=port)}"
        keeper = f"--keeper={folder / 'keeper.sock'}"
        made.append(DriverProcess(folder / name, journal, keeper, *more, PGPASSFILE=str(passwords)))
        return made[-1]

    yield make
    for each in made:
        if each.process is not None:
            each.end(signal.SIGKILL)


def password_file(postgres: Postgres, folder: Path) -> Path:
    """As PGPASSFILE names it."""
    passwords = folder / "passwords"
    passwords.write_text(f"127.0.0.1:*:*:*:{postgres.password}\n")
    passwords.chmod(0o600)
    return passwords
