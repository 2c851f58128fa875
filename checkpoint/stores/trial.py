"""Whether a store does what a job will ask of it. Used by `holdfast run` before anything starts."""

import os

from holdfast.checkpoint.stores import StoreError, TemporaryStoreError, open_store

AGAIN = " It is tried again."
"""What stores say where an agent asks them."""


def wrong_with(url: str) -> str:
    """Why nothing can be written, read or deleted there, and what to do; "" where all can."""
    try:
        _try(url)
    except StoreError as error:
        return told_once(error)
    return ""


def told_once(error: Exception) -> str:
    """For whoever asks once, and not again."""
    return str(error).removeprefix("store: ").removesuffix(AGAIN)


def _try(url: str) -> None:
    store, name, data = open_store(url), f"trial-{os.urandom(4).hex()}", os.urandom(64)
    store.put(name, [data])
    if b"".join(store.get(name)) != data:
        raise TemporaryStoreError(f"{url} gives back other bytes than were written there.")
    store.delete(name)
