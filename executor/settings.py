"""What the executor is told by its environment. The only file of the executor that reads it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.protocol import nodeenv
from holdfast.protocol.messages import Task
from holdfast.protocol.nodeenv import BadSettings
from holdfast.protocol.rankenv import NodeFacts


class Ready(NamedTuple):
    """A launcher that is a child of this process from its first moment on, and our end of a socket
    to it."""

    pid: int
    fd: int


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One node's executor. Each driver URL is https://HOST:PORT, http:// or unix:/path.

    `expected`: what the driver is likely to order, to be warm for it before. `show_output`: what
    ranks write is to be read on this process's stdout, too.
    """

    node: NodeFacts
    address: str
    driver_urls: tuple[str, ...]
    driver_ca: str = ""
    token_file: Path
    expected: Task | None = None
    launcher: Ready | None = None
    show_output: bool = False

    def token(self) -> str:
        """The node's token, read anew for each connection. Raises `OSError`."""
        return self.token_file.read_text(encoding="ascii").strip()


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings. Raises `BadSettings` with all that is missing or wrong, in sentences."""
    if wrong := nodeenv.mistakes(environment):
        raise BadSettings(" ".join(wrong))
    settings = Settings(
        node=NodeFacts(
            name=environment[nodeenv.NODE],
            paths=nodeenv.paths_of(environment),
            ifname=environment.get(nodeenv.IFNAME, ""),
        ),
        address=nodeenv.address_of(environment),
        driver_urls=nodeenv.urls_of(environment),
        driver_ca=nodeenv.ca_of(environment),
        token_file=Path(environment[nodeenv.TOKEN_FILE]),
        expected=_expected(environment.get(nodeenv.EXPECTED_TASK, "")),
        launcher=_launcher(environment.get(nodeenv.LAUNCHER, "")),
        show_output=bool(environment.get(nodeenv.SHOW_OUTPUT)),
    )
    _check_token(settings)
    return settings


def _check_token(settings: Settings) -> None:
    try:
        settings.token()
    except OSError as error:
        file = str(settings.token_file)
        raise BadSettings(
            f"{nodeenv.TOKEN_FILE}: {file!r} cannot be read ({error.strerror}). "
            f"Set it to {nodeenv.REQUIRED[nodeenv.TOKEN_FILE]}."
        ) from error


def _launcher(text: str) -> Ready | None:
    try:
        return Ready(*map(int, text.split(":"))) if text else None
    except (TypeError, ValueError) as error:
        raise BadSettings(
            f"{nodeenv.LAUNCHER}: {text!r} is no PID:DESCRIPTOR. Do not set it."
        ) from error


def _expected(text: str) -> Task | None:
    try:
        return msgspec.json.decode(text, type=Task) if text else None
    except msgspec.DecodeError as error:
        raise BadSettings(
            f"{nodeenv.EXPECTED_TASK}: {error}. Set it to the JSON of a task, or not at all."
        ) from error
