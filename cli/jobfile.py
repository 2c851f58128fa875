"""A job in a YAML (or JSON) file: its values, and the line of each key, so that mistakes have one.

Called by `submit` and `update`. All that can be known here is checked before the driver is asked.
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from holdfast.cli.client import Problem
from holdfast.cli.errors import Stopped
from holdfast.protocol import exitcodes
from holdfast.protocol.jobcheck import check as check_spec
from holdfast.protocol.mistakes import BadDocument, Mistake

NOTHING = "nothing was submitted"


@dataclass(frozen=True)
class Document:
    """A file's values and where each stands: `lines["spec.topology"] == 14`."""

    file: Path
    values: Any
    lines: dict[str, int]
    twice: tuple[Mistake, ...] = ()
    nothing: str = NOTHING

    def line(self, field: str) -> int:
        """The line of `field`, else of the nearest thing around it, else 1."""
        while field:
            if field in self.lines:
                return self.lines[field]
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return 1


STANDARD_INPUT = Path("-")

MOST_REPEATED = 10_000
"""Values that a file may have by naming others once more (`*name`): a few of them in each other
are more than a machine can hold."""


def read(file: Path, nothing: str = NOTHING) -> Document:
    """Read a file, or for "-" standard input; `nothing` says what was not done then.

    Raises `Stopped` (2) where it cannot be read or is not YAML.
    """
    try:
        text = sys.stdin.read() if file == STANDARD_INPUT else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise Stopped(
            f"cannot read {file}: {why}.", fix=f"{nothing.capitalize()}.", code=exitcodes.USAGE
        ) from error
    lines: dict[str, int] = {}
    twice: list[Mistake] = []
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        _check_repeated(root, file, nothing)
        values = loader.construct_document(root) if root is not None else None
        _walk(root, "", lines, twice)
    except RecursionError as error:
        why = f"{file}  a value contains itself, or is nested too deep."
        raise Stopped(nothing, details=[why], code=exitcodes.USAGE) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f"{file}:{mark.line + 1}" if mark else str(file)
        what = getattr(error, "problem", None) or "it cannot be read"
        raise Stopped(
            nothing, details=[f"{at}  not YAML: {what}."], code=exitcodes.USAGE
        ) from error
    return Document(file=file, values=values, lines=lines, twice=tuple(twice), nothing=nothing)


def _check_repeated(root: Any, file: Path, nothing: str) -> None:
    """Before any value is made of them."""
    sizes: dict[int, int] = {}
    if _size(root, sizes) - len(sizes) > MOST_REPEATED:
        why = f"{file}  its aliases (*name) repeat more than {MOST_REPEATED:,} values."
        raise Stopped(nothing, details=[why], code=exitcodes.USAGE)


def _size(node: Any, sizes: dict[int, int]) -> int:
    """Of how many values it is, each counted as often as it is named; `sizes` has one for each."""
    if id(node) not in sizes:
        sizes[id(node)] = 1  # for one that contains itself
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        each = (part if isinstance(part, tuple) else (part,) for part in parts)
        sizes[id(node)] += sum(_size(value, sizes) for pair in each for value in pair)
    return sizes[id(node)]


def check(document: Document, *, on_this_machine: bool) -> None:
    """Refuse what is wrong with it, all at once, each mistake with its line.

    A relative `workdir` is meant from where `submit` was typed; it can be looked at only where the
    driver was found by its state folder, for then its nodes are those of this machine.
    """
    mistakes, more = list(document.twice), 0
    if on_this_machine:
        mistakes += _workdir(document.values)
    try:
        check_spec(_without_namespace(document.values))
    except BadDocument as refused:
        mistakes, more = [*mistakes, *map(_unsigned, refused.mistakes)], refused.more
    if mistakes:
        raise _told(document, mistakes, more=more)


def _unsigned(mistake: Mistake) -> Mistake:
    """With the fix for a number that YAML 1.1 takes for text: it wants a dot, and a sign."""
    told = re.fullmatch(r'"([-+]?\d+)(\.\d+)?[eE]([-+]?)(\d+)" is not a number\.', mistake.why)
    if told is None:
        return mistake
    whole, part, sign, power = told.groups(default="")
    fix = f"Write {whole}{part or '.0'}e{sign or '+'}{power}: YAML wants a dot and a sign."
    return msgspec.structs.replace(mistake, fix=fix)


def _without_namespace(values: Any) -> Any:
    """Whether there are namespaces the driver knows."""
    metadata = values.get("metadata") if isinstance(values, dict) else None
    if not isinstance(metadata, dict):
        return values
    named = {key: value for key, value in metadata.items() if key != "namespace"}
    return values | {"metadata": named}


def refused(document: Document, problem: Problem) -> Stopped:
    """The driver's answer, with the lines of this file."""
    if not problem.mistakes:
        return Stopped(
            f"{document.nothing}: {problem.sentence}", fix=problem.fix, code=problem.code
        )
    return _told(document, [Mistake(**each) for each in problem.mistakes], code=problem.code)


def _told(
    document: Document, mistakes: list[Mistake], *, more: int = 0, code: int = exitcodes.USAGE
) -> Stopped:
    placed = sorted((document.line(each.field), str(each)) for each in mistakes)
    details = [f"{document.file}:{line}  {text}" for line, text in placed]
    if more:
        details.append(f"and {more:,} more")
    return Stopped(document.nothing, details=details, code=code)


def _workdir(values: Any) -> list[Mistake]:
    """Make the job's folder absolute and look at it, whatever else is wrong with the job.

    Only where the ranks run on this machine; in any case their executor looks as well.
    """
    spec = values.get("spec") if isinstance(values, dict) else None
    given = spec.get("workdir", ".") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(given, str) or not given:
        return []  # the check of the whole says it
    workdir = spec["workdir"] = os.path.abspath(given)
    if os.path.isdir(workdir) and os.access(workdir, os.R_OK | os.X_OK):
        return []
    what = "is not readable" if os.path.isdir(workdir) else "is not a folder on this machine"
    return [
        Mistake(
            field="spec.workdir",
            value=given,
            why=f"{given!r} {what}.",
            fix="Name a folder that the ranks can read.",
        )
    ]


def _walk(node: Any, at: str, lines: dict[str, int], twice: list[Mistake]) -> None:
    """Note the line of every key below `node`, and keys that stand twice."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            field = f"{at}.{key.value}" if at else str(key.value)
            if field in lines:
                why = f"it stands here and in line {lines[field]}."
                fix = "Keep one of them."
                twice.append(Mistake(field=field, value="", why=why, fix=fix))
            lines[field] = key.start_mark.line + 1
            _walk(value, field, lines, twice)
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            lines[f"{at}[{place}]"] = value.start_mark.line + 1
            _walk(value, f"{at}[{place}]", lines, twice)
