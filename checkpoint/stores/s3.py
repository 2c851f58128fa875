"""A store in a bucket of S3, by boto3. Made by `open_store`.

An object is there once its upload is completed, and not before, so a file is written under its own
name. Where, and with whose keys, boto3 finds out as every other program does: AWS_ENDPOINT_URL,
AWS_ACCESS_KEY_ID, ~/.aws, a role.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

from holdfast.checkpoint.stores import (
    CHUNK_BYTES,
    FLUSH_BYTES,
    Buffer,
    StoredFile,
    missing,
)
from holdfast.checkpoint.stores.resumed import resumed

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as error:
    raise missing("s3://", "s3") from error

from holdfast.checkpoint.stores.s3_errors import code_of, told

CONNECT_S = 5
ANSWER_S = 60
"""Longer than it takes until a store that does not answer is told, see `timed_store`."""
TRIES = 3

DOUBLE_AFTER_PARTS = 1_000
"""An upload has 10,000 parts at most; so they begin with FLUSH_BYTES and double so often."""


class S3Store:
    """Objects whose keys begin with `prefix`. A folder is what keys have before a `/`."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self.prefix = prefix.strip("/")
        with self._told("open", ""):
            self._s3: Any = boto3.session.Session().client(
                "s3",
                config=Config(
                    connect_timeout=CONNECT_S,
                    read_timeout=ANSWER_S,
                    retries={"mode": "standard", "total_max_attempts": TRIES},
                ),
            )

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        parts = _parts(chunks)
        first, second = next(parts, b""), next(parts, None)
        with self._told("write", path):
            if second is None:
                self._s3.put_object(**self._at(path), Body=first)
            else:
                self._put_parts(path, chain((first, second), parts))

    def get(self, path: str, *, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        return resumed(lambda at: self._read(path, at, end), begin)

    def entries(self, folder: str) -> list[StoredFile]:
        prefix = self._prefix_of(folder)
        found: dict[str, StoredFile] = {}
        with self._told("list", folder):
            for page in self._pages("list_objects_v2", Prefix=prefix, Delimiter="/"):
                for inner in page.get("CommonPrefixes", ()):
                    name = inner["Prefix"][len(prefix) : -1]
                    found[name] = StoredFile(name, 0, True)
                for one in page.get("Contents", ()):
                    if name := one["Key"][len(prefix) :]:  # "" is a folder's own mark
                        changed = one.get("LastModified")
                        changed_s = changed.timestamp() if changed else None
                        found[name] = StoredFile(name, one["Size"], False, changed_s)
        return [found[name] for name in sorted(found)]

    def delete(self, path: str) -> None:
        inside = self._prefix_of(path)
        with self._told("delete", path):
            for page in self._pages("list_objects_v2", Prefix=inside):
                self._delete([one["Key"] for one in page.get("Contents", ())])
            self._s3.delete_object(**self._at(path))
            self._give_up(inside)

    # ------------------------------------------------------------ writing

    def _put_parts(self, path: str, parts: Iterable[Buffer]) -> None:
        at = self._at(path)
        upload = self._s3.create_multipart_upload(**at)["UploadId"]
        done = []
        try:
            for number, part in enumerate(parts, 1):
                took = self._s3.upload_part(**at, UploadId=upload, PartNumber=number, Body=part)
                done.append({"PartNumber": number, "ETag": took["ETag"]})
            self._s3.complete_multipart_upload(
                **at, UploadId=upload, MultipartUpload={"Parts": done}
            )
        except BaseException:
            with suppress(BotoCoreError, ClientError):  # else it goes with its folder
                self._s3.abort_multipart_upload(**at, UploadId=upload)
            raise

    # ------------------------------------------------------------ reading

    def _read(self, path: str, begin: int, end: int | None) -> Iterator[bytes]:
        if end is not None and end <= begin:
            return
        wanted = f"bytes={begin}-{'' if end is None else end - 1}"
        ranged = {"Range": wanted} if begin or end is not None else {}
        with self._told("read", path):
            try:
                answer = self._s3.get_object(**self._at(path), **ranged)
            except ClientError as error:
                if code_of(error) in ("InvalidRange", "416"):  # it ends before
                    return
                raise
            yield from answer["Body"].iter_chunks(CHUNK_BYTES)

    # ------------------------------------------------------------ deleting

    def _delete(self, keys: list[str]) -> None:
        if not keys:
            return
        objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = self._s3.delete_objects(Bucket=self._bucket, Delete=objects)
        for refused in answer.get("Errors", ()):
            raise ClientError({"Error": refused}, "DeleteObjects")

    def _give_up(self, prefix: str) -> None:
        """Uploads that somebody began there and did not live to complete: they take room."""
        try:
            for page in self._pages("list_multipart_uploads", Prefix=prefix):
                for one in page.get("Uploads", ()):
                    self._s3.abort_multipart_upload(
                        Bucket=self._bucket, Key=one["Key"], UploadId=one["UploadId"]
                    )
        except ClientError as error:
            if code_of(error) not in ("NotImplemented", "NoSuchUpload"):
                raise

    # ------------------------------------------------------------ both

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self.prefix, path) if part)

    def _prefix_of(self, folder: str) -> str:
        key = self._key(folder)
        return f"{key}/" if key else ""

    def _at(self, path: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._key(path)}

    def _pages(self, what: str, **options: str) -> Iterator[Any]:
        yield from self._s3.get_paginator(what).paginate(Bucket=self._bucket, **options)

    @contextmanager
    def _told(self, what: str, path: str) -> Iterator[None]:
        """Turn boto3's errors into the store's own."""
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            where = f"s3://{self._bucket}/{self._key(path)}"
            raise told(error, what, where) from error


def _parts(chunks: Iterable[Buffer]) -> Iterator[bytearray]:
    """The same bytes in pieces as large as a part has to be; nothing of no bytes."""
    part, number = bytearray(), 0
    for chunk in chunks:
        part += chunk
        if len(part) >= FLUSH_BYTES << number // DOUBLE_AFTER_PARTS:
            yield part
            part, number = bytearray(), number + 1
    if part:
        yield part
