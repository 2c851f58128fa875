"""Holdfast keeps large training jobs running.

Each folder at the top of the repository is the package ``holdfast.<folder>`` (a symbolic link
beside this file). `ARCHITECTURE.md` says on one page what each is for and what it may import.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from holdfast.client import AsyncClient as AsyncClient
    from holdfast.client import Client as Client

__version__ = "0.1.0"

_P = ParamSpec("_P")
_T = TypeVar("_T")


def run(function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call `function`; after a fault of another rank call it again, in this same process.

    It has to make its process groups and load its state itself (`docs/scripts.md`). Called from the
    main thread. Outside Holdfast it is called once.
    """
    from holdfast.telemetry.reentry import run_again

    return run_again(lambda: function(*args, **kwargs))


def __getattr__(name: str) -> Any:
    """`Client` and `AsyncClient`, loaded once somebody asks: ranks import us, too."""
    if name not in ("Client", "AsyncClient"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast import client

    return getattr(client, name)
