"""`python -m holdfast.keeper.pod`: first process of a pod; keeps its executor and daemon alive.

So a recovery in place, and an executor that dies, keep the pod and what is in its memory. Whether
the pod is to be is Kubernetes' to say: there is no lease here. Told to end it has the pod's grace
for it: the executor works until the driver has moved its ranks. What both write is the pod's log.
"""

import os
import select
import sys
import time

from holdfast.keeper import processes
from holdfast.keeper.factory import COMMANDS, with_our_python
from holdfast.keeper.interfaces import interface_of
from holdfast.keeper.supervisor import Supervisor
from holdfast.protocol import exitcodes, nodeenv

LOOK_S = 0.5
"""How often one that waits for its next start is looked at."""


def main() -> int:
    """Until SIGTERM, and then until the executor has no work; see `protocol.exitcodes`."""
    if wrong := nodeenv.mistakes(os.environ):
        sys.stderr.write(f"holdfast pod: {' '.join(wrong)}\n")
        return exitcodes.CONFIGURATION
    processes.become_subreaper()
    paths = nodeenv.paths_of(os.environ)
    supervisor = Supervisor(
        COMMANDS,
        _environment(),
        paths.scratch,
        told={"node": os.environ[nodeenv.NODE]},
        wait_for=os.environ[nodeenv.TOKEN_FILE],
        logs=False,
    )
    while not supervisor.ending:
        supervisor.care(time.monotonic())
        if select.select([supervisor.wake], [], [], LOOK_S)[0]:
            supervisor.heard()
    while not supervisor.let_leave("executor", LOOK_S) and not supervisor.hurried:
        pass
    supervisor.end()
    return exitcodes.OK


def _environment() -> dict[str, str]:
    """Of both processes: ours, with what Kubernetes cannot tell a pod."""
    found = {nodeenv.IFNAME: interface_of(nodeenv.address_of(os.environ))}
    return found | os.environ | {"PATH": with_our_python(os.environ.get("PATH", os.defpath))}


if __name__ == "__main__":
    sys.exit(main())
