"""Commands that need more than a driver: demo, chaos, bench. Thin: each loads its own part."""

from importlib import import_module
from typing import Any

import typer

from holdfast.cli.errors import Stopped
from holdfast.cli.shared import examples
from holdfast.protocol import exitcodes

_PASSED_ON = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}
"""These parts have options of their own, `--help` among them."""


def register(app: typer.Typer) -> None:
    for name, (module, says, *shown) in PARTS.items():
        app.command(name, help=says, epilog=examples(*shown), context_settings=_PASSED_ON)(
            _part(module)
        )


PARTS = {
    "demo": (
        "holdfast.lab.demo.main",
        "A real training job on an emulated cluster loses a node and gets it back.",
        "holdfast demo",
        "holdfast demo --fault rank-killed --json",
    ),
    "chaos": (
        "holdfast.lab.chaos.main",
        "Faults done from outside to an emulated cluster, and scored.",
        "holdfast chaos list",
        "holdfast chaos run all --json",
    ),
    "bench": (
        "holdfast.bench.main",
        "Measure Holdfast against its peers, turn by turn on this machine.",
        "holdfast bench recovery --json",
    ),
}


def _part(module: str) -> Any:
    def command(context: typer.Context) -> int:
        try:
            loaded = import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("holdfast"):
                raise
            raise Stopped(
                f"{error.name} is not installed, and this command needs it.",
                fix="Install it: pip install 'holdfast[train]'",
                code=exitcodes.UNAVAILABLE,
            ) from error
        return int(loaded.main(context.args) or 0)

    return command
