"""The next version of the driver, made of this one: its journal is one migration further, and what
it says to executors has a word that those of today do not know.

Used by tests of an upgrade.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import holdfast

REVISION = "9000"
MIGRATION = f'''"""What a later version needs."""

import sqlalchemy as sa
from alembic import op

revision = "{REVISION}"
down_revision = "{{}}"


def upgrade() -> None:
    op.add_column("entries", sa.Column("remark", sa.Text))
'''
LATER_WORD = '    later_word: str = msgspec.field(default_factory=lambda: "nobody knows it yet")\n'


@contextmanager
def next_version() -> Iterator[str]:
    """The command of its driver. Not in /tmp, of which each driver's pod has its own."""
    with TemporaryDirectory(prefix="holdfast-next-", dir="/var/tmp") as folder:
        yield _made(Path(folder))


def _made(folder: Path) -> str:
    package, ours = folder / "holdfast", Path(holdfast.__file__).parent
    package.mkdir(parents=True)
    for each in ours.iterdir():
        if each.name in ("driver", "protocol"):
            leave = shutil.ignore_patterns("__pycache__")
            shutil.copytree(each, package / each.name, ignore=leave)
        elif each.name != "__pycache__":
            (package / each.name).symlink_to(each.resolve())
    _migrate(package / "driver" / "adapters")
    _say_more(package / "protocol" / "messages.py")
    return f"env PYTHONPATH={folder} {sys.executable} -m holdfast.driver.main"


def _migrate(adapters: Path) -> None:
    tables = adapters / "sql" / "tables.py"
    text = tables.read_text()
    today = re.search(r'HEAD_REVISION = "(\d+)"', text)
    assert today
    tables.write_text(text.replace(today[0], f'HEAD_REVISION = "{REVISION}"'))
    versions = adapters / "migrations" / "versions"
    (versions / "v9000_later.py").write_text(MIGRATION.format(today[1]))


def _say_more(messages: Path) -> None:
    """In what an executor is greeted with, and in its orders."""
    text = messages.read_text()
    for known in ("    heartbeat_period_s: float = 1.0\n", "    forget_job: str | None = None"):
        assert text.count(known) == 1
        text = text.replace(known, LATER_WORD + known)
    messages.write_text(text)
