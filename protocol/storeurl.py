"""Which stores there are for checkpoints, by their URL: folders, `file:///an/absolute/path`. Pure.

Used by the job spec, which refuses every other, and by `checkpoint.stores`, which opens them.
"""

from urllib.parse import unquote, urlsplit

FIX = "Use file:///an/absolute/folder that every node can write to."


def folder_of(url: str) -> str | None:
    """The folder that `url` names, or None where it is no store that this Holdfast knows."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    folder = unquote(parts.path)
    plain = parts.scheme == "file" and not (parts.netloc or "?" in url or "#" in url)
    return folder if plain and folder.startswith("/") and "\0" not in folder else None
