"""The sources of today's tree, and of an earlier commit's beside it, for a benchmark in turns.

Called by the benchmarks that compare two drivers.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.bench.figures import Incomplete

SOURCES = Path(__file__).resolve().parents[1] / "src"


@contextmanager
def trees(before: str) -> Iterator[dict[str, Path]]:
    """The sources of each system, by its name. Raises `Incomplete` where `before` is no commit."""
    if not before:
        yield {"holdfast": SOURCES}
        return
    with TemporaryDirectory(prefix="holdfast-before-") as folder:
        git = ("git", "-C", str(SOURCES.parent))
        archive = subprocess.run([*git, "archive", before], capture_output=True, check=False)
        if archive.returncode:
            why = archive.stderr.decode(errors="replace").strip()
            what = f"--before: {before!r} is no commit of Holdfast's repository ({why})."
            raise Incomplete(f"{what} Name one that `git log` shows there.")
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield {"holdfast": SOURCES, before: Path(folder) / "src"}
