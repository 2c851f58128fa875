"""Logging set-up, the same in every process: structlog lines on stderr, JSON off a terminal."""

import contextlib
import sys
from functools import cached_property
from types import ModuleType
from typing import Any, TextIO, cast

from holdfast.kit.plain import visible


def set_up_logs(process: str, *, level: str = "info", json: bool | None = None) -> None:
    """Send log lines of `process` to stderr; `json=None` means JSON unless it is a terminal."""
    import logging

    structlog = _structlog()
    as_json = not sys.stderr.isatty() if json is None else json
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *(() if as_json else (_in_plain_text,)),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Stderr())),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def _in_plain_text(_logger: Any, _method: str, line: Any) -> Any:
    """What a line quotes may not have the terminal's own signs in it; JSON writes them out."""
    return {
        name: visible(value) if isinstance(value, str) else value for name, value in line.items()
    }


class _Stderr:
    """Our stderr, for lines of a log: one that has no room on a full disk must end no process."""

    def __init__(self) -> None:
        self._file = sys.stderr

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()


class LazyLogger:
    """A logger for processes that have to start at once: structlog takes a tenth of a second of
    processor time to import, so it is imported, and set up for `process` where nobody has set it
    up, with the first line that is written.
    """

    process = ""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._logger, name)
        setattr(self, name, method)
        return method

    @cached_property
    def _logger(self) -> Any:
        structlog = _structlog()
        if not structlog.is_configured():
            set_up_logs(LazyLogger.process)
        return structlog.get_logger()


def _structlog() -> ModuleType:
    """structlog, without rich: where that is installed it is imported too, for tracebacks that our
    lines do not have, and takes as long again.
    """
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        if hidden:
            del sys.modules["rich"]
    return structlog
