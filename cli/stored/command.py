"""The command `checkpoint` and those below it."""

from collections.abc import Callable

import typer

from holdfast.cli.shared import examples, group
from holdfast.cli.stored.convert import convert
from holdfast.cli.stored.ls import ls
from holdfast.cli.stored.show import show
from holdfast.cli.stored.verify import verify

TYPED: dict[Callable[..., object], tuple[str, ...]] = {
    ls: ("ls last", "ls file:///data/ckpt"),
    show: ("show last", "show /data/ckpt/life-7f3a91c2d4b0865e --rank 3"),
    verify: ("verify last", "verify /data/ckpt --json"),
    convert: (
        "convert last model.safetensors",
        "convert model.safetensors /data/begin",
        "convert /data/dcp /data/begin --unsafe-pickle --step 400",
    ),
}


def register(app: typer.Typer) -> None:
    made = group("Look at checkpoints in a store, check and convert them. No driver is needed.")
    for command, typed in TYPED.items():
        epilog = examples(*(f"holdfast checkpoint {line}" for line in typed))
        made.command(command.__name__, epilog=epilog)(command)
    app.add_typer(made, name="checkpoint")
