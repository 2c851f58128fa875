"""Migrations of the journal, one file each in `versions`, run by alembic.

Called when a journal of an older Holdfast is opened. A migration is never changed once released.
New one: `.venv/bin/alembic -c driver/adapters/migrations/alembic.ini revision -m "say what"`.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

from holdfast.driver.ports import PermanentError


def upgrade(connection: Connection) -> None:
    """Bring the tables behind `connection` to today's, within its transaction.

    Raises `PermanentError` where they are of a Holdfast later than this one.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise PermanentError(
            f"journal: of another version of Holdfast ({error}). Use that version, or a newer one."
        ) from error
