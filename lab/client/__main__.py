"""Writes the client's models and methods anew: `python -m holdfast.lab.client`, `make client`."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fastapi.routing import APIRoute

from holdfast.driver.adapters.rest.app import make_app, routes
from holdfast.driver.adapters.rest.description import SCHEMAS, operations
from holdfast.driver.adapters.rest.guard import PREFIX
from holdfast.driver.settings import Settings
from holdfast.driver.watch import JobProgress
from holdfast.kit.clock import SystemClock
from holdfast.lab.client import methods, models
from holdfast.lab.client.methods import Operation

ROOT = Path(__file__).resolve().parents[2] / "client"
ANSWERED: dict[str, Any] = {"GET /jobs/{job}/progress": JobProgress | None}
"""Of routes whose answer is no `View`."""


def interface() -> list[Operation]:
    """Every operation of the driver."""
    settings = Settings(state=Path("nowhere"), _cli_parse_args=[])  # type: ignore[call-arg]
    unasked = SimpleNamespace(settings=settings, clock=SystemClock())
    document = make_app(unasked).openapi()  # type: ignore[arg-type]
    answers = dict(_answers())
    return [
        Operation(
            name=name,
            path=path,
            says=str(operation.get("description", "")),
            parameters=tuple(operation.get("parameters", ())),
            body=SCHEMAS.get(name),
            answer=answers.get(name),
        )
        for name, path, operation in operations(document, PREFIX)
    ]


def _answers() -> Any:
    for route in routes():
        assert isinstance(route, APIRoute)
        assert route.methods
        (method,) = route.methods
        name = f"{method} {route.path.removeprefix(PREFIX)}"
        kind = ANSWERED.get(name, route.response_model)
        yield name, None if kind is str else kind


def files() -> dict[str, str]:
    """By name, as they ought to be, before they are laid out."""
    found = interface()
    kinds = [each.answer for each in found if each.answer is not None]
    return {"models.py": models.source(kinds), "operations.py": methods.source(found)}


def laid_out(name: str, text: str) -> str:
    """As `ruff format` has it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(ROOT / name), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    for name, text in files().items():
        (ROOT / name).write_text(laid_out(name, text))


if __name__ == "__main__":
    main()
