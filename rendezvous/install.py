"""Where a rank's script meets the others when it says nothing of it: `init_process_group()`.

Called by the launcher's forked child before the user's script. Must not load torch: it acts once
the script has.
"""

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from holdfast.protocol import rankenv
from holdfast.telemetry.hooks import once_loaded

PASSWORD = "REDISCLI_AUTH"
"""Where `redis-cli` looks for it, too."""


NO_LIBRARY = "ranks meet in Redis by the library `redis`, which is not installed: holdfast[redis]."


def install(environment: Mapping[str, str] = os.environ) -> None:
    """Make gloo's groups in few questions; meet in Redis where the job says so."""
    once_loaded("torch.distributed.distributed_c10d", _hook_gloo)
    if environment.get(rankenv.RENDEZVOUS):
        once_loaded("torch.distributed.rendezvous", _meet_in_redis)


def _hook_gloo(c10d: Any) -> None:
    from holdfast.rendezvous import one_trip

    one_trip.hook(c10d)


def _meet_in_redis(rendezvous: Any) -> None:
    """In place of what torch does for `env://`."""

    def meet(url: str, timeout: timedelta, **_: object) -> Iterator[tuple[Any, int, int]]:
        asked = parse_qs(urlsplit(url).query)
        rank, size = (
            int(asked[name][0]) if name in asked else int(os.environ[variable])
            for name, variable in (("rank", "RANK"), ("world_size", "WORLD_SIZE"))
        )
        yield store_of(os.environ, timeout=timeout), rank, size
        raise RuntimeError("a rendezvous takes place once: env:// cannot meet again")

    rendezvous._rendezvous_handlers["env"] = meet


def store_of(environment: Mapping[str, str], *, timeout: timedelta) -> Any:
    """The store of this rank's attempt. Raises `DistError`."""
    try:
        from holdfast.rendezvous.redis_store import RedisStore
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise ModuleNotFoundError(NO_LIBRARY, name=error.name) from error
    return RedisStore(
        environment[rankenv.RENDEZVOUS],
        job=f"{environment[rankenv.JOB]}-{environment[rankenv.LIFE]}",
        attempt=int(environment[rankenv.EPOCH]),
        timeout=timeout,
        password=environment.get(PASSWORD),
    )
