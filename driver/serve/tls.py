"""The TLS of the driver's TCP listener (`--tls`): what it shows, and whom nodes trust for it.

Made by `driver.main` before anybody is served, for a driver in waiting is asked too. The CA is the
drivers' own, in the journal that they share, unless a certificate is given. Must not write or log
a key.
"""

import asyncio
import os
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.driver.extras import not_installed
from holdfast.driver.journal.opening import open_journal
from holdfast.driver.ports import Pair, PermanentError
from holdfast.driver.settings import Settings, parts
from holdfast.kit.clock import Clock
from holdfast.kit.files import write_atomic
from holdfast.kit.logs import LazyLogger
from holdfast.kit.tls import ca_in
from holdfast.protocol.paths import RunPaths

LOOK_S = 60.0
"""Between two looks whether there is a newer certificate."""

HERE = ("localhost", "127.0.0.1", "::1")
"""Where a driver is for those beside it, and behind `kubectl port-forward`."""

_log = LazyLogger()


class Tls:
    """A context for listeners, whose certificate follows `newest`, and the PEM of its CA."""

    def __init__(self, newest: Callable[[], Pair], *, ca: str) -> None:
        """`ca`: "" where all the world knows it. Raises `PermanentError`."""
        self.ca = ca
        self.context = _context()
        self._newest = newest
        self._shown: Pair | None = None
        self.renew()

    def renew(self) -> None:
        """Show the newest certificate to whoever connects from now on.

        Raises `PermanentError` where it is not good; then the one before is shown still.
        """
        pair = self._newest()
        if pair != self._shown:
            _load(_context(), pair)  # half of a bad one would spoil a context
            _load(self.context, pair)
            self._shown = pair

    async def keep(self) -> None:
        """Renew for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                self.renew()
            except (PermanentError, OSError) as error:
                _log.warning("certificate not renewed", why=str(error))

    def publish(self, paths: RunPaths) -> None:
        """Put the CA's certificate, which is no secret, where people find it."""
        if self.ca:
            write_atomic(paths.ca, self.ca.encode())
        else:
            paths.ca.unlink(missing_ok=True)


def open_tls(settings: Settings, clock: Clock) -> Tls:
    """What the settings say; the first driver of a journal makes the CA.

    Raises `PermanentError`, and `TemporaryError` where the journal cannot be had now.
    """
    if settings.tls_certificate and settings.tls_key:
        ca = _ca(settings.tls_ca) if settings.tls_ca else ""
        return Tls(partial(_given, settings.tls_certificate, settings.tls_key), ca=ca)
    try:
        from holdfast.driver.adapters.authority import Issued, new_authority
    except ModuleNotFoundError as error:
        raise not_installed("tls", error, "tls") from error
    journal = open_journal(settings, beside=settings.standby)
    try:
        authority = journal.authority(lambda: new_authority(clock.wall()))
    finally:
        journal.close()
    return Tls(Issued(authority, hosts(settings), clock), ca=authority.certificate)


def hosts(settings: Settings) -> list[str]:
    """Names and addresses at which the settings say that this driver is reached."""
    urls = (urlsplit(url).hostname for url in settings.urls)
    return list(dict.fromkeys(filter(None, (*HERE, parts(settings.listen)[0], *urls))))


def _given(certificate: Path, key: Path) -> Pair:
    """What people brought, read anew each time: whoever renews it changes the files."""
    secret = _read("--tls-key", key)
    if key.stat().st_mode & 0o007:
        raise PermanentError(f"--tls-key {key}: everybody can read it. Run: chmod 600 {key}")
    return Pair(certificate=_read("--tls-certificate", certificate), key=secret)


def _ca(path: Path) -> str:
    try:
        return ca_in(path)
    except (OSError, ValueError) as error:
        raise _not_usable("--tls-ca", path, error) from error


def _read(setting: str, path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise _not_usable(setting, path, error) from error


def _not_usable(setting: str, path: Path, error: OSError | ValueError) -> PermanentError:
    why = getattr(error, "strerror", None) or str(error)
    return PermanentError(f"{setting} {path}: {why}. Name another file.")


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    """By way of a file in memory, for OpenSSL is only asked for files here, and a key is no file's.

    Raises `PermanentError` where key and certificate are none, or not of each other.
    """
    with os.fdopen(os.memfd_create("holdfast-tls"), "w") as file:
        file.write(f"{pair.key}\n{pair.certificate}")
        file.flush()
        try:
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            why = (getattr(error, "reason", None) or str(error)).lower().replace("_", " ")
            raise PermanentError(
                f"tls: certificate and key cannot be used ({why}). "
                "Give --tls-certificate and --tls-key in PEM, the key without a password."
            ) from error


def _no_password() -> str:
    """Else OpenSSL would ask at the terminal."""
    return ""
