"""The files that pages load: the same for all, kept in memory, and read once a process.

Used by `reading`. A page asks for twenty of them at once, and each that is read of a disk waits
for a thread several times: on a driver that hears 12,288 ranks that took half of a page's time.
"""

import mimetypes
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class File(NamedTuple):
    """What it is, and by which name a browser knows that it has it already."""

    data: bytes
    kind: str
    tag: str


def route() -> Route:
    return Route("/static/{path:path}", _answer, methods=["GET"], name="static")


async def _answer(request: Request) -> Response:
    """Raises 404 where there is no such file."""
    file = _all().get(request.path_params["path"])
    if file is None:
        raise HTTPException(404)
    headers = {"ETag": file.tag}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.data, media_type=file.kind, headers=headers)


@cache
def _all() -> dict[str, File]:
    """By path."""
    return dict(_below(files("holdfast.page") / "static", ""))


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, File]]:
    for each in folder.iterdir():
        at = f"{path}{each.name}"
        if each.is_dir():
            yield from _below(each, f"{at}/")
        else:
            kind = mimetypes.guess_type(each.name)[0] or "application/octet-stream"
            data = each.read_bytes()
            yield at, File(data, kind, f'"{sha256(data).hexdigest()[:32]}"')
