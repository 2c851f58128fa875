"""What a keeper is told on its command line. The only reader of it."""

import argparse
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.kit.tls import ca_in
from holdfast.protocol.nodeenv import Drivers


class Settings(NamedTuple):
    """One local cluster."""

    state: Path
    nodes: int
    racks: int
    driver: Drivers
    token_file: Path
    run_id: str  # "" where the state has one already
    die_with_fd: int | None


def parser(prog: str) -> argparse.ArgumentParser:
    """The options that every keeper has; the emulator adds its own."""
    made = argparse.ArgumentParser(prog=prog, allow_abbrev=False)
    made.add_argument("--state", type=Path, required=True, help="folder for everything it keeps")
    made.add_argument("--nodes", type=_at_least_one, default=1, help="nodes that carry ranks")
    made.add_argument("--standbys", type=int, default=0, help="nodes more, held warm")
    made.add_argument("--racks", type=_at_least_one, default=1, help="racks the nodes stand in")
    made.add_argument("--token-file", type=Path, help="the driver's node token (tokens/node)")
    made.add_argument("--run-id", default="", help="mark of the run, for sweeps; default: random")
    made.add_argument("--die-with-fd", type=int, help="end when this descriptor is at its end")
    return made


def read(arguments: Sequence[str] | None = None) -> Settings:
    options = parser("python -m holdfast.keeper.main")
    options.add_argument(
        "--driver", required=True, help="https://ADDRESS:PORT, http:// or unix:/path"
    )
    options.add_argument("--driver-ca", type=_ca, metavar="FILE", help="the driver's ca.crt")
    given = options.parse_args(arguments)
    return common(given, driver=Drivers([given.driver], given.driver_ca or ""))


def common(given: argparse.Namespace, *, driver: Drivers) -> Settings:
    """The settings behind the options of `parser`."""
    state = given.state.resolve()
    return Settings(
        state=state,
        nodes=given.nodes + given.standbys,
        racks=min(given.racks, given.nodes + given.standbys),
        driver=driver,
        token_file=(given.token_file or state / "tokens" / "node").resolve(),
        run_id=given.run_id or secrets.token_hex(6),
        die_with_fd=given.die_with_fd,
    )


def _ca(path: str) -> str:
    """The PEM in a file."""
    try:
        return ca_in(Path(path))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise argparse.ArgumentTypeError(f"{path}: {why}. Name the driver's ca.crt.") from error


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number
