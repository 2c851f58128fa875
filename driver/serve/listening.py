"""Where the driver can be reached: its TCP port, its Unix socket, and the file that says both.

Used by `driver.main`, after the lock is held. A restart has the port of the driver before, so that
executors find it where it was.
"""

import contextlib
import os
import socket
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.driver.ports import PermanentError
from holdfast.driver.settings import Settings, parts
from holdfast.kit.files import write_atomic
from holdfast.protocol.paths import RunPaths

BACKLOG = 4_096
"""Two connections of each node wait in the socket's queue after a restart. Linux has no more by
default (net.core.somaxconn)."""

USER_TIMEOUT_MS = 10_000
"""Sent bytes that stay unacknowledged so long end the connection (TCP_USER_TIMEOUT, tcp(7))."""

MAX_SOCKET_PATH_BYTES = 107
"""Of `sun_path` less its end, unix(7)."""


class Listening(NamedTuple):
    """Sockets that listen; `probes` where a port for them is wanted."""

    tcp: socket.socket
    unix: socket.socket
    probes: socket.socket | None


def listen(settings: Settings) -> Listening:
    """Raises `PermanentError` where an address cannot be had."""
    with contextlib.ExitStack() as taken:
        unix = taken.enter_context(_unix(settings.paths.socket))
        tcp = taken.enter_context(_tcp(settings))
        probes = _asked_for("probes", settings.probes) if settings.probes else None
        taken.pop_all()
    return Listening(tcp, unix, probes)


def announce(settings: Settings, sockets: Listening) -> None:
    """Write the address file: from now on the driver answers."""
    port = sockets.tcp.getsockname()[1]
    paths = settings.paths
    where = {"http": url(settings, sockets.tcp), "socket": str(paths.socket), "pid": os.getpid()}
    if sockets.probes:
        where["probes"] = _http(sockets.probes)
    write_atomic(paths.port, f"{port}\n".encode())
    write_atomic(paths.address, msgspec.json.encode(where) + b"\n")


def url(settings: Settings, tcp: socket.socket) -> str:
    """http://HOST:PORT of a listening socket, or https:// where it speaks TLS."""
    return _http(tcp, "https" if settings.tls else "http")


def withdraw(paths: RunPaths) -> None:
    """Take address file and socket away: the driver does not answer any more."""
    paths.address.unlink(missing_ok=True)
    paths.socket.unlink(missing_ok=True)


def _http(tcp: socket.socket, scheme: str = "http") -> str:
    host, port = tcp.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _tcp(settings: Settings) -> socket.socket:
    """The port asked for; for 0 the one of the driver before, if it is still free."""
    host, port = parts(settings.listen)
    if port == 0 and settings.paths.port.exists():
        with contextlib.suppress(OSError):
            return _bind(host, int(settings.paths.port.read_text()))
    return _asked_for("listen", settings.listen)


def _asked_for(option: str, address: str) -> socket.socket:
    try:
        return _bind(*parts(address))
    except OSError as error:
        why = error.strerror or error
        raise PermanentError(f"{option} {address}: {why}. Give another with --{option}.") from error


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tcp = socket.socket(family, socket.SOCK_STREAM)
    try:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
        tcp.bind((host, port))
        tcp.listen(BACKLOG)
    except OSError:
        tcp.close()
        raise
    return tcp


def _unix(path: Path) -> socket.socket:
    """For its owner alone. What lies there is of a driver that is gone: we hold the lock."""
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise PermanentError(
            f"state {path.parent}: too long a path for a Unix socket, whose limit is "
            f"{MAX_SOCKET_PATH_BYTES} bytes. Give a shorter --state."
        )
    path.unlink(missing_ok=True)
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        unix.bind(str(path))
    finally:
        os.umask(before)
    unix.listen(BACKLOG)
    return unix
