"""`holdfast trace collect`: spans from a Redis into a run's folder."""

import os
import threading
from typing import Annotated

import typer

from holdfast.cli.errors import misused
from holdfast.cli.output import as_json, complain
from holdfast.cli.shared import Json, State, text
from holdfast.cli.trace import shared
from holdfast.protocol.counts import plural
from holdfast.protocol.nodeenv import TRACES_PASSWORD_FILE

Source = Annotated[
    str, typer.Argument(metavar="URL", help="redis://HOST:PORT, as daemons have it.", callback=text)
]
Once = Annotated[bool, typer.Option("--once", help="What is there now, and no more.")]
PAUSE_S = 1.0


def collect(
    redis: Source,
    once: Once = False,
    job: shared.Job = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Take spans from a Redis, where nodes put them, into a run's folder, where all else reads.

    Goes on until it is interrupted. The password is in the file that HOLDFAST_TRACES_PASSWORD_FILE
    names.
    """
    from holdfast.traces.collect import Collector
    from holdfast.traces.sinks import OFF, amiss
    from holdfast.traces.sinks.redis import RedisSink

    if (why := amiss(redis)) or redis == OFF:
        raise misused(f"URL: {why or 'off is no Redis.'}")
    with shared.told():
        source = RedisSink(redis, _password())
        collector = Collector(source, shared.root(state, job))
        total = collector.collect(job)
        while not once:
            threading.Event().wait(PAUSE_S)
            total += collector.collect(job)
    shared.say_troubles(collector.troubles)
    if json:
        as_json({"blocks": total})
    else:
        complain(f"{plural(total, 'block')} taken from {source.named}")


def _password() -> str:
    path = os.environ.get(TRACES_PASSWORD_FILE)
    if not path:
        return ""
    with open(path) as file:
        return file.read().strip()
