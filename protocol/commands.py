"""What the words of a job's command say of what it starts. Pure."""

import re
from collections.abc import Sequence

_PYTHON = re.compile(r"python(3(\.\d+)?)?")
ELSEWHERE = (
    "meets at MASTER_ADDR and MASTER_PORT all the same, unless it makes a "
    "holdfast.rendezvous.redis_store.RedisStore"
)
"""Of what is no script of the Python that runs Holdfast, where ranks are to meet in a Redis."""


def starts_python(command: Sequence[str]) -> bool:
    """Whether it is a script, a module or code of Python: whose Python only its node knows."""
    program, *rest = command or ("",)
    rest = [word for word in rest if word != "-u"]
    known = bool(rest) and (rest[0] in ("-m", "-c") or rest[0].endswith(".py"))
    return _PYTHON.fullmatch(program.rpartition("/")[2]) is not None and known
