"""What our processes log reads alike: words with spaces, and keys in snake case.

A line is found by its words, so they are written out where it is logged and never put together.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.resolve() for path in (ROOT / "src" / "holdfast").iterdir() if path.is_dir())
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
WORDS = re.compile(r"(?:[a-z]+|[A-Z]{2,})(?: (?:[a-z]+|[A-Z]{2,}))*")
"""Lower case, but for what is always written in capitals: API, TLS."""
KEY = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Those of structlog: of `_log`, `log`, `self._log` or a logger made on the spot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            logger = ast.unparse(node.func.value).rpartition(".")[2]
            if node.func.attr in LEVELS and logger in {"_log", "log", "get_logger()"}:
                yield node


def texts(event: ast.expr) -> list[ast.expr]:
    """One of two texts may be chosen where it is logged."""
    return [event.body, event.orelse] if isinstance(event, ast.IfExp) else [event]


def wrong(source: str) -> list[str]:
    """Each call that is not in our style, as it is written."""
    found = []
    for call in calls(ast.parse(source)):
        said = [text.value if isinstance(text, ast.Constant) else None
                for event in call.args[:1] for text in texts(event)]  # fmt: skip
        named = [word.arg for word in call.keywords if word.arg is not None]
        plain = said and all(isinstance(text, str) and WORDS.fullmatch(text) for text in said)
        if not plain or len(call.args) > 1 or not all(map(KEY.fullmatch, named)):
            found.append(ast.unparse(call))
    return found


def test_events_are_words_and_keys_are_in_snake_case() -> None:
    sources = [path for package in PACKAGES for path in package.rglob("*.py")]
    logged = [path for path in sources if any(calls(ast.parse(path.read_text())))]
    assert len(logged) > 30
    assert {path: bad for path in logged if (bad := wrong(path.read_text()))} == {}


@pytest.mark.parametrize(
    "call",
    [
        '_log.info("journal.pruned")',
        '_log.info("Journal pruned")',
        '_log.info("journal pruned.")',
        '_log.info(f"journal {name}")',
        "_log.info(text)",
        "_log.info()",
        '_log.info("pruned %s", name)',
        'self._log.error("pruned", whyNot=1)',
        'structlog.get_logger().error("pruned" if gone else "not-pruned")',
    ],
)
def test_what_is_in_another_style_is_found(call: str) -> None:
    assert wrong(call)


def test_what_is_in_our_style_passes() -> None:
    assert (
        wrong('_log.info("the API server answers" if up else "it is away", node=1, **more)') == []
    )
