"""What a store of one attempt orders from Redis, as commands. Pure.

Used by `redis_store`, and by `bench rendezvous`, whose clients share a process.
"""

from collections.abc import Sequence
from hashlib import sha1
from typing import Any

from holdfast.rendezvous import scripts

KEPT_S = 30 * 86_400
"""How long a key lasts that nobody writes again: what a job leaves is gone after a month."""

FAMILY = 3
"""Siblings from which on they are asked for in one piece: fewer are as soon told one by one."""

SCRIPTS = {
    name: text
    for name, text in vars(scripts).items()
    if name.isupper() and not name.startswith("_")
}
_SHA = {
    name: sha1(text.encode(), usedforsecurity=False).hexdigest() for name, text in SCRIPTS.items()
}

Command = tuple[Any, ...]

BORN = "#born"
"""The key of an attempt that says since when Redis has what its ranks told each other."""


class Orders:
    """Of the attempt `attempt` of the job `job`: neither sees what others write."""

    def __init__(self, *, job: str, attempt: int) -> None:
        self.attempt = attempt
        self._prefix = f"holdfast:{{{job}}}:"
        self._stem = f"{self._prefix}{attempt}:k:"

    def script(self, name: str, keys: Sequence[str], *own: Any) -> Command:
        """Run one of `SCRIPTS`."""
        fence, index = f"{self._prefix}attempt", f"{self._prefix}{self.attempt}:index"
        stems = [self._stem + key for key in keys]
        every = (self.attempt, KEPT_S * 1000, self._prefix)
        return ("EVALSHA", _SHA[name], 2 + len(keys), fence, index, *stems, *every, *own)

    def born(self, mark: str) -> Command:
        """Answered with the mark of the first store of the attempt, this one's if it is that."""
        return self.script("BORN", [BORN], mark)

    def known(self) -> Command:
        """Answered with that mark, or with nothing."""
        return ("LINDEX", self._stem + BORN, 0)

    def wait(self, key: str, within_s: float) -> Command:
        """Answered with the value as soon as it is there, or with nothing."""
        stem = self._stem + key
        return ("BLMOVE", stem, stem, "LEFT", "LEFT", f"{within_s:.3f}")

    def whole(self, family: str, size: int) -> tuple[Command, str]:
        """Have the first `size` of a family told in one piece, and the key where that will be."""
        return self.script("WANT", [family], size), f"{family}#table-{size}"

    def short(self, key: bytes) -> str:
        """As ranks call it."""
        return key.decode().removeprefix(self._stem)


def family_of(keys: Sequence[str]) -> str:
    """What is before the number where they end in /0, /1, … and are alike before; else empty."""
    stem = keys[0][:-1] if len(keys) >= FAMILY else ""
    alike = stem.endswith("/") and all(key == f"{stem}{at}" for at, key in enumerate(keys))
    return stem if alike else ""
