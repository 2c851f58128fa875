"""`holdfast checkpoint convert`: to one safetensors file, and back into a folder; from torch's DCP.

Must not read a pickle unless it was told that it may.
"""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import earlier
from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import as_json, say
from holdfast.cli.shared import Json, text
from holdfast.cli.stored.shared import manifest_of, newest_whole, progress, told
from holdfast.page.words import size

FILE = ".safetensors"

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A checkpoint's URL or folder, or a .safetensors file.",
        callback=text,
    ),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A .safetensors file, or the URL or folder of a store.",
        callback=text,
    ),
]


def convert(
    source: Source,
    target: Target,
    key: Annotated[
        str, typer.Option(help="Of a file that is not ours: the state's key for it.", callback=text)
    ] = "model",
    step: Annotated[
        int, typer.Option(min=0, help="Of what is not ours: how many steps it has been trained.")
    ] = 0,
    unsafe_pickle: Annotated[
        bool,
        typer.Option(
            "--unsafe-pickle",
            help="Read a DCP checkpoint's pickles, which run any program of whoever wrote them.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Make one safetensors file of a checkpoint, or a checkpoint of such a file.

    What was converted and is converted back is the same to the last bit. All checksums are
    compared.
    """
    with told():
        made = _made(source, target, key=key, step=step, unsafe_pickle=unsafe_pickle)
    if json:
        as_json({"made": made})
    else:
        say(made)


def _made(source: str, target: str, *, key: str, step: int, unsafe_pickle: bool) -> str:
    if source.endswith(FILE):
        return _folder_of_file(Path(source), target, key, step)
    if _is_dcp(Path(source)):
        return _folder_of_dcp(source, target, step, allowed=unsafe_pickle)
    if not target.endswith(FILE):
        raise misused(
            f"TARGET {target!r} is no {FILE} file.",
            f"Of a checkpoint one file is made: name it *{FILE}",
        )
    return _file(source, Path(target))


def _file(source: str, target: Path) -> str:
    from holdfast.checkpoint.tools.one_file import write_file

    if target.exists():
        raise misused(f"{target} is there already.", "Name another file, or remove it.")
    place = newest_whole(earlier.store_url(source))
    all_bytes = sum(part.shard.size_bytes for part in manifest_of(place).parts if part.shard)
    try:
        with progress("converting", all_bytes) as read:
            layout = write_file(place, target, read)
    except OSError as error:
        raise Stopped(f"cannot write {target}: {error.strerror}.") from error
    return f"{target}: {len(layout.tensors)} tensors, {size(layout.size_bytes)}"


def _is_dcp(folder: Path) -> bool:
    from holdfast.checkpoint.tools.places import DCP_METADATA

    return (folder / DCP_METADATA).is_file()


def _folder_of_file(source: Path, target: str, key: str, step: int) -> str:
    from holdfast.checkpoint.stores import open_store
    from holdfast.checkpoint.tools.one_file import NotOurs, read_file

    url = _store(target)
    if source.exists() and not source.is_file():  # a pipe, say: nobody may write to it
        raise Stopped(f"cannot read {source}: it is no file.")
    try:
        with progress("converting", source.stat().st_size) as read:
            folder = read_file(source, open_store(url), key=key, step=step, read=read)
    except OSError as error:
        raise Stopped(f"cannot read {source}: {error.strerror}.") from error
    except NotOurs as error:
        raise Stopped(f"{error}.") from error
    return f"{url}/{folder}"


def _folder_of_dcp(source: str, target: str, step: int, *, allowed: bool) -> str:
    if not allowed:
        raise misused(
            f"{source} is a checkpoint of torch's DCP: its metadata is a pickle, which runs any "
            "program of whoever wrote it.",
            "If you trust them, add --unsafe-pickle",
        )
    url = _store(target)
    from holdfast.checkpoint.stores import open_store
    from holdfast.checkpoint.tools.dcp import take_over
    from holdfast.checkpoint.tools.one_file import NotOurs

    try:
        return f"{url}/{take_over(source, open_store(url), step=step)}"
    except (NotOurs, TypeError) as error:
        raise Stopped(f"{error}".rstrip(".") + ".") from error


def _store(target: str) -> str:
    """The store that is to be written; a folder need not be there yet."""
    if target.endswith(FILE):
        raise misused(
            f"TARGET {target!r} is a file.", "A checkpoint is made in a store: name its folder."
        )
    return target.rstrip("/") if "://" in target else Path(target).absolute().as_uri()
