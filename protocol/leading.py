"""How a driver that stands by sends a node on to the one that leads.

Answered by `driver.adapters.rest.standby` with 503, read by the links of executor and daemon.
"""

from collections.abc import Mapping

LEADER = "Holdfast-Leader"
"""Header of such an answer: where the driver that leads is, http://HOST:PORT."""


def leader_of(headers: Mapping[str, str]) -> str:
    """The address that an answer names; "" where it names none."""
    url = headers.get(LEADER, "").rstrip("/")
    return url if url.startswith(("http://", "https://")) else ""
