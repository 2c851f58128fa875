"""What the daemon is told by its environment. The only file of the daemon that reads it."""

import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

import msgspec

from holdfast.protocol import nodeenv
from holdfast.protocol.nodeenv import BadSettings
from holdfast.protocol.paths import NodePaths
from holdfast.traces.sinks import amiss


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One node's daemon; 0 is no probe port.

    Each driver URL is https://HOST:PORT, http:// or unix:/path.
    """

    node: str
    address: str
    interface: str
    driver_urls: tuple[str, ...]
    driver_ca: str = ""
    token_file: Path
    paths: NodePaths
    probe_port: int
    traces: str = ""
    """Where spans go: see `traces.sinks`."""
    metrics: str = ""
    """HOST:PORT of its metrics; empty: none."""
    traces_secret: Path | None = None
    """File with the password of the Redis where they go."""

    def traces_password(self) -> str:
        """Read once; "" where there is none, or where it cannot be read: Redis then says so."""
        try:
            return self.traces_secret.read_text().strip() if self.traces_secret else ""
        except (OSError, ValueError):
            return ""

    def token(self) -> str:
        """The node's token, read anew for each connection. Raises `OSError`."""
        return self.token_file.read_text(encoding="ascii").strip()


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings. Raises `BadSettings` with all that is missing or wrong, in sentences."""
    wrong = [*nodeenv.mistakes(environment), *mistakes(environment)]
    port = environment.get(nodeenv.PROBE_PORT) or "0"
    traces, metrics = environment.get(nodeenv.TRACES, ""), environment.get(nodeenv.METRICS, "")
    if wrong:
        raise BadSettings(" ".join(wrong))
    secret = environment.get(nodeenv.TRACES_PASSWORD_FILE)
    return Settings(
        node=environment[nodeenv.NODE],
        address=nodeenv.address_of(environment),
        interface=environment.get(nodeenv.IFNAME, ""),
        driver_urls=nodeenv.urls_of(environment),
        driver_ca=nodeenv.ca_of(environment),
        token_file=Path(environment[nodeenv.TOKEN_FILE]),
        paths=nodeenv.paths_of(environment),
        probe_port=int(port),
        traces=traces,
        metrics=metrics,
        traces_secret=Path(secret) if secret else None,
    )


def mistakes(environment: Mapping[str, str]) -> list[str]:
    """What is wrong of what a person may set, a sentence each with the fix. Who starts a daemon
    on this machine asks first: one that refuses its settings is started again and again."""
    wrong = []
    port = environment.get(nodeenv.PROBE_PORT) or "0"
    if not port.isdecimal() or int(port) > 65_535:
        wrong.append(f"{nodeenv.PROBE_PORT}: {port!r} is no port: set it to 1 to 65535, or 0.")
    if why := amiss(environment.get(nodeenv.TRACES, "")):
        wrong.append(f"{nodeenv.TRACES}: {why}")
    metrics = environment.get(nodeenv.METRICS, "")
    if metrics and (why := _amiss(metrics)):
        wrong.append(f"{nodeenv.METRICS}: {metrics!r} {why}: set it to 127.0.0.1:9464, say.")
    return wrong


def _amiss(address: str) -> str:
    """What is wrong with HOST:PORT, or ""."""
    host, _, port = address.rpartition(":")
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return "has no IP address"
    return "" if port.isdecimal() and 0 < int(port) <= 65_535 else "has no port of 1 to 65535"
