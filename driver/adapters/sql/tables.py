"""The journal's tables, for any database that SQLAlchemy speaks to.

Used by `journal` and by the migrations. `HEAD_REVISION` is the migration that makes exactly these
tables (a test compares them), so that a new journal needs no migration run.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
)

HEAD_REVISION = "0005"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

head = Table(
    "head",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),  # always 1
    Column("term", BigInteger, nullable=False),  # of the driver that wrote last
    Column("sequence", BigInteger, nullable=False),  # of the newest entry
    Column("now", Float(53), nullable=False),  # driver time of the newest entry, seconds
)

state = Table(
    "state",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),  # always 1
    Column("body", LargeBinary),  # what the entries led to, when last written whole; null: nothing
)
"""A table of its own: who changes a row of SQLite writes all of it."""

changes = Table(
    "changes",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),  # of a commit's last
    Column("body", LargeBinary, nullable=False),  # what it changed of the state; since `state`
)

entries = Table(
    "entries",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("incident", BigInteger),  # incident that the entry belongs to
    Column("body", Text, nullable=False),  # the whole entry as JSON
    Index(None, "incident", "sequence"),
)

entry_jobs = Table(
    "entry_jobs",
    metadata,
    Column("job", String(253), primary_key=True),
    Column("sequence", BigInteger, ForeignKey("entries.sequence"), primary_key=True),
)

entry_nodes = Table(
    "entry_nodes",
    metadata,
    Column("node", String(253), primary_key=True),
    Column("sequence", BigInteger, ForeignKey("entries.sequence"), primary_key=True),
)

claims = Table(
    "claims",
    metadata,
    Column("key", String(255), primary_key=True),  # Idempotency-Key of a request
    Column("digest", LargeBinary, nullable=False),  # of that request
    Column("sequence", BigInteger, ForeignKey("entries.sequence"), nullable=False),
)

authority = Table(
    "authority",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),  # always 1
    Column("certificate", Text),  # of the drivers' own CA, PEM; null before a driver had TLS
    Column("key", Text),  # PEM, for drivers alone
)

last_lines = Table(
    "last_lines",
    metadata,
    Column("job", String(253), primary_key=True),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),  # of the job, for a later one of its name
    Column("attempt", Integer, nullable=False),
    Column("stdout", LargeBinary, nullable=False),  # its end, as is
    Column("stderr", LargeBinary, nullable=False),
)

positions = Table(
    "positions",
    metadata,
    Column("name", String(63), primary_key=True),  # of a webhook
    Column("sequence", BigInteger, nullable=False),  # of the newest entry that it was told
)

revision = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Alembic's own table, so that a new journal can be stamped without loading alembic."""
