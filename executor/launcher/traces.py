"""The traceback of a program that ends by an exception, as `python` would have it.

Used by `child`. Frames of ours are those of what runs the program, at the top, and of wrappers
around what it calls of torch, which pass the exception on. What is raised in one of them stays.
"""

import os
import runpy
from types import TracebackType

_RUNNERS = (os.path.join(os.path.dirname(__file__), "child.py"), runpy.__file__, "<frozen runpy>")
_WRAPPERS = (
    os.path.join("holdfast", "__init__.py"),
    os.path.join("holdfast", "rendezvous", "one_trip.py"),
    *(
        os.path.join("holdfast", "telemetry", name)
        for name in ("hooks.py", "pauses.py", "reentry.py", "workers.py")
    ),
)


def strip(error: BaseException) -> None:
    """Take our frames off it, and off those that led to it."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        BaseException.with_traceback(each, _without_us(each.__traceback__))  # whatever its class
        left += [other for other in (each.__cause__, each.__context__) if other is not None]
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions


def _without_us(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    last = trace
    while last is not None and last.tb_next is not None:
        if _is_ours(last.tb_next):
            last.tb_next = last.tb_next.tb_next
        else:
            last = last.tb_next
    return trace


def _is_ours(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return file in _RUNNERS or (trace.tb_next is not None and file.endswith(_WRAPPERS))
