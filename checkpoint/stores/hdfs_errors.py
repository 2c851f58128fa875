"""What HDFS refuses, as errors of a store. Used by `webhdfs` and `datanode`; pure but for names."""

import errno
import os
from typing import Any

import msgspec

from holdfast.checkpoint.stores import (
    NotStored,
    PermanentStoreError,
    StoreError,
    TemporaryStoreError,
)


class NoAnswer(TemporaryStoreError):
    """Nobody listens there, or nothing came in time."""


class Standby(TemporaryStoreError):
    """A NameNode that is not the active one."""


PORT = "Give the port of the NameNode's dfs.namenode.http-address (9870)."

_FORBIDDEN = "Let the nodes' HDFS user read and write there (HADOOP_USER_NAME says who that is)."
_ADVICE = {
    "AccessControlException": _FORBIDDEN,
    "SecurityException": _FORBIDDEN,
    "SnapshotAccessControlException": "That is in a snapshot. Give the job another storeUrl.",
    "AuthorizationException": _FORBIDDEN,
    "AuthenticationException": "This Holdfast does not speak Kerberos: put a gateway before it.",
    "ParentNotDirectoryException": "Give the job a storeUrl that is a folder.",
    "InvalidPathException": "HDFS takes no : in a name.",
    "IllegalArgumentException": "Give the job another storeUrl.",
    "PathComponentTooLongException": "Give the job a shorter storeUrl.",
    "MaxDirectoryItemsExceededException": "Give the job another storeUrl.",
}
"""By the exception's last name: what will fail again until somebody does this."""

_STATUS = {401: "AuthenticationException", 403: "AccessControlException"}
"""What is meant where a gateway says nothing else."""

_SAFE_MODE = "It takes nothing until that is over; `hdfs dfsadmin -safemode get` tells."

_QUOTA = "DSQuotaExceededException NSQuotaExceededException QuotaByStorageTypeExceededException"


def refused(status: int, body: bytes) -> StoreError:
    """The error of an answer of 400 and more."""
    if b"Hadoop IPC port" in body:
        return PermanentStoreError(f"that is a NameNode's port for RPC. {PORT}")
    name, message = _exception(body)
    what = f"{name}: {message}" if name else f"HTTP status {status}"
    if name == "FileNotFoundException" or (status == 404 and not name):
        return NotStored(what)
    if name == "StandbyException":
        return Standby(f"{what}. It is tried again.")
    if (full := _full(name, message)) is not None:
        return TemporaryStoreError(full)
    if "safe mode" in message.lower() or name == "SafeModeException":
        return TemporaryStoreError(f"{what}. {_SAFE_MODE} It is tried again.")
    if "read only mount point" in message:
        return PermanentStoreError(f"{what}. Mount it writable, or give the job another storeUrl.")
    if status in _STATUS and not name:
        name = _STATUS[status]
    if name in _ADVICE:
        return PermanentStoreError(f"{what}. {_ADVICE[name]}")
    return TemporaryStoreError(f"{what}. It is tried again.")


def _exception(body: bytes) -> tuple[str, str]:
    """Its class without packages, and the first line of what it says."""
    try:
        told: Any = msgspec.json.decode(body)["RemoteException"]
        name, message = str(told["exception"]), str(told.get("message") or "")
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return "", ""
    first = (message.strip().splitlines() or [""])[0]
    return name.rpartition(".")[2].rpartition("$")[2], first.rstrip(".")


def _full(name: str, message: str) -> str | None:
    """The words for a quota or a disk that is full: those of an operating system, by which a full
    store is known elsewhere, too."""
    if name in _QUOTA.split() or any(quota in message for quota in _QUOTA.split()):
        why = os.strerror(errno.EDQUOT)
        return f"{why} ({message}). Raise the quota, or give the job another storeUrl."
    nowhere = "could only be written to 0 of" in message and "0 datanode(s) running" not in message
    if nowhere or "DiskOutOfSpaceException" in (name, message.partition(":")[0]):
        why = os.strerror(errno.ENOSPC)
        return f"{why} ({message}). Free space there, or give the job another storeUrl."
    return None
