"""Opens the journal that the settings name, a file in the state folder or a database, and its lead.

Called by `driver.main`. Must not decide anything else; each adapter says what it cannot do.
"""

from holdfast.driver.adapters.journal import SqlJournal
from holdfast.driver.adapters.journal_sqlite import open_sqlite
from holdfast.driver.ports import PermanentError
from holdfast.driver.settings import Settings
from holdfast.driver.standby import Lead


def open_journal(settings: Settings) -> SqlJournal:
    """Raises `PermanentError`, and `TemporaryError` where a database does not answer."""
    if not settings.journal:
        return open_sqlite(settings.paths.journal)
    try:
        from holdfast.driver.adapters.journal_postgres import open_postgres
    except ModuleNotFoundError as error:
        raise _not_installed(error) from error
    return open_postgres(settings.journal)


def open_lead(settings: Settings, *, name: str) -> Lead:
    """The lead of those who share the journal; `name` is what others are told of who has it."""
    try:
        from holdfast.driver.adapters.lead_postgres import PostgresLead
    except ModuleNotFoundError as error:
        raise _not_installed(error) from error
    return PostgresLead(settings.journal, name=name)


def _not_installed(error: ModuleNotFoundError) -> PermanentError:
    return PermanentError(
        f"journal: {error.name} is not installed. "
        "Install the extra: pip install 'holdfast[postgres]'"
    )
