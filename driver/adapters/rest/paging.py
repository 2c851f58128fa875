"""Lists page by page: at most `limit` items, and a token to go on from. Pure."""

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import TypeVar

from holdfast.driver.adapters.rest.problems import Problem

T = TypeVar("T")

DEFAULT_LIMIT = 50
MAX_LIMIT = 500


def page(
    items: Iterable[T], *, key: Callable[[T], int], limit: int, token: str | None
) -> tuple[list[T], str | None]:
    """Items after `token` in order of `key` (unique), and the token of the next page or None."""
    after = decoded(token) if token else -1
    rest = sorted((item for item in items if key(item) > after), key=key)
    shown = rest[:limit]
    more = len(rest) > limit
    return shown, base64.urlsafe_b64encode(str(key(shown[-1])).encode()).decode() if more else None


def decoded(token: str) -> int:
    """The place that a continue token stands for. Raises `Problem` (400)."""
    try:
        return int(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, binascii.Error) as error:
        why = "the continue token is not one of ours."
        raise Problem(400, why, fix="Use the one of the last page, or leave it out.") from error
