"""Numbers with commas between, as a person gives sizes. Pure.

Called by the command line, and by the benchmarks that ask more of a size.
"""


class BadSizes(Exception):
    """What a person asked for cannot be; `what` says why, `fix` what to give instead."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


def counts(text: str, *, option: str = "--nodes", least: int = 1) -> list[int]:
    """The numbers in `N,N,…`, each once, smallest first. Raises `BadSizes`."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise BadSizes(
            f"{option} {text!r}: numbers with commas between are meant.", "Give 500,1000."
        )
    found = sorted({int(word) for word in words})
    if found[0] < least:
        raise BadSizes(f"{option} {found[0]}: it has to be {least} or more.", f"Give {least}.")
    return found
