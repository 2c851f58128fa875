"""The two secrets of a driver: one for people, one for nodes.

Called by `driver.main` at start, and by the edge for each request. Must not be logged or printed.
"""

import hmac
import secrets
from pathlib import Path

from holdfast.driver.ports import PermanentError
from holdfast.kit.files import private_folder, write_atomic
from holdfast.protocol.paths import RunPaths

TOKEN_BYTES = 32
MIN_CHARACTERS = 16
"""A shorter token was not made by us; 16 characters of base64 are 96 bits."""


class Tokens:
    """Both tokens, compared in constant time."""

    def __init__(self, *, user: str, node: str) -> None:
        self._user = user.encode()
        self._node = node.encode()

    def is_user(self, given: str) -> bool:
        return hmac.compare_digest(self._user, given.encode())

    def is_node(self, given: str) -> bool:
        return hmac.compare_digest(self._node, given.encode())

    async def refusal(self, node: str, given: str) -> str:
        """Why a process may not connect as `node`; "" where it has the one token of all nodes."""
        if self.is_node(given):
            return ""
        return (
            "no node token, or a wrong one. Send `Bearer TOKEN` with the content of the driver's "
            "tokens/node"
        )


def bearer(authorization: str | None) -> str:
    """The token of an `Authorization` header; empty, which matches nothing, where there is none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def load_tokens(paths: RunPaths) -> Tokens:
    """Read both tokens; one that is absent is made first, readable by its owner alone.

    Raises `PermanentError` where a file is empty, short, or readable by everybody.
    """
    return Tokens(user=_load(paths.user_token), node=_load(paths.node_token))


def _load(path: Path) -> str:
    if not path.exists():
        private_folder(path.parent)
        made = secrets.token_urlsafe(TOKEN_BYTES) + "\n"
        write_atomic(path, made.encode(), mode=0o600, durable=True)
    if path.stat().st_mode & 0o007:
        raise PermanentError(f"token {path}: everybody can read it. Run: chmod 600 {path}")
    token = path.read_text().strip()
    if len(token) < MIN_CHARACTERS:
        raise PermanentError(
            f"token {path}: {len(token)} characters, at least {MIN_CHARACTERS} are needed. "
            "Remove the file to have one made."
        )
    return token
