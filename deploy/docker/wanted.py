"""What pip is to install for Holdfast before its sources are there, and in which versions.

Run by the Dockerfiles: `python wanted.py pyproject.toml pins.txt EXTRA… > wanted.txt 2> kept.txt`
prints the requirements of the package and of these extras, and on stderr the constraints: the pins,
but for what the base image has already, which stays as it is. A vendor's torch is built for the
vendor's machines, and another one in front of it would hide it. Needs the standard library alone.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path


def requirements(pyproject: str, extras: Iterable[str]) -> list[str]:
    """Of the package and its extras, as pyproject.toml has them."""
    project = tomllib.loads(pyproject)["project"]
    found = list(project["dependencies"])
    for extra in extras:
        found += project["optional-dependencies"][extra]
    return found


def constraints(pins: str, installed: Mapping[str, str]) -> list[str]:
    """The pins, and in the place of those that are `installed` (version by name) what is there."""
    lines = [line.strip() for line in pins.splitlines() if "==" in line]
    others = [line for line in lines if normal(line.partition("==")[0]) not in installed]
    return others + [f"{name}=={version}" for name, version in sorted(installed.items())]


def normal(name: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).strip().lower()


def main(pyproject: str, pins: str, *extras: str) -> None:
    tools = {"pip", "setuptools", "wheel"}
    there = {normal(each.metadata["Name"]): each.version for each in distributions()}
    installed = {name: version for name, version in there.items() if name not in tools}
    print("\n".join(requirements(Path(pyproject).read_text(), extras)))  # noqa: T201
    print("\n".join(constraints(Path(pins).read_text(), installed)), file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
