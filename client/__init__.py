"""A client of the driver for Python: `from holdfast import Client`, or `AsyncClient`.

`models` and `operations` are written by `holdfast.lab.client` from the driver's own interface;
`sync` and `asynchronous` find the driver and ask it; `following` is the journal as it grows. Must
not be imported by anything of ours: it is for people's scripts and notebooks.
"""

from holdfast.client.asynchronous import AsyncClient
from holdfast.client.errors import HoldfastError, NotReachable, Refused
from holdfast.client.following import Event
from holdfast.client.sync import Client

__all__ = ["AsyncClient", "Client", "Event", "HoldfastError", "NotReachable", "Refused"]
