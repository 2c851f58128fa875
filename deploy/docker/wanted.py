"""What pip is to install for Holdfast before its sources are there, and in which versions.

Run by the Dockerfiles: `python wanted.py pyproject.toml pins.txt EXTRA…` writes `wanted.txt`, what
the package and these extras require, and `kept.txt`, the constraints. What the base image has stays
as it is there wherever it will do, for a vendor built it for the vendor's machines: torch and numpy
in any case, and the rest unless Holdfast needs a newer one. Needs the standard library alone.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path

VENDORS = frozenset({"torch", "numpy"})
"""What scripts compute with: another one in front of the vendor's would hide it."""


def requirements(pyproject: str, extras: Iterable[str], installed: Mapping[str, str]) -> list[str]:
    """Of the package and its extras, less what is the vendor's and `installed` (version by name).

    Raises `ValueError` where the vendor's is older than Holdfast needs.
    """
    project = tomllib.loads(pyproject)["project"]
    found = list(project["dependencies"])
    for extra in extras:
        found += project["optional-dependencies"][extra]
    return [line for line in found if not _vendors(line, installed)]


def _vendors(line: str, installed: Mapping[str, str]) -> bool:
    """A build before 2.9.0 (2.9.0a0+vendor) counts as 2.9: vendors build from what becomes it."""
    name, _, least = line.partition(">=")
    there = installed.get(name) if name in VENDORS else None
    if there is not None and release(there) < release(least):
        raise ValueError(
            f"the base image has {name} {there}, and Holdfast needs {line}: take a newer image."
        )
    return there is not None


def constraints(pins: str, installed: Mapping[str, str]) -> list[str]:
    """The pins; for what is `installed`, at most the newer of the two: pip leaves what is there
    while it meets all requirements, and takes the pin where not.
    """
    lines = [line.strip().partition("==") for line in pins.splitlines() if "==" in line]
    return [
        f"{name}<={max(pin, public(installed[name]), key=release)}"
        if name in installed
        else f"{name}=={pin}"
        for name, _, pin in lines
    ]


def public(version: str) -> str:
    """Without what a vendor adds to it: `2.9.1+cu130` is 2.9.1."""
    return version.partition("+")[0]


def release(version: str) -> tuple[int, ...]:
    """Its numbers, without the zeros at the end: (2, 9) of 2.9, of 2.9.0 and of 2.9.0a0+vendor."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    parts = [int(each) for each in numbers.group().split(".")] if numbers else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def normal(name: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).strip().lower()


def main(pyproject: str, pins: str, *extras: str) -> None:
    installed = {normal(each.metadata["Name"]): each.version for each in distributions()}
    try:
        wanted = requirements(Path(pyproject).read_text(), extras, installed)
    except ValueError as error:
        sys.exit(str(error))
    Path("wanted.txt").write_text("\n".join(wanted) + "\n")
    kept = constraints(Path(pins).read_text(), installed)
    Path("kept.txt").write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
