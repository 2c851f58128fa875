"""How ranks reach each other: a part of the job spec. Pure.

Used by `jobspec`. What ranks find of it in their environment is in `collectives`.
"""

import re
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, field_validator

from holdfast.protocol import collectives
from holdfast.protocol.specmodel import Model, sentence

REDIS_FIX = "Use redis://host:6379/0, rediss://host:6379/0 for TLS, or unix:///path/of/socket."
SECRET = "a password has no place in a URL, which is shown to people."
SECRET_FIX = "Give it to ranks as REDISCLI_AUTH in their environment, as docs/rendezvous.md says."
NO_REDIS = "this is no Redis where ranks could meet."

MOST_INTERFACES = 16
_INTERFACE = re.compile(r"[^\s/:,^=]{1,15}")
"""What Linux takes for a name, but for the signs that mean something to NCCL."""
NO_INTERFACE = "this is no name of a network interface."
INTERFACE_FIX = "Name each wholly, e.g. [eth0, eth1]: at most 15 characters, none of / : , ^ =."


Interface = Annotated[str, Field(max_length=64)]


class Communication(Model):
    """Where ranks meet, and what NCCL and gloo are told; a variable that the job's `env` or a
    node's own environment sets stands."""

    rendezvous: str = Field(default="", max_length=1_024)
    """Redis where ranks meet, e.g. `redis://host:6379/0`: it outlives the node of rank 0. Empty: a
    TCPStore on the first node. The password comes from REDISCLI_AUTH in the ranks' environment,
    on Kubernetes from a Secret by `pod.secretEnv`."""
    interfaces: tuple[Interface, ...] = Field(default=(), max_length=MOST_INTERFACES)
    """Network interfaces of NCCL and gloo, by their whole names, e.g. [eth0]; empty: the node's."""
    nccl_defaults: bool = True
    """Set what large jobs use: NCCL_P2P_NET_CHUNKSIZE, TORCH_NCCL_HIGH_PRIORITY,
    CUDA_DEVICE_MAX_CONNECTIONS."""
    ib_timeout: int = Field(default=collectives.IB_TIMEOUT, ge=1, le=31)
    """NCCL_IB_TIMEOUT: InfiniBand tries again after 4.096 us x 2 to the power of this."""
    ib_retries: int = Field(default=collectives.IB_RETRIES, ge=0, le=7)
    """NCCL_IB_RETRY_CNT: how often it does so before the connection is broken."""
    watchdog_s: int | None = Field(default=None, ge=1, le=86_400)
    """TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: seconds after which torch ends a rank whose NCCL watchdog
    stands still; torch's own by default."""

    @field_validator("rendezvous")
    @classmethod
    def _is_a_redis(cls, url: str) -> str:
        if url:
            check_redis(url)
        return url

    @field_validator("interfaces")
    @classmethod
    def _are_interfaces(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _INTERFACE.fullmatch(name):
                raise sentence(f"{name!r}: {NO_INTERFACE}", INTERFACE_FIX)
        return names

    def environment(self) -> dict[str, str]:
        """What ranks have of it unless it is set otherwise."""
        return collectives.environment(
            large=self.nccl_defaults,
            ib_timeout=self.ib_timeout,
            ib_retries=self.ib_retries,
            interfaces=self.interfaces,
            watchdog_s=self.watchdog_s,
        )


def check_redis(url: str) -> None:
    """Raises `PydanticCustomError` where it names no Redis, or names a password with it."""
    try:
        parts = urlsplit(url)
        known = _names_a_redis(parts)
    except ValueError:
        known = False
    else:
        if parts.password is not None:
            raise sentence(SECRET, SECRET_FIX, secret=True)
    if not known or "?" in url or "#" in url:
        raise sentence(NO_REDIS, REDIS_FIX)


def _names_a_redis(parts: SplitResult) -> bool:
    if parts.scheme == "unix":
        return not parts.netloc and len(parts.path) > 1
    whole_number = re.fullmatch(r"/?\d{0,4}", parts.path) is not None
    has_port = parts.port is None or parts.port > 0
    return (
        parts.scheme in ("redis", "rediss") and bool(parts.hostname) and whole_number and has_port
    )
