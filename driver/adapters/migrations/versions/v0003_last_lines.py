"""Where drivers keep the last lines of ranks whose pods are gone."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "last_lines",
        sa.Column("job", sa.String(253), primary_key=True),
        sa.Column("rank", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("stdout", sa.LargeBinary, nullable=False),
        sa.Column("stderr", sa.LargeBinary, nullable=False),
    )
