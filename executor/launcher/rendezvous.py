"""The epoch's rendezvous: a TCPStore server, and nothing else.

Forked by the launcher of the first node. Prints its port as one line of JSON, then waits to be
ended. Must not outlive the executor, which ends it with the epoch: it ends itself where that was
killed, and nobody above ends what it leaves.
"""

import json
import os
import select
import socket
import sys


def main(address: str, executor: int) -> None:
    """Serve on a free port of `address` for as long as the process `executor` is there. Raises
    `OSError` where that is not an address of ours.
    """
    there = os.pidfd_open(executor)
    from torch._C._distributed_c10d import TCPStore

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(1024)
    port = listener.getsockname()[1]
    store = TCPStore(
        address,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    os.write(1, json.dumps({"port": store.port}).encode() + b"\n")
    select.select([there], [], [])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
