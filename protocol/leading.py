"""How a driver that stands by sends a node on to the one that leads.

Answered by `driver.adapters.rest.standby` with 503, read by the links of executor and daemon.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

LEADER = "Holdfast-Leader"
"""Header of such an answer: where the driver that leads is, http://HOST:PORT."""


def leader_of(headers: Mapping[str, str], *, asked: str) -> str:
    """The address that an answer of `asked` names; "" where it names none, or leads out of TLS."""
    url = headers.get(LEADER, "").rstrip("/")
    schemes = ("https://",) if asked.startswith("https://") else ("http://", "https://")
    return url if url.startswith(schemes) and _is_address(url) else ""


def _is_address(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname and (urlsplit(url).port or 1))
    except ValueError:
        return False
