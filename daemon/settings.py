"""What the daemon is told by its environment. The only file of the daemon that reads it."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.protocol.paths import NodePaths


class BadSettings(ValueError):
    """The environment does not say what a daemon needs; the message names it all."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One node's daemon. `driver_url` is http://HOST:PORT or unix:/path; 0 is no probe port."""

    node: str
    address: str
    interface: str
    driver_url: str
    token_file: Path
    paths: NodePaths
    probe_port: int

    def token(self) -> str:
        """The node's token, read anew for each connection. Raises `OSError`."""
        return self.token_file.read_text(encoding="ascii").strip()


_REQUIRED = {
    "HOLDFAST_NODE": "the node's name",
    "HOLDFAST_DRIVER_URL": "http://HOST:PORT or unix:/path/driver.sock",
    "HOLDFAST_NODE_TOKEN_FILE": "a file with the node's token",
    "HOLDFAST_SCRATCH": "a folder on the node's disk",
    "HOLDFAST_MEMORY": "a folder in the node's tmpfs",
}


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings. Raises `BadSettings` with all that is missing or wrong, in sentences."""
    wrong = [
        f"{name} is not set: set it to {what}."
        for name, what in _REQUIRED.items()
        if not environment.get(name)
    ]
    port = environment.get("HOLDFAST_PROBE_PORT") or "0"
    if not port.isdecimal() or int(port) > 65_535:
        wrong.append(f"HOLDFAST_PROBE_PORT: {port!r} is no port: set it to 1 to 65535, or 0.")
    url = environment.get("HOLDFAST_DRIVER_URL", "")
    if url and not url.startswith(("http://", "https://", "unix:")):
        wrong.append(f"HOLDFAST_DRIVER_URL: {url!r} is neither http://, https:// nor unix:.")
    if wrong:
        raise BadSettings(" ".join(wrong))
    return Settings(
        node=environment["HOLDFAST_NODE"],
        address=environment.get("HOLDFAST_NODE_ADDRESS") or "127.0.0.1",
        interface=environment.get("HOLDFAST_IFNAME", ""),
        driver_url=url,
        token_file=Path(environment["HOLDFAST_NODE_TOKEN_FILE"]),
        paths=NodePaths(
            scratch=Path(environment["HOLDFAST_SCRATCH"]),
            memory=Path(environment["HOLDFAST_MEMORY"]),
        ),
        probe_port=int(port),
    )
