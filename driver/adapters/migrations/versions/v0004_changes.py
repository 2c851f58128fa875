"""The state apart from the head, and beside it what commits since then changed of it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "state",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary),
    )
    op.create_table(
        "changes",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        # A driver of before may be committing: what it writes is waited for, and then copied.
        op.execute("LOCK TABLE head IN ACCESS EXCLUSIVE MODE")
    op.execute("INSERT INTO state (id, body) SELECT id, state FROM head")
    op.execute("ALTER TABLE head DROP COLUMN state")
