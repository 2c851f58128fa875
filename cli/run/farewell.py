"""The end of a run: what was due to the store is written before its nodes, and their memory, go.

Called by `cli.run.follow` when the job has ended.
"""

import time
from collections.abc import Callable
from contextlib import suppress

from holdfast.cli.client import path
from holdfast.cli.errors import Stopped
from holdfast.cli.run.service import Service

WITHIN_S = 20.0
"""Of a store that is away, nothing more can be expected."""
SAY_AFTER_S = 1.0


def until_at_rest(
    service: Service,
    say: Callable[[str], None],
    pause: Callable[[], bool],
    *,
    quiet: bool,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until every node is done with what the job left there; what takes long is said.

    `pause` waits for a moment; False where a person does not want to wait. `quiet`: only what went
    wrong is said.
    """
    started_s, said = now_s(), quiet
    while not _at_rest(service):
        took_s = now_s() - started_s
        if took_s > WITHIN_S or not pause():
            say(f"not waited for, after {took_s:.0f} s: a last checkpoint may not be in the store")
            return
        if took_s > SAY_AFTER_S and not said:
            said = True
            say("the last checkpoint is on its way to the store; Ctrl-C does not wait for it")
        with suppress(Stopped):  # nodes need no driver for it, only we do, to hear of it
            service.look_after()


def _at_rest(service: Service) -> bool:
    """False too while the driver is away, or does not know its nodes yet: both come back."""
    found = service.ask(lambda driver: driver.get(path("nodes")))
    items = found["items"] if found else []
    return bool(items) and all(node["at_rest"] or not node["present"] for node in items)
