"""Which job is meant by a name, and what is said where none is. Pure.

Used by the routes, and by the command line where no driver runs. Where jobs are in namespaces they
are called NAMESPACE.NAME, and NAME alone is enough for one that nobody else has.
"""

from collections.abc import Iterable

from holdfast.kit import alike

LISTED = 10
"""Names that a reader takes in."""


def fitting(name: str, jobs: Iterable[str]) -> list[str]:
    """The job of exactly this name, else all of this name in any namespace."""
    known = sorted(jobs)
    return [name] if name in known else [each for each in known if last(each) == name]


def last(name: str) -> str:
    """Without its namespace, if it has one."""
    return name.rpartition(".")[2]


def none_of(kind: str, name: str) -> str:
    return f"there is no {kind} {name!r}."


def instead(kind: str, name: str, known: Iterable[str]) -> str:
    """What there is: names like the one that was given, else the first few of all."""
    there = sorted(known)
    if not there:
        return f"There is no {kind} at all."
    if like := [each for each in there if _is_like(name, each)]:
        return f"Did you mean {' or '.join(like[:LISTED])}?"
    more = f" and {len(there) - LISTED:,} more" if len(there) > LISTED else ""
    return f"{kind.capitalize()}s that there are: {', '.join(there[:LISTED])}{more}."


def _is_like(name: str, there: str) -> bool:
    """Also where the end is left out: of a run's name that is a few random characters."""
    return there.startswith(name) or bool(alike.near(name, (there, last(there))))


def several(name: str, jobs: list[str]) -> tuple[str, str]:
    """What is said where a name fits more than one job, and what to do."""
    return f"{name!r} may be any of {', '.join(jobs[:LISTED])}.", "Name one of them whole."
