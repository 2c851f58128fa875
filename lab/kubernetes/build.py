"""Builds Kubernetes, and kwok, once into a cache folder outside the repository, telling how far.

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
from dataclasses import dataclass
from pathlib import Path

TELL_EVERY_S = 15.0
LAST_LINES = 10
HOW = "Build it once, 4 to 10 minutes: make control-plane"
KUBERNETES = "v1.36.4"
_VERSION = "k8s.io/component-base/version.git"


@dataclass(frozen=True)
class Module:
    """A Go module of ours, and what is built of it."""

    name: str
    sources: Path
    package: str
    binary: str
    flags: tuple[str, ...]
    packages: int
    """About as many are compiled where Go has compiled none of them before."""
    from_module: str = ""
    """Another module, of which files are kept beside the binary."""
    files: tuple[str, ...] = ()
    family: str = "kubernetes"
    """Of the cache folder."""


CONTROL_PLANE = Module(
    name=f"Kubernetes {KUBERNETES}",
    sources=Path(__file__).parent / "go",
    package=".",
    binary="holdfast-kubernetes",
    flags=(
        "-trimpath",
        "-ldflags",
        f"-s -w -X {_VERSION}Version={KUBERNETES} -X {_VERSION}Major=1 -X {_VERSION}Minor=36",
    ),
    packages=2_500,
)
KWOK = Module(
    name="kwok",
    sources=Path(__file__).parent / "kwok",
    package="sigs.k8s.io/kwok/cmd/kwok",
    binary="kwok",
    flags=("-trimpath", "-ldflags", "-s -w"),
    packages=1_500,
    from_module="sigs.k8s.io/kwok",
    files=(
        "kustomize/stage/node/fast/node-initialize.yaml",
        "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
        "kustomize/stage/pod/fast/pod-ready.yaml",
        "kustomize/stage/pod/fast/pod-complete.yaml",
        "kustomize/stage/pod/fast/pod-delete.yaml",
    ),
)


class NotHere(Exception):
    """It cannot be built here, for something is missing; the message says what."""


class BuildFailed(Exception):
    """The compiler refused; the message has its last lines."""


Tell = Callable[[str], None]


def cached(module: Module = CONTROL_PLANE) -> Path:
    """Where the binary is once it is built: named by the hash of its sources."""
    digest = hashlib.sha256(" ".join(module.flags).encode())
    for source in sorted(module.sources.glob("*")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return cache(module.family) / digest.hexdigest()[:16] / module.binary


def cache(family: str) -> Path:
    """The folder of what is made once."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "holdfast" / family


def build(tell: Tell, module: Module = CONTROL_PLANE) -> Path:
    """The binary, built first where it is not there. Raises `NotHere`, `BuildFailed`."""
    binary = cached(module)
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise NotHere(f"there is no Go here, and {module.name} is built with it (1.26).")
    binary.parent.parent.mkdir(parents=True, exist_ok=True)
    with alone(binary.parent.with_suffix(".lock"), module.name, tell):
        if not binary.exists():
            _compile(go, module, binary, tell)
    return binary


@contextmanager
def alone(lock: Path, name: str, tell: Tell) -> Iterator[None]:
    """Nobody else makes the same meanwhile."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting for somebody else's build of {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(go: str, module: Module, binary: Path, tell: Tell) -> None:
    """Beside, then in place by a rename. Raises `BuildFailed`."""
    with tempfile.TemporaryDirectory(dir=binary.parent.parent, prefix=".building-") as beside:
        folder = Path(beside) / binary.parent.name
        _fetch(go, module, tell)
        tell(f"building {module.name} into {binary.parent} (the first time only)")
        command = [go, "build", "-v", *module.flags, "-o", str(folder / binary.name)]
        with subprocess.Popen(
            [*command, module.package],
            cwd=module.sources,
            env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
            stderr=subprocess.PIPE,
            text=True,
        ) as compiler:
            said = _followed(compiler, module.packages, tell)
        if compiler.returncode:
            raise BuildFailed("\n".join(["go build failed:", *said[-LAST_LINES:]]))
        if module.files:
            _keep_beside(go, module, folder)
        folder.rename(binary.parent)


def _fetch(go: str, module: Module, tell: Tell) -> None:
    """The sources, from wherever this Go gets its modules. Raises `NotHere`: no network, say."""
    tell(f"fetching the sources of {module.name}")
    words = [go, "mod", "download"]
    fetched = subprocess.run(words, cwd=module.sources, capture_output=True, text=True, check=False)
    if fetched.returncode:
        last = (fetched.stderr.strip().splitlines() or ["go mod download failed"])[-1]
        raise NotHere(f"the sources of {module.name} could not be fetched: {last}")


def _keep_beside(go: str, module: Module, folder: Path) -> None:
    words = [go, "list", "-m", "-f", "{{.Dir}}", module.from_module]
    asked = subprocess.run(words, cwd=module.sources, check=True, capture_output=True, text=True)
    for file in module.files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(asked.stdout.strip()) / file, folder / file)


def _followed(compiler: "subprocess.Popen[str]", packages: int, tell: Tell) -> list[str]:
    """What the compiler said, to its end: a line a package, or why it fails."""
    started_s = time.monotonic()
    lines: list[str] = []
    over = threading.Event()

    def tell_how_far() -> None:
        took_s = time.monotonic() - started_s
        tell(f"{len(lines)} of up to {packages} packages compiled, {took_s:.0f} s")

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
    """Build both. 0 also where they cannot be built: the tests that need them then say so."""
    try:
        for module in (CONTROL_PLANE, KWOK):
            build(_say, module)
    except NotHere as missing:
        _say(f"{missing} Tests of Kubernetes will be skipped.")
    except BuildFailed as failed:
        _say(str(failed))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
