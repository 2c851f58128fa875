"""CAs and servers' certificates for tests, and a clock that a test sets.

Used by tests of TLS. Made by the driver's own adapter.
"""

import os
import ssl
from datetime import UTC, datetime, timedelta

from holdfast.driver.adapters.authority import issue, new_authority
from holdfast.driver.ports import Pair

NOW = datetime.now(UTC)
CA = new_authority(NOW)
STRANGER = new_authority(NOW)
DAY = timedelta(days=1)


class WallClock:
    """A `kit.clock.Clock` that stands still."""

    def __init__(self, wall: datetime = NOW) -> None:
        self.now = wall

    def monotonic_s(self) -> float:
        return 0.0

    def wall(self) -> datetime:
        return self.now


def show(
    context: ssl.SSLContext, authority: Pair, *hosts: str, at: datetime = NOW
) -> ssl.SSLContext:
    """Have a server show, from now on, a certificate that was made `at` that time."""
    pair = issue(authority, hosts or ("127.0.0.1",), at)
    with os.fdopen(os.memfd_create("test"), "w") as file:
        file.write(f"{pair.key}{pair.certificate}")
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
