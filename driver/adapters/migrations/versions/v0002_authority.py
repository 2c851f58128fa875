"""Where drivers that share a journal keep the CA of their TLS."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    made = op.create_table(
        "authority",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("certificate", sa.Text),
        sa.Column("key", sa.Text),
    )
    op.bulk_insert(made, [{"id": 1}])
