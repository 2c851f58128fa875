"""What the executor is told by its environment. The only file of the executor that reads it."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.protocol.paths import NodePaths
from holdfast.protocol.rankenv import NodeFacts


class BadSettings(ValueError):
    """The environment does not say what an executor needs; the message names it all."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One node's executor. `driver_url` is http://HOST:PORT or unix:/path."""

    node: NodeFacts
    address: str
    driver_url: str
    token: str


_REQUIRED = {
    "HOLDFAST_NODE": "the node's name",
    "HOLDFAST_DRIVER_URL": "http://HOST:PORT or unix:/path/driver.sock",
    "HOLDFAST_NODE_TOKEN_FILE": "a file with the node's token",
    "HOLDFAST_SCRATCH": "a folder on the node's disk",
    "HOLDFAST_MEMORY": "a folder in the node's tmpfs",
}


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings. Raises `BadSettings` with all that is missing, in sentences."""
    wrong = [
        f"{name} is not set: set it to {what}."
        for name, what in _REQUIRED.items()
        if not environment.get(name)
    ]
    if wrong:
        raise BadSettings(" ".join(wrong))
    url, token_file = environment["HOLDFAST_DRIVER_URL"], environment["HOLDFAST_NODE_TOKEN_FILE"]
    if not url.startswith(("http://", "https://", "unix:")):
        raise BadSettings(f"HOLDFAST_DRIVER_URL: {url!r} is neither http://, https:// nor unix:.")
    try:
        token = Path(token_file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise BadSettings(
            f"HOLDFAST_NODE_TOKEN_FILE: {token_file!r} cannot be read ({error.strerror})."
        ) from error
    paths = NodePaths(
        scratch=Path(environment["HOLDFAST_SCRATCH"]), memory=Path(environment["HOLDFAST_MEMORY"])
    )
    return Settings(
        node=NodeFacts(
            name=environment["HOLDFAST_NODE"],
            paths=paths,
            ifname=environment.get("HOLDFAST_IFNAME", ""),
        ),
        address=environment.get("HOLDFAST_NODE_ADDRESS") or "127.0.0.1",
        driver_url=url,
        token=token,
    )
