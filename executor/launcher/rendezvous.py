"""The epoch's rendezvous: a TCPStore server, and nothing else.

Forked by the launcher of the first node. Prints its port as one line of JSON, then waits to be
ended. Must not outlive the executor, which ends it with the epoch.
"""

import json
import os
import signal
import socket
import sys


def main(address: str) -> None:
    """Serve on a free port of `address`. Raises `OSError` where that is not an address of ours."""
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
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
