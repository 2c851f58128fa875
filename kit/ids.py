"""Ids for things that are made outside the journal: process incarnations, requests, runs."""

import secrets


def new_id(prefix: str = "", *, length_bytes: int = 4) -> str:
    """A short random id in hexadecimal, e.g. `run-7f3a91c2`; not a secret."""
    digits = secrets.token_hex(length_bytes)
    return f"{prefix}-{digits}" if prefix else digits
