"""Opens the journal that the settings name, a file in the state folder or a database.

Called by `driver.main`. Must not decide anything else; each adapter says what it cannot do.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.extras import not_installed
from holdfast.driver.ports import PermanentError
from holdfast.driver.settings import Settings
from holdfast.protocol.paths import RunPaths


def open_journal(settings: Settings, *, beside: bool = False) -> SqlJournal:
    """`beside` another driver, which may lead, the tables of a database stay as they are.

    Raises `PermanentError`, and `TemporaryError` where a database does not answer.
    """
    if not settings.journal:
        journal = open_sqlite(settings.paths.journal)
        try:
            _check_not_lost(journal, settings.paths)
        except BaseException:
            journal.close()
            raise
        return journal
    with _installed():
        from holdfast.driver.adapters.sql.postgres import open_postgres
    return open_postgres(settings.journal, beside=beside)


def _check_not_lost(journal: SqlJournal, paths: RunPaths) -> None:
    """Raise `PermanentError` for an empty journal beside jobs that have run: begun anew, it would
    count terms and attempts from 1, and end what still runs.
    """
    _, sequence, _ = journal.load()
    ran = sorted(each.name for each in paths.jobs.glob("*") if each.is_dir())
    if ran and not sequence:
        which = ", ".join(ran[:3]) + (f" and {len(ran) - 3} more" if len(ran) > 3 else "")
        raise PermanentError(
            f"journal {paths.journal}: it is empty, and {paths.jobs} has what {which} wrote. Put "
            "the journal back from a backup; or move that folder away, and begin anew."
        )


def check_journal(settings: Settings) -> None:
    """Raise `PermanentError` where this driver, which is to share a journal, could never lead: one
    of an earlier Holdfast that stood by would let whoever leads be stopped. `TemporaryError` where
    a database does not answer.
    """
    with _installed():
        from holdfast.driver.adapters.sql.postgres import check_postgres
    check_postgres(settings.journal)


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise not_installed("journal", error, "postgres") from error
