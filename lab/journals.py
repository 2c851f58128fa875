"""The journal of a laboratory's driver, wherever it is, for whoever looks at it from outside."""

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.adapters.sql.sqlite import read_only
from holdfast.protocol.paths import RunPaths


def opened(url: str, run: RunPaths) -> SqlJournal:
    """To be read, and closed. `url`: of the database; "": the file in the driver's own folder.

    Raises `TemporaryError`, `PermanentError`.
    """
    if not url:
        return read_only(run.journal)[0]
    from holdfast.driver.adapters.sql.postgres import open_postgres  # needs an extra

    return open_postgres(url)
