"""An S3 server of one's own (versitygw, over a folder): started, killed, and nothing of it left."""

import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.kubernetes.ports import free_ports
from holdfast.lab.kubernetes.process import Process
from holdfast.lab.stores.build import HOW, gateway
from holdfast.lab.stores.guarded import guarded_folder

READY_WITHIN_S = 60.0
LOOK_S = 0.02
HOST = "127.0.0.1"


ON_A_DISK = 'mount -t tmpfs -o size="$0"m none "$1" && shift && exec "$@"'
"""In a mount namespace of the server's own: it is gone with it, and what is on it."""


class S3:
    """A server whose buckets are the folders below `disk`."""

    def __init__(self, folder: Path, *, room_mb: int = 0) -> None:
        self._room_mb = room_mb
        self.port = free_ports(1)[0]
        self.key, self.secret = "holdfast-test", secrets.token_urlsafe(16)
        self._folder = folder
        self._process: Process | None = None
        for name in ("buckets", "users"):
            (folder / name).mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """With which every program finds it, and may use it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{self.port}",
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def new_bucket(self, name: str) -> Path:
        """An empty one of the owner's; where its objects lie."""
        (self.disk / name).mkdir()
        return self.disk / name

    @property
    def disk(self) -> Path:
        """Where the buckets are; its own disk is seen through its process."""
        folder = self._folder / "buckets"
        if not self._room_mb:
            return folder
        assert self._process is not None, "it has been started"
        return Path(f"/proc/{self._process.pid}/root{folder}")

    def start(self) -> None:
        """Return once it takes connections."""
        words = [
            *self._on_a_disk(), "env",
            f"ROOT_ACCESS_KEY={self.key}", f"ROOT_SECRET_KEY={self.secret}",
            str(gateway()), "--port", f"{HOST}:{self.port}", "--quiet",
            "posix", str(self._folder / "buckets"),
        ]  # fmt: skip
        self._process = Process("versitygw", words, log=self._folder / "log")
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not _listens(self.port):
            if self._process.ended or time.monotonic() > deadline_s:
                raise RuntimeError(self._process.last_words())
            time.sleep(LOOK_S)

    def _on_a_disk(self) -> list[str]:
        if not self._room_mb:
            return []
        own = ["unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",))]
        return [*own, "sh", "-c", ON_A_DISK, str(self._room_mb), str(self._folder / "buckets")]

    def mend(self) -> None:
        """Start it where it is dead."""
        if self.ended:
            self.start()

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def ended(self) -> bool:
        return self._process is None or self._process.ended

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex((HOST, port)) == 0


def missing() -> str:
    """Why it cannot be started here, in a sentence; "" where it can."""
    return "" if gateway().exists() else f"no S3 server is built. {HOW}"


@contextmanager
def running_s3(*, room_mb: int = 0) -> Iterator[S3]:
    """A started server, with a disk of so much room, or all that is here. Raises `NotHere`."""
    if why := missing():
        raise NotHere(why)
    with guarded_folder("holdfast-s3-") as folder:
        server = S3(folder, room_mb=room_mb)
        try:
            server.start()
            yield server
        finally:
            server.kill()
