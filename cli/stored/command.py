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
    says = "Look at checkpoints in a store, check and convert them. No driver is needed."
    made = group(says, epilog=_examples(*(typed[0] for typed in TYPED.values())))
    for command, typed in TYPED.items():
        made.command(command.__name__, epilog=_examples(*typed))(command)
    app.add_typer(made, name="checkpoint")


def _examples(*typed: str) -> str:
    return examples(*(f"holdfast checkpoint {line}" for line in typed))
