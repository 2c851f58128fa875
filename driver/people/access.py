"""Whom the driver serves: who may ask what of it, and who changes jobs that are objects elsewhere.

`main` gives `control` the one that belongs to its cluster; the REST application asks it. Must not
keep a person's token any longer than a request lasts, and never show it; the page's sessions do, in
memory (`adapters.page.sessions`).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from holdfast.driver.adapters.tokens import Tokens


class Right(StrEnum):
    """What a person may be allowed to do."""

    SEE_JOBS = "see jobs"
    SEE_JOB = "see the job"
    READ_LOGS = "read the job's logs"
    SUBMIT = "submit a job"
    CHANGE_JOB = "change the job"
    DELETE_JOB = "delete the job"
    SEE_NODES = "see nodes"
    CHANGE_NODES = "change nodes"


class Rebuff(Exception):
    """Not for this person, or not now: a sentence, and what to do. Nothing was changed."""

    def __init__(self, why: str, *, fix: str = "") -> None:
        super().__init__(why)
        self.fix = fix


class Stranger(Rebuff):
    """Nobody is known by this token."""


class NotAllowed(Rebuff):
    """The person is known, and may not do this."""


class NotThere(Rebuff):
    """There is no such job."""


class InTheWay(Rebuff):
    """Something else is so: the name is taken."""


class Wrong(Rebuff):
    """What was sent is not right."""


class Objects(Protocol):
    """Jobs that are objects elsewhere, changed there with the token of whoever asks.

    Each raises a `Rebuff`, or `ports.TemporaryError`.
    """

    async def submit(self, token: str, document: Mapping[str, Any]) -> str:
        """Make the object; the name of its job here."""
        ...

    async def suspend(self, token: str, job: str, *, suspend: bool) -> None: ...

    async def delete(self, token: str, job: str) -> None: ...


class People(Protocol):
    """See the module."""

    @property
    def objects(self) -> Objects | None:
        """None where jobs are the driver's own."""
        ...

    async def check(self, token: str, right: Right, job: str = "") -> None:
        """Raises `Stranger`, `NotAllowed`, or `ports.TemporaryError` where that is not known now.

        `job`: which one, or a pattern of them; "" for all.
        """
        ...


SEND = "Send `Authorization: Bearer TOKEN`; TOKEN is in tokens/user of the state folder."


def no_token() -> Stranger:
    return Stranger("no token was sent.", fix=SEND)


def wrong_token() -> Stranger:
    return Stranger("the token is not the one of this driver.", fix=SEND)


class TokenHolders:
    """Whoever has the one token of people may do everything; jobs are the driver's own."""

    objects = None

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def check(self, token: str, right: Right, job: str = "") -> None:
        if not self._tokens.is_user(token):
            raise wrong_token()
