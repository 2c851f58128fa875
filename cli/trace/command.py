"""The command `trace` and those below it."""

from collections.abc import Callable

import typer

from holdfast.cli.shared import examples, group
from holdfast.cli.trace.collect import collect
from holdfast.cli.trace.export import export
from holdfast.cli.trace.ls import ls
from holdfast.cli.trace.pack import pack
from holdfast.cli.trace.query import query

TYPED: dict[Callable[..., object], tuple[str, ...]] = {
    ls: ("ls", "ls --json"),
    query: (
        'query "SELECT rank, avg(own_s) FROM steps GROUP BY rank ORDER BY 2 DESC LIMIT 5"',
        'query --job speech "FROM incidents"',
    ),
    export: ("export speech --perfetto speech.pftrace", "export speech --from 60 --to 90"),
    pack: ("pack speech", "pack --everything"),
    collect: ("collect redis://redis:6379 --once",),
}


def register(app: typer.Typer) -> None:
    says = "Look at what ranks did when. Read from a run's folder: no driver is needed."
    made = group(says, epilog=_examples(*(typed[0] for typed in TYPED.values())))
    for command, typed in TYPED.items():
        made.command(command.__name__, epilog=_examples(*typed))(command)
    app.add_typer(made, name="trace")


def _examples(*typed: str) -> str:
    return examples(*(f"holdfast trace {line}" for line in typed))
