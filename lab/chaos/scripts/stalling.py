"""A file system whose one file never answers a read: `python -m … INIT-PID FOLDER`.

Started by `injectors.stalled` in the mounts of a node. Speaks FUSE itself (linux/fuse.h): a read
that was handed to it and is not answered cannot be killed, as one of a dead file server or disk.
When it ends, the kernel fails the read and lets the reader go.
"""

import errno
import os
import stat
import struct
import sys
from enum import IntEnum
from pathlib import Path

from holdfast.lab.emulator import namespaces

FILE = "data"
ROOT, DATA = 1, 2
"""Numbers of its folder and its file."""
DIRECT_IO = 1
"""Else the reader waits for a page, and that can be killed."""
LONGEST = 1 << 17
VALID_S = 3_600
SIZE = 4_096


class Operation(IntEnum):
    """Those of linux/fuse.h that come."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    READ = 15
    INIT = 26
    INTERRUPT = 36
    BATCH_FORGET = 42


UNANSWERED = (Operation.FORGET, Operation.READ, Operation.INTERRUPT, Operation.BATCH_FORGET)


def main() -> None:
    pid, folder = int(sys.argv[1]), Path(sys.argv[2])
    theirs = Path(f"/proc/{pid}/ns/user").stat().st_ino
    ours = Path("/proc/self/ns/user").stat().st_ino
    namespaces.enter(pid, *(() if theirs == ours else ("user",)), "mnt")
    folder.mkdir(parents=True, exist_ok=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    namespaces.mount("stalled", folder, "fuse", options=options)
    while True:
        request = os.read(device, LONGEST)
        _, operation, unique, node = struct.unpack_from("IIQQ", request)
        if operation not in UNANSWERED:
            error, body = answer(operation, node)
            os.write(device, struct.pack("IiQ", 16 + len(body), error, unique) + body)


def answer(operation: int, node: int) -> tuple[int, bytes]:
    """Error and body of the reply. Pure."""
    match operation:
        case Operation.INIT:
            return 0, struct.pack("IIIIHHIIHHI28x", 7, 31, 0, 0, 12, 9, SIZE, 1, 1, 0, 0)
        case Operation.LOOKUP:
            return 0, struct.pack("QQQQII", DATA, 0, VALID_S, VALID_S, 0, 0) + _attributes(DATA)
        case Operation.GETATTR:
            return 0, struct.pack("QII", VALID_S, 0, 0) + _attributes(node)
        case Operation.OPEN:
            return 0, struct.pack("QII", 0, DIRECT_IO, 0)
        case _:
            return -errno.ENOSYS, b""


def _attributes(node: int) -> bytes:
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o444
    owner = (os.getuid(), os.getgid())
    return struct.pack("6Q3I7I", node, SIZE, 1, 0, 0, 0, 0, 0, 0, mode, 1, *owner, 0, SIZE, 0)


if __name__ == "__main__":
    main()
