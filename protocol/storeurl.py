"""Which stores there are for checkpoints, by their URL. Pure.

Used by the job spec, which refuses every other, and by `checkpoint.stores`, which opens them.
"""

import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

FIX = (
    "Use file:///an/absolute/folder that every node can write to, hdfs://namenode:9870/folder, "
    "s3://bucket/folder, or another protocol:// that fsspec knows."
)
SECRET = "a password has no place in a URL, which is shown to people."
SECRET_FIX = "Give it to the nodes in their environment, as docs/checkpoints.md says."

HDFS = ("hdfs", "webhdfs")
S3 = ("s3", "s3a")
OTHERS = frozenset(
    "abfs adl arrow_hdfs az box dbfs dropbox ftp gcs gdrive gs hf lakefs oci ocilake oss sftp smb "
    "ssh tos tosfs webdav".split()
)
"""Of fsspec's own list (2026.9) the protocols that can be written to and that nodes share."""

_AUTHORITY = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?(,[A-Za-z0-9.-]+(:\d{1,5})?)*")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class Place(NamedTuple):
    """What a URL names: `authority` is NameNodes, or a bucket, and "" of a folder."""

    scheme: str
    authority: str
    path: str


def place_of(url: str) -> Place | None:
    """The place that `url` names, or None where it is no store that this Holdfast knows."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if "?" in url or "#" in url or "\0" in unquote(url):
        return None
    place = Place(parts.scheme, parts.netloc, unquote(parts.path))
    return place if _is_known(place, url) else None


class Amiss(NamedTuple):
    """What is wrong with what should be a store's URL, after its subject, and what to do."""

    what: str
    fix: str


def amiss(url: str) -> Amiss:
    """Why `url`, of which there is no place, is no store."""
    scheme, slashes, rest = url.partition("://")
    authority = rest.partition("/")[0]
    if not slashes and url.startswith("/"):
        return Amiss("is a path, and no URL.", f"Write file://{url}")
    if slashes and ("?" in url or "#" in url):
        return Amiss("has a ? or a #, which end the path of a URL.", "Write %3F or %23 for it.")
    if slashes and scheme in _AMISS:
        return _AMISS[scheme](url, authority)
    return Amiss("is no store that this Holdfast knows.", FIX)


def _no_folder(url: str, host: str) -> Amiss:
    if not host:
        return Amiss("names no absolute folder.", "Write file:///and/the/whole/path")
    return Amiss(f"names a host, {host!r}, and no folder.", "Write three slashes: file:///folder")


def _no_hdfs(url: str, namenodes: str) -> Amiss:
    if _AUTHORITY.fullmatch(namenodes):
        return Amiss("names no folder in HDFS.", f"Add one: {url}/checkpoints")
    what = f"has {namenodes!r} where its NameNode belongs." if namenodes else "names no NameNode."
    return Amiss(what, "Write hdfs://namenode:9870/folder; HADOOP_USER_NAME says who the user is.")


def _no_bucket(url: str, bucket: str) -> Amiss:
    what = f"has {bucket!r} where its bucket belongs." if bucket else "names no bucket."
    fix = "A bucket's name is 3 to 63 small letters, digits, dots and dashes: s3://bucket/folder"
    return Amiss(what, fix)


def _no_place(url: str, _: str) -> Amiss:
    return Amiss("names no place.", f"Add one: {url}bucket/folder")


_AMISS: dict[str, Callable[[str, str], Amiss]] = {
    "file": _no_folder,
    **dict.fromkeys(HDFS, _no_hdfs),
    **dict.fromkeys(S3, _no_bucket),
    **dict.fromkeys(OTHERS, _no_place),
}


def has_password(url: str) -> bool:
    """Whether somebody wrote `protocol://user:password@…`."""
    before, at, _ = url.partition("://")[2].partition("/")[0].rpartition("@")
    return bool(at) and ":" in before


def _is_known(place: Place, url: str) -> bool:
    scheme, authority, path = place
    if scheme == "file":
        return not authority and path.startswith("/")
    if "://" not in url or has_password(url):
        return False
    if scheme in HDFS:
        return bool(_AUTHORITY.fullmatch(authority)) and path.startswith("/")
    if scheme in S3:
        return bool(_BUCKET.fullmatch(authority))
    return scheme in OTHERS and bool(authority or path.strip("/"))
