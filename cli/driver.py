"""The command `driver`: run a driver here, in the foreground."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from holdfast.cli.errors import misused
from holdfast.cli.shared import examples


def register(app: typer.Typer) -> None:
    app.command(
        "driver",
        epilog=examples(
            "holdfast driver --state state --local-nodes 2",
            "holdfast driver --state /var/lib/holdfast --listen 127.0.0.1:7480",
        ),
    )(driver)


def driver(
    state: Annotated[Path, typer.Option(metavar="DIR", help="Tokens, logs of jobs, the journal.")],
    listen: Annotated[str, typer.Option(metavar="ADDRESS:PORT")] = "127.0.0.1:0",
    keeper: Annotated[
        Path | None, typer.Option(metavar="SOCKET", help="The keeper that has the nodes.")
    ] = None,
    local_nodes: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Nodes of this machine, which end with the driver."),
    ] = None,
    local_standbys: Annotated[
        int, typer.Option(min=0, metavar="N", help="Nodes of this machine more, held warm.")
    ] = 0,
    journal: Annotated[
        str,
        typer.Option(
            metavar="postgresql://USER@HOST/DATABASE",
            help="The journal, where it is not to be in DIR; its password by PGPASSFILE.",
        ),
    ] = "",
    webhooks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Who is told what happens: YAML or JSON."),
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait while another driver on that journal leads.")
    ] = False,
    tls: Annotated[
        bool, typer.Option("--tls", help="Speak TLS on TCP; DIR/ca.crt is whom to trust for it.")
    ] = False,
) -> int:
    """Run a driver until Ctrl-C, with --local-nodes together with nodes of this machine."""
    options = _options(listen, journal, standby=standby, tls=tls)
    options += ["--webhooks", str(webhooks)] if webhooks else []
    if local_nodes:
        if keeper:
            raise misused("--keeper: --local-nodes starts a keeper of its own.", "Leave out one.")
        from holdfast.cli import local

        return local.serve(state, options, nodes=local_nodes, standbys=local_standbys)
    if local_standbys:
        raise misused("--local-standbys: without --local-nodes there are none.", "Give both.")
    options += ["--keeper", str(keeper)] if keeper else []
    return _become(["--state", str(state), *options])


def _options(listen: str, journal: str, *, standby: bool, tls: bool) -> list[str]:
    """Those that `driver.main` has, too, as it reads them."""
    flags = {"--standby": standby, "--tls": tls}
    at = ["--journal", journal] if journal else []
    return ["--listen", listen, *at, *(flag for flag, given in flags.items() if given)]


def _become(options: list[str]) -> NoReturn:
    sys.stdout.flush()
    module = ["-P", "-m", "holdfast.kit.interrupt", "holdfast.driver.main"]
    os.execv(sys.executable, [sys.executable, *module, *options])
