"""axe-core, from npm, which looks for what is hard to read or to hear on a page.

Fetched once into the user's cache. Must not be needed for anything but tests.
"""

import os
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION = "4.10.3"
GRAVE = ("serious", "critical")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def violations(page: "Page") -> list[Any]:
    """What is grave on this page, each with where it is."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(_source())
    found = page.evaluate(f"axe.run(document, {{runOnly: {TAGS}}})")
    return [
        (each["id"], each["help"], [node["html"][:200] for node in each["nodes"]])
        for each in found["violations"]
        if each["impact"] in GRAVE
    ]


@cache
def _source() -> str:
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_home / "holdfast" / f"axe-core-{VERSION}"
    script = folder / "axe.min.js"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _fetch(folder, script)
    return script.read_text()


def _fetch(folder: Path, script: Path) -> None:
    packed = folder / f"axe-core-{VERSION}.tgz"
    pack = ["npm", "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", str(folder)]
    try:
        subprocess.run(pack, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        if os.environ.get("HOLDFAST_TEST_BROWSER") == "required":
            raise
        pytest.skip(f"axe-core cannot be had: {error}")
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        script.write_bytes(member.read())
    packed.unlink()
