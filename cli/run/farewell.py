"""The end of a run: what was due to the store is written before its nodes, and their memory, go.

Called by `cli.run.follow` when the job has ended.
"""

import time
from collections.abc import Callable

from holdfast.cli.client import path
from holdfast.cli.run.service import Service

WITHIN_S = 20.0
"""An executor waits for its checkpoint agent for 15 s; then nothing more will come."""
SAY_AFTER_S = 1.0


def until_at_rest(service: Service, say: Callable[[str], None], pause: Callable[[], None]) -> None:
    """Wait until every node is done with what the job left there; what takes long is said.

    `pause` waits for a moment, and raises where a person does not want to wait.
    """
    started_s, said = time.monotonic(), False
    while not _at_rest(service):
        took_s = time.monotonic() - started_s
        if took_s > WITHIN_S:
            say(f"the last checkpoint did not reach the store within {WITHIN_S:g} s")
            return
        if took_s > SAY_AFTER_S and not said:
            said = True
            say("the last checkpoint is on its way to the store")
        service.look_after()
        pause()


def _at_rest(service: Service) -> bool:
    found = service.ask(lambda driver: driver.get(path("nodes")))
    if found is None:
        return False  # the driver is away, and comes back
    return all(node["at_rest"] or not node["connected"] for node in found["items"])
