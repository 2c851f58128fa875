"""The command `driver`: run a driver here, in the foreground."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.shared import examples


def register(app: typer.Typer) -> None:
    app.command(
        "driver",
        epilog=examples("holdfast driver --state /var/lib/holdfast --listen 127.0.0.1:7480"),
    )(driver)


def driver(
    state: Annotated[Path, typer.Option(metavar="DIR", help="Tokens, logs of jobs, the journal.")],
    listen: Annotated[str, typer.Option(metavar="ADDRESS:PORT")] = "127.0.0.1:0",
    keeper: Annotated[
        Path | None, typer.Option(metavar="SOCKET", help="The keeper that has the nodes.")
    ] = None,
    journal: Annotated[
        str,
        typer.Option(
            metavar="postgresql://USER@HOST/DATABASE",
            help="The journal, where it is not to be in DIR; its password by PGPASSFILE.",
        ),
    ] = "",
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait while another driver on that journal leads.")
    ] = False,
    tls: Annotated[
        bool, typer.Option("--tls", help="Speak TLS on TCP; DIR/ca.crt is whom to trust for it.")
    ] = False,
) -> None:
    """Run a driver until Ctrl-C. This process becomes the driver."""
    sys.stdout.flush()
    command = [sys.executable, "-m", "holdfast.kit.interrupt", "holdfast.driver.main"]
    command += ["--state", str(state), "--listen", listen]
    command += ["--keeper", str(keeper)] if keeper else []
    command += ["--journal", journal] if journal else []
    command += ["--standby"] if standby else []
    command += ["--tls"] if tls else []
    os.execv(sys.executable, command)
