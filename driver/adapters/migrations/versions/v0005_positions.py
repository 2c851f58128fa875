"""How far whoever follows the journal has come."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "positions",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
    )
