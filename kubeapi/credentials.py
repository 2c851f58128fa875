"""Where the API server is and who we are to it: from a kubeconfig, or from within a pod.

Used by `client` alone. Tokens in files are renewed by others while we run: once one is refused it
is read again. Client certificates are read once. Must not log or show a token.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from holdfast.kit.errors import PermanentError
from holdfast.kit.logs import LazyLogger

ANOTHER = "Name one with --kubeconfig FILE."

Load = Callable[[], Awaitable[Configuration]]

_log = LazyLogger()


class Credentials:
    """What `load` gives, and the newest Authorization of it. Call `begin` before anything else."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._renewing = asyncio.Lock()
        self.authorization = ""

    async def begin(self) -> Configuration:
        """Raises `PermanentError` in a sentence where the configuration cannot be used."""
        configuration = await self._load()
        self.authorization = _authorization(configuration)
        return configuration

    async def renew(self, refused: str) -> bool:
        """Read again, since the server refused the Authorization `refused`; True: it is another.

        One that cannot be read now stays as it is, so that it is refused and read again.
        """
        async with self._renewing:
            if self.authorization == refused:
                self.authorization = await self._read_again() or refused
            return self.authorization != refused

    async def _read_again(self) -> str:
        try:
            return _authorization(await self._load())
        except PermanentError as error:
            _log.warning("credentials not renewed", why=str(error))
            return ""


def from_kubeconfig(path: Path, context: str | None) -> Load:
    """As kubectl reads it; `context=None` is the file's current one."""

    async def load() -> Configuration:
        configuration = Configuration()
        if not path.exists():  # the library would print that, and raise something else
            raise PermanentError(f"kubeconfig {path} cannot be used: it is not there. {ANOTHER}")
        try:
            await load_kube_config(  # type: ignore[no-untyped-call]
                str(path), context, client_configuration=configuration, persist_config=False
            )
        except (ConfigException, OSError, yaml.YAMLError, TypeError) as error:
            raise PermanentError(
                f"kubeconfig {path} cannot be used: {_sentence(error)} {ANOTHER}"
            ) from error
        return configuration

    return load


def in_cluster() -> Load:
    """As the kubelet puts it into every pod that has a service account."""

    async def load() -> Configuration:
        configuration = Configuration()
        loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]
            SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME, try_refresh_token=False
        )
        try:
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError) as error:
            raise PermanentError(
                f"not in a pod with a service account: {_sentence(error)} {ANOTHER}"
            ) from error
        return configuration

    return load


def as_bearer(server: Configuration, token: str) -> Load:
    """The same server, as whoever holds `token`, and never with our own client certificate: an API
    server believes a certificate before it looks at a token.
    """

    async def load() -> Configuration:
        configuration = Configuration(
            host=server.host,
            ssl_ca_cert=server.ssl_ca_cert,
            verify_ssl=server.verify_ssl,
            tls_server_name=server.tls_server_name,
        )
        configuration.proxy = server.proxy
        configuration.api_key["BearerToken"] = f"Bearer {token}"
        return configuration

    return load


def _sentence(error: Exception) -> str:
    """In one line, with its full stop."""
    return " ".join(str(error).split()).rstrip(".") + "."


def _authorization(configuration: Configuration) -> str:
    return str(configuration.api_key.get("BearerToken", "")).strip()
