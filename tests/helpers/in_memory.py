"""A folder in memory in which a journal is committed without a wait for a disk.

Used in place of `tmp_path` by folders of tests whose drivers commit all the time and are killed:
what a killed process leaves is the same there, and what a machine without power leaves no test can
see. (The tests' PostgreSQL and etcd do without fsync, too.)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

MEMORY = "/dev/shm"


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    with TemporaryDirectory(prefix="test-", dir=MEMORY) as folder:
        yield Path(folder)
