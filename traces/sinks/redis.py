"""Blocks in a Redis: a stream a job and attempt, from which `holdfast trace collect` takes them.

Needs a server of version 5 or newer. One that is away, full or slow costs traces, and nobody waits
for it longer than `LIMIT_S`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from holdfast.traces.sinks import Away, Place

LIMIT_S = 2.0
MOST_BLOCKS = 20_000
"""In a stream: beyond that the oldest go. A node writes at most a block a second and attempt, so a
thousand nodes whose stream nobody collects have the last 20 s, and one node hours."""
KEPT_S = 7 * 86_400
"""And a week after the last of them the whole stream goes."""
PREFIX = "holdfast:traces"
INSTALL = "the library redis is not installed (pip install 'holdfast[redis]')"


def key_of(job: str, attempt: int) -> str:
    return f"{PREFIX}:{job}:{attempt}"


class RedisSink:
    """See the module. Raises `Away` where the library is not installed."""

    def __init__(self, url: str, password: str = "") -> None:
        self.named = named(url)
        try:
            import redis
        except ModuleNotFoundError as error:
            raise Away(f"{self.named}: {INSTALL}") from error
        limits = {"socket_connect_timeout": LIMIT_S, "socket_timeout": LIMIT_S}
        secret = {"password": password} if password else {}
        self._errors = (redis.RedisError, OSError)
        self._client: Any = redis.Redis.from_url(url, **limits, **secret)

    def put(self, place: Place, data: bytes) -> None:
        try:
            said = {"node": place.node, "now_s": repr(place.now_s), "block": data}
            key = key_of(place.job, place.attempt)
            with self._client.pipeline(transaction=False) as both:
                both.xadd(key, said, maxlen=MOST_BLOCKS, approximate=True)
                both.expire(key, KEPT_S)
                both.execute()
        except self._errors as error:
            raise Away(f"{self.named}: {_why(error)}") from error

    # ------------------------------------------------------------ what a collector does

    def streams(self) -> dict[str, int]:
        """Keys of streams that have something, each with its length. Raises `Away`."""
        try:
            keys = [key.decode() for key in self._client.scan_iter(match=f"{PREFIX}:*", count=1000)]
            counts = {key: int(self._client.xlen(key)) for key in sorted(keys)}
            return {key: count for key, count in counts.items() if count}
        except self._errors as error:
            raise Away(f"{self.named}: {_why(error)}") from error

    def take(self, key: str, *, most: int = 256) -> Iterator["Taken"]:
        """The oldest blocks of a stream; `drop` those that are kept elsewhere. Raises `Away`."""
        try:
            entries = self._client.xrange(key, count=most)
        except self._errors as error:
            raise Away(f"{self.named}: {_why(error)}") from error
        for number, fields in entries:
            node, now = fields.get(b"node", b"").decode(), fields.get(b"now_s", b"0").decode()
            yield Taken(number.decode(), node, float(now), fields.get(b"block", b""))

    def drop(self, key: str, numbers: list[str]) -> None:
        """Forget these entries. Raises `Away`."""
        try:
            if numbers:
                self._client.xdel(key, *numbers)
        except self._errors as error:
            raise Away(f"{self.named}: {_why(error)}") from error

    def close(self) -> None:
        self._client.close()


class Taken(NamedTuple):
    """An entry of a stream."""

    number: str
    node: str
    now_s: float
    block: bytes


def named(url: str) -> str:
    """The server, without who one is to it."""
    parts = urlsplit(url)
    host = parts.hostname or parts.path
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def _why(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
