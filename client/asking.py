"""Where the driver is, and one question to it. Used by both clients.

An answer becomes a struct of `models`; what a newer driver tells beside is passed over.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.cli import client as cli
from holdfast.cli import find
from holdfast.client.errors import HoldfastError, ours

TIMEOUT_S = 30.0


class Driver:
    """One driver: an address with a token, or found as the command line finds it."""

    def __init__(
        self,
        url: str | None,
        *,
        state: str | Path | None,
        run: str | None,
        token: str | None,
        ca: str,
        timeout_s: float,
    ) -> None:
        self._target = find.Target(url=url, state=Path(state) if state else None, job=run)
        self._token, self._ca, self._timeout_s = token, ca, timeout_s
        self._known = self.found()

    @property
    def url(self) -> str:
        return self._known.url

    def found(self) -> cli.Client:
        """Looked for anew: one that was started again may have another port."""
        with ours():
            if self._token is not None and self._target.url:
                url = self._target.url
                return cli.Client(url, self._token, ca=self._ca, timeout_s=self._timeout_s)
            return find.client(self._target)

    def ask(
        self,
        method: str,
        parts: Sequence[str | int],
        kind: Any,
        *,
        query: Mapping[str, Any] | None,
        body: Any,
        key: str | None,
    ) -> Any:
        """The answer as `kind`; text where that is None. Raises `HoldfastError`."""
        where = "/" + "/".join(quote(str(part), safe="") for part in parts)
        headers = {} if key is None else {"Idempotency-Key": key}
        with ours():
            told = self._known.ask(method, where, query=query, body=_sent(body), headers=headers)
        return told if kind is None else _read(told, kind, self.url)


def _sent(body: Any) -> Any:
    """Without what was left out, where it is of arguments of ours."""
    if not isinstance(body, dict):
        return body
    return {name: value for name, value in body.items() if value is not None}


def _read(told: Any, kind: Any, url: str) -> Any:
    try:
        return msgspec.convert(told, kind, strict=False)
    except msgspec.ValidationError as error:
        raise HoldfastError(
            f"the driver at {url} answered what this version does not know: {error}.",
            "Use the holdfast that the driver has: holdfast --version",
        ) from error
