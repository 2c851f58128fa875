"""`holdfast lab kubernetes`: a real control plane on this machine, to try things on.

Thin: loads its part of the lab when it is called.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import parts
from holdfast.cli.errors import Stopped, misused
from holdfast.cli.shared import examples, group

FOLDER_HELP = "Where the control plane has its data, identities and logs while it runs."
Folder = Annotated[Path, typer.Option("--folder", metavar="DIR", help=FOLDER_HELP)]
DEFAULT = Path("runs/kubernetes")
AS_GIVEN = {"ignore_unknown_options": True, "help_option_names": []}
"""Options of kubectl, --help among them, are kubectl's."""


def register(app: typer.Typer) -> None:
    lab = typer.Typer(help="What stands in for a data centre.", no_args_is_help=True)
    ours = group("A real Kubernetes control plane on this machine, without containers.")
    ours.command("up", epilog=examples("holdfast lab kubernetes up"))(up)
    ours.command("down", epilog=examples("holdfast lab kubernetes down"))(down)
    shown = examples(
        "holdfast lab kubernetes kubectl get nodes",
        "holdfast lab kubernetes kubectl --folder DIR get nodes",
    )
    ours.command("kubectl", context_settings=AS_GIVEN, epilog=shown)(kubectl)
    both = examples(
        "holdfast lab kubernetes up --folder DIR",
        "holdfast lab kubernetes kubectl --folder DIR get nodes",
    )
    lab.add_typer(ours, name="kubernetes", epilog=both)
    app.add_typer(lab, name="lab", epilog=examples("holdfast lab kubernetes kubectl get nodes"))


def up(folder: Folder = DEFAULT) -> int:
    """Start etcd, API server, controllers and scheduler, and keep them until Ctrl-C or `down`.

    The first time the binary is built with Go, which takes 4 to 10 minutes.
    """
    return _done("up", folder)


def down(folder: Folder = DEFAULT) -> int:
    """End what `up` started, and wait until it has ended."""
    return _done("down", folder)


def kubectl(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENT…]", help="As kubectl has them.")
    ] = None,
    folder: Folder = DEFAULT,
) -> int:
    """[--folder DIR] ARGUMENT…: kubectl as admin there. Its --help is kubectl's own."""
    return _done("kubectl", folder, arguments or [])


def _done(what: str, *given: Any) -> int:
    """The exit code. Raises `Stopped` with what kept it from its end."""
    part = parts.CONTROL_PLANE.load()
    try:
        return int(getattr(part, what)(*given))
    except part.Misplaced as misplaced:
        fix = "Start one: holdfast lab kubernetes up" if what != "up" else "Name a new --folder."
        raise misused(str(misplaced), fix) from misplaced
    except part.FAILURES as failure:
        raise Stopped(str(failure)) from failure
