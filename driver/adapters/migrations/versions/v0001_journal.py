"""The journal's first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "head",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("now", sa.Float(53), nullable=False),
        sa.Column("state", sa.LargeBinary),
    )
    op.create_table(
        "entries",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("incident", sa.BigInteger),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("ix_entries_incident_sequence", "entries", ["incident", "sequence"])
    for name, owner in (("entry_jobs", "job"), ("entry_nodes", "node")):
        op.create_table(
            name,
            sa.Column(owner, sa.String(253), primary_key=True),
            sa.Column(
                "sequence", sa.BigInteger, sa.ForeignKey("entries.sequence"), primary_key=True
            ),
        )
    op.create_table(
        "claims",
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("sequence", sa.BigInteger, sa.ForeignKey("entries.sequence"), nullable=False),
    )
    op.bulk_insert(
        sa.table("head", *(sa.column(name) for name in ("id", "term", "sequence", "now"))),
        [{"id": 1, "term": 0, "sequence": 0, "now": 0.0}],
    )
