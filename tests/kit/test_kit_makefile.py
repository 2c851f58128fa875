"""What `make` says: what to type next after `make setup`, and a line of help for each target."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def made(*words: str) -> list[str]:
    """By itself, also where `make test` has started us."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", *words], cwd=ROOT, env=own, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_setup_ends_with_what_to_type_next() -> None:
    last = made("--dry-run", "setup")[-1]
    assert last.startswith("echo ")
    assert ". .venv/bin/activate, then: holdfast run -n 2 train.py" in last


def test_every_target_that_is_no_file_is_explained() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    explained = {line.split()[1] for line in made("help")}
    untold = {"lint", "types", "layers"}  # parts of `check`
    assert {*phony.group(1).split()} - explained == untold
