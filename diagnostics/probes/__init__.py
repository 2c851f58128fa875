"""The tests themselves, one file each: measure one thing, and say what was measured.

Each has the name of its test in `diagnostics.registry`, and `run(order, node) -> Measured`. Called
by `diagnostics.runner`, which watches the time. A probe may hang; it must not decide.
"""

import msgspec


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe found. `ok` is None where it could not be run."""

    ok: bool | None
    wrong: bool = False  # not ok, and not for being slow: the result is another than it has to be
    value: float | None = None  # in the unit of its test
    detail: str = ""
