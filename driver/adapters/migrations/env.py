"""Run by alembic for each command; the connection is the journal's own."""

from alembic import context

from holdfast.driver.adapters.sql.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
