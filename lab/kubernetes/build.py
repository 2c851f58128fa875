"""Builds the Kubernetes binary once into a cache folder outside the repository, telling how far.

Called by `make`, `holdfast lab kubernetes up` and, to find what was built, `programs`. Two builders
at once wait for each other; one that was killed leaves nothing that could be taken for a whole one.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent / "go"
KUBERNETES = "v1.36.4"
_VERSION = "k8s.io/component-base/version.git"
FLAGS = (
    "-trimpath",
    "-ldflags",
    f"-s -w -X {_VERSION}Version={KUBERNETES} -X {_VERSION}Major=1 -X {_VERSION}Minor=36",
)
TELL_EVERY_S = 15.0
LAST_LINES = 10
PACKAGES = 2_500
"""About as many are compiled where Go has compiled none of them before."""
BINARY = "holdfast-kubernetes"
HOW = "Build it, 4 to 10 minutes the first time: python -m holdfast.lab.kubernetes.build"


class NotHere(Exception):
    """It cannot be built here, for something is missing; the message says what."""


class BuildFailed(Exception):
    """The compiler refused; the message has its last lines."""


Tell = Callable[[str], None]


def cached() -> Path:
    """Where the binary is once it is built: named by the hash of its sources."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for source in sorted(SOURCES.glob("*")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "holdfast" / "kubernetes" / digest.hexdigest()[:16] / BINARY


def build(tell: Tell) -> Path:
    """The binary, built first where it is not there. Raises `NotHere`, `BuildFailed`."""
    binary = cached()
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise NotHere("there is no Go here, and the Kubernetes binary is built with it (1.26).")
    binary.parent.parent.mkdir(parents=True, exist_ok=True)
    with _alone(binary.parent.with_suffix(".lock"), tell):
        if not binary.exists():
            _compile(go, binary, tell)
    return binary


@contextmanager
def _alone(lock: Path, tell: Tell) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for somebody else's build of Kubernetes")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(go: str, binary: Path, tell: Tell) -> None:
    """Beside, then in place by a rename. Raises `BuildFailed`."""
    with tempfile.TemporaryDirectory(dir=binary.parent.parent, prefix=".building-") as beside:
        folder = Path(beside) / binary.parent.name
        tell(f"building Kubernetes {KUBERNETES} into {binary.parent} (the first time only)")
        command = [go, "build", "-v", *FLAGS, "-o", str(folder / BINARY), "."]
        environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
        with subprocess.Popen(
            command, cwd=SOURCES, env=environment, stderr=subprocess.PIPE, text=True
        ) as compiler:
            said = _followed(compiler, tell)
        if compiler.returncode:
            raise BuildFailed("\n".join(["go build failed:", *said[-LAST_LINES:]]))
        folder.rename(binary.parent)


def _followed(compiler: "subprocess.Popen[str]", tell: Tell) -> list[str]:
    """What the compiler said, to its end: a line a package, or why it fails."""
    started_s = time.monotonic()
    lines: list[str] = []
    over = threading.Event()

    def tell_how_far() -> None:
        took_s = time.monotonic() - started_s
        tell(f"{len(lines)} of up to {PACKAGES} packages compiled, {took_s:.0f} s")

    def now_and_then() -> None:
        while not over.wait(TELL_EVERY_S):
            tell_how_far()

    teller = threading.Thread(target=now_and_then, daemon=True)
    teller.start()
    try:
        for line in compiler.stderr or ():
            lines.append(line.rstrip())  # noqa: PERF401 they are counted meanwhile
    finally:
        over.set()
        teller.join()
    tell_how_far()
    return lines


def _say(line: str) -> None:
    sys.stderr.write(f"kubernetes: {line}\n")


def main() -> int:
    """Build it. 0 also where it cannot be built: the tests that need it then say so."""
    try:
        build(_say)
    except NotHere as missing:
        _say(f"{missing} Tests of Kubernetes will be skipped.")
    except BuildFailed as failed:
        _say(str(failed))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
