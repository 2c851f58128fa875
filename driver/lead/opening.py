"""Opens the lead that the settings name: a Lease of Kubernetes, or a lock in the database.

Called by `driver.main` with `--standby`. Must not decide anything else.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.driver.extras import not_installed
from holdfast.driver.lead.standby import Lead
from holdfast.driver.settings import Settings


@asynccontextmanager
async def open_lead(settings: Settings, *, name: str) -> AsyncIterator[Lead]:
    """The lead of those who share the journal, given up at the end.

    `name` is what others are told of who has it. Raises `PermanentError`.
    """
    if settings.lease:
        async with _lease(settings, name) as lease:
            yield lease
        return
    lead = _lock(settings, name)
    try:
        yield lead
    finally:
        await lead.close()


def _lock(settings: Settings, name: str) -> Lead:
    try:
        from holdfast.driver.adapters.lead_postgres import PostgresLead
    except ModuleNotFoundError as error:
        raise not_installed("journal", error, "postgres") from error
    return PostgresLead(settings.journal, name=name)


@asynccontextmanager
async def _lease(settings: Settings, name: str) -> AsyncIterator[Lead]:
    try:
        from holdfast.driver.adapters.kubernetes.lease import lease
    except ModuleNotFoundError as error:
        raise not_installed("lease", error, "kubernetes") from error
    async with lease(settings, name=name) as lead:
        yield lead
