"""Whether ranks could meet in a Redis: asked of what a person types, before anything is started."""

import os

from pydantic import ValidationError

from holdfast.protocol.communication import Communication
from holdfast.rendezvous.install import NO_LIBRARY, PASSWORD

PATIENCE_S = 5.0
LEAST = (6, 2)
"""Version of Redis that moves an element of a list to the list itself, blocking."""


def wrong_with(url: str) -> str:
    """Why they could not, in a sentence with what to do; "" where they can. Loads no torch."""
    try:
        Communication(rendezvous=url)
    except ValidationError as error:
        return str(error.errors()[0]["msg"])
    try:
        import redis
    except ModuleNotFoundError:
        return NO_LIBRARY
    limits = {"socket_connect_timeout": PATIENCE_S, "socket_timeout": PATIENCE_S}
    secret = {"password": os.environ[PASSWORD]} if PASSWORD in os.environ else {}
    try:
        with redis.Redis.from_url(url, **limits, **secret) as client:
            version = str(client.info("server")["redis_version"])
    except redis.AuthenticationError as error:
        return f"{url} asks for a password ({error}). Set {PASSWORD}."
    except redis.RedisError as error:
        return f"{url} does not answer as a Redis does ({error}). Is it running, and reachable?"
    if tuple(int(part) for part in version.split(".")[:2]) < LEAST:
        return f"{url} is Redis {version}. It has to be 6.2 or newer."
    return ""
