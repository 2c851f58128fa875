"""Small disks for tests, mounted where only the process that is tested sees them."""

import os
import subprocess

import pytest


def own_mounts() -> tuple[str, ...]:
    """The command before a command that may mount what it wants; skips where there is none."""
    unshare = ("unshare", "-m") if os.geteuid() == 0 else ("unshare", "-Urm")
    mount = [*unshare, "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/mnt"]
    tried = subprocess.run(mount, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {tried.stderr.strip()}")
    return unshare
