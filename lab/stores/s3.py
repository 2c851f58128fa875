"""An S3 server of one's own (versitygw, over a folder): started, killed, and nothing of it left."""

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


class S3:
    """A server whose buckets are the folders below `folder / "buckets"`."""

    def __init__(self, folder: Path) -> None:
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
        (self._folder / "buckets" / name).mkdir()
        return self._folder / "buckets" / name

    def start(self) -> None:
        """Return once it takes connections."""
        words = [
            "env", f"ROOT_ACCESS_KEY={self.key}", f"ROOT_SECRET_KEY={self.secret}",
            str(gateway()), "--port", f"{HOST}:{self.port}", "--quiet",
            "posix", str(self._folder / "buckets"),
        ]  # fmt: skip
        self._process = Process("versitygw", words, log=self._folder / "log")
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not _listens(self.port):
            if self._process.ended or time.monotonic() > deadline_s:
                raise RuntimeError(self._process.last_words())
            time.sleep(LOOK_S)

    @property
    def ended(self) -> bool:
        return self._process is None or self._process.ended

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex((HOST, port)) == 0


@contextmanager
def running_s3() -> Iterator[S3]:
    """A started server. Raises `NotHere`."""
    if not gateway().exists():
        raise NotHere(f"no S3 server is built. {HOW}")
    with guarded_folder("holdfast-s3-") as folder:
        server = S3(folder)
        try:
            server.start()
            yield server
        finally:
            server.kill()
