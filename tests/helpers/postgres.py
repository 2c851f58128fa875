"""A PostgreSQL of the tests' own, with a database for each who asks; skips where there is none, or
fails where it is required.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from holdfast.lab import postgres


class Postgres:
    """A server, and the databases of the tests in it."""

    def __init__(self, server: postgres.Postgres) -> None:
        self._server = server
        self._databases = 0
        self.start, self.stop, self.url = server.start, server.stop, server.url
        self.port, self.password = server.port, server.password

    def new_database(self) -> str:
        """The name of an empty one."""
        self._databases += 1
        name = f"holdfast_{self._databases}"
        self.execute("postgres", f"CREATE DATABASE {name}")
        return name

    def execute(self, database: str, statement: str) -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def backup(self, database: str) -> bytes:
        """As a person makes one."""
        command = [self._server.program("pg_dump"), "-Fc", "-d", self.url(database)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=60).stdout

    def restore(self, database: str, backup: bytes) -> None:
        """The database is as it was then, whoever is connected to it."""
        self.execute("postgres", f"DROP DATABASE {database} WITH (FORCE)")
        self.execute("postgres", f"CREATE DATABASE {database}")
        command = [self._server.program("pg_restore"), "-e", "-d", self.url(database)]
        subprocess.run(command, check=True, input=backup, timeout=60)


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A started server."""
    try:
        with postgres.running_postgres() as server:
            yield Postgres(server)
    except postgres.NotInstalled as missing:
        if os.environ.get("HOLDFAST_TEST_POSTGRES") == "required":
            pytest.fail(f"HOLDFAST_TEST_POSTGRES=required: {missing}", pytrace=False)
        pytest.skip(str(missing))
