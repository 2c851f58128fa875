"""What the executor is told by its environment. The only file of the executor that reads it."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.protocol import nodeenv
from holdfast.protocol.nodeenv import BadSettings
from holdfast.protocol.rankenv import NodeFacts


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One node's executor. `driver_url` is http://HOST:PORT or unix:/path."""

    node: NodeFacts
    address: str
    driver_url: str
    token: str


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings. Raises `BadSettings` with all that is missing or wrong, in sentences."""
    if wrong := nodeenv.mistakes(environment):
        raise BadSettings(" ".join(wrong))
    return Settings(
        node=NodeFacts(
            name=environment[nodeenv.NODE],
            paths=nodeenv.paths_of(environment),
            ifname=environment.get(nodeenv.IFNAME, ""),
        ),
        address=nodeenv.address_of(environment),
        driver_url=environment[nodeenv.DRIVER_URL],
        token=_token(environment[nodeenv.TOKEN_FILE]),
    )


def _token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError as error:
        raise BadSettings(
            f"{nodeenv.TOKEN_FILE}: {path!r} cannot be read ({error.strerror}). "
            f"Set it to {nodeenv.REQUIRED[nodeenv.TOKEN_FILE]}."
        ) from error
