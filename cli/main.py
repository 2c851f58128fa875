"""`holdfast`: the command line. Each command is in a file of its own and imports what it needs.

Must start fast: `holdfast --help` and `holdfast run` load neither torch nor FastAPI.
"""

import errno
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer

from holdfast.cli import (
    bench,
    brake,
    burst,
    calibrate,
    curves,
    diagnose,
    digest,
    driver,
    fact,
    goodput,
    incident,
    jobs,
    kubernetes,
    lab,
    logs,
    nodes,
    page,
    pictures,
    ranks,
    runs,
    show,
    stack,
    top,
    update,
    warm,
    webhook,
)
from holdfast.cli.errors import Stopped
from holdfast.cli.output import as_json, complain
from holdfast.cli.run import command as run
from holdfast.cli.run.screen import STDOUT, output_of
from holdfast.cli.shared import State
from holdfast.cli.stored import command as checkpoint
from holdfast.cli.trace import command as trace
from holdfast.cli.usage import unread
from holdfast.protocol import exitcodes

app = typer.Typer(
    name="holdfast",
    help="Keeps training jobs running: notices what breaks, cures it, and says why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_ABOUT_NODES = (nodes, diagnose, calibrate, fact, brake)
_ABOUT_JOBS = (jobs, update, show, incident, goodput, curves, digest, logs)
_TO_LOOK_AT = (page, top, ranks, stack, pictures, burst, trace)
_ALONE = (warm, runs, checkpoint, webhook)
for module in (
    run,
    driver,
    *_ABOUT_JOBS,
    *_TO_LOOK_AT,
    *_ALONE,
    *_ABOUT_NODES,
    lab,
    bench,
    kubernetes,
):
    module.register(app)


FULL = (errno.ENOSPC, errno.EDQUOT)


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    state: State = None,  # of the command that follows, whose own option looks for it here
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"holdfast {installed('holdfast')}")
        raise typer.Exit


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its exit code is one of `protocol.exitcodes`, or the script's own."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        result = app(given, prog_name="holdfast", standalone_mode=False)
    except Stopped as stopped:
        return _tell(stopped, as_json_too="--json" in given)
    except typer.Exit as ended:
        return ended.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return exitcodes.INTERRUPTED
    except SystemExit as ended:  # click's own end where nobody reads its output any more
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        return exitcodes.of_signal(signal.SIGPIPE)
    except OSError as error:
        if error.errno not in FULL:
            raise
        return _unwritten(error)
    except Exception as error:  # noqa: BLE001 — click's own usage errors, whatever their class
        return _misused(error, given)
    return result if isinstance(result, int) else exitcodes.OK


def _unwritten(error: OSError) -> int:
    """Where nothing can be written any more, a word of it goes to stderr, and the rest nowhere."""
    where = error.filename or output_of(STDOUT)
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
    why = f"cannot write to {where}: {error.strerror}."
    told = Stopped(why, fix="Free some space, or write elsewhere.")
    with suppress(OSError):
        return _tell(told, as_json_too=False)
    return told.code


def _tell(stopped: Stopped, *, as_json_too: bool) -> int:
    for line in stopped.details:
        complain(line)
    complain(f"holdfast: {stopped.sentence}  {stopped.fix}".rstrip())
    if as_json_too:
        as_json({"error": stopped.sentence, "fix": stopped.fix, "details": stopped.details})
    return stopped.code


def _misused(error: Exception, words: list[str]) -> int:
    """What click says of words that it cannot read, told as we do; all else is a defect of ours."""
    message = getattr(error, "format_message", None)
    if message is None:
        raise error
    said: str = message()
    if said.startswith("Usage:"):  # no command was given: this is the help
        sys.stderr.write(f"{said}\n")
        return exitcodes.USAGE
    return _tell(unread(error, words), as_json_too="--json" in words)
