"""Fetches HDFS with Maven and builds an S3 server with Go, once, into a cache folder outside the
repository. Called by `make stores`; `hdfs` and `s3` find here what was built.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from holdfast.lab.kubernetes.build import (
    BuildFailed,
    Module,
    NotHere,
    Tell,
    alone,
    build,
    cache,
    cached,
)

HOW = "Make it once, one or two minutes: make stores"
FAMILY = "stores"
VERSITYGW = Module(
    name="versitygw v1.8.0",
    sources=Path(__file__).parent / "go",
    package="github.com/versity/versitygw/cmd/versitygw",
    binary="versitygw",
    flags=("-trimpath", "-ldflags", "-s -w"),
    packages=370,
    family=FAMILY,
)
POM = Path(__file__).parent / "hdfs_jars" / "pom.xml"
LAST_LINES = 5


def jars() -> Path:
    """The folder of HDFS's jars, once they are there: named by the hash of what lists them."""
    return cache(FAMILY) / hashlib.sha256(POM.read_bytes()).hexdigest()[:16] / "jars"


def gateway() -> Path:
    """The S3 server, once it is built."""
    return cached(VERSITYGW)


def fetch_jars(tell: Tell) -> Path:
    """The folder of jars, fetched first where it is not there. Raises `NotHere`, `BuildFailed`."""
    folder = jars()
    if folder.exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        raise NotHere("there is no Maven or no Java (17) here, and HDFS needs both.")
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    with alone(folder.parent.with_suffix(".lock"), "HDFS", tell):
        if not folder.exists():
            _fetch(maven, folder, tell)
    return folder


def _fetch(maven: str, folder: Path, tell: Tell) -> None:
    """Beside, then in place by a rename."""
    tell(f"fetching HDFS into {folder} (the first time only)")
    with tempfile.TemporaryDirectory(dir=folder.parent.parent, prefix=".building-") as beside:
        whole = Path(beside) / folder.parent.name
        words = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
        options = [f"-DoutputDirectory={whole / folder.name}", "-DincludeScope=runtime"]
        done = subprocess.run([*words, *options], capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()[:LAST_LINES]
            raise BuildFailed("\n".join(["mvn failed:", *said]))
        whole.rename(folder.parent)


def _say(line: str) -> None:
    sys.stderr.write(f"stores: {line}\n")


def main() -> int:
    """Make both. 0 also where they cannot be made: the tests that need them then say so."""
    failed = 0
    for make in (fetch_jars, lambda tell: build(tell, VERSITYGW)):
        try:
            make(_say)
        except NotHere as missing:
            _say(f"{missing} Its tests will be skipped.")
        except BuildFailed as why:
            _say(str(why))
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
