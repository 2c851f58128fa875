"""Migrations of the journal, one file each in `versions`, run by alembic.

Called when a journal of an older Holdfast is opened. A migration is never changed once released.
New one: `.venv/bin/alembic -c driver/adapters/migrations/alembic.ini revision -m "say what"`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from holdfast.driver.ports import PermanentError


def upgrade(connection: Connection) -> None:
    """Bring the tables behind `connection` to today's, within its transaction.

    Raises `PermanentError` where they are of a Holdfast later than this one.
    """
    config = _config()
    config.attributes["connection"] = connection
    with _in_our_words():
        command.upgrade(config, "head")


def check_known(revision: str) -> None:
    """Raise `PermanentError` where no migration of this Holdfast makes this revision."""
    with _in_our_words():
        ScriptDirectory.from_config(_config()).get_revision(revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        raise PermanentError(
            f"journal: of another version of Holdfast ({error}). Use that version, or a newer one."
        ) from error
