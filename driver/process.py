"""The driver's process: from its settings to a driver that leads, serves, and ends when told.

`python -m holdfast.driver.main --state DIR [--listen 127.0.0.1:0] [--keeper SOCKET]
[--journal postgresql://USER@HOST/DATABASE]`. Ends cleanly on SIGTERM and SIGINT, and by itself once
another driver has taken over; after anything else the next start takes the journal's word for
everything.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from pydantic import ValidationError
from pydantic_settings import CliApp
from starlette.types import Receive, Scope, Send

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.adapters.tokens import Tokens, load_tokens
from holdfast.driver.cluster.outside import Outside, check_rights, outside
from holdfast.driver.journal.opening import check_journal, open_journal
from holdfast.driver.lead.journal_away import LeadWithJournal, insist, tried
from holdfast.driver.lead.lock import Locked, take_lock
from holdfast.driver.lead.opening import open_lead
from holdfast.driver.lead.standby import Lead, keep_lead, stand_by, title
from holdfast.driver.people.console import say, say_all, say_to_people, wrong
from holdfast.driver.ports import PermanentError, TakenOver, TemporaryError
from holdfast.driver.serve.listening import Listening, announce, listen, url, withdraw
from holdfast.driver.serve.probes import Readiness, probed
from holdfast.driver.serve.server import Server
from holdfast.driver.serve.tls import Tls, open_tls
from holdfast.driver.settings import Settings
from holdfast.driver.wiring import Driver
from holdfast.kit import garbage
from holdfast.kit.clock import SystemClock, WorldClock
from holdfast.kit.documented import describe
from holdfast.kit.files import private_folder
from holdfast.kit.limits import raise_open_files
from holdfast.kit.logs import LazyLogger, set_up_logs
from holdfast.kit.owned import when_owner_is_gone
from holdfast.kit.together import until_first
from holdfast.protocol import exitcodes
from holdfast.protocol.nodeenv import Drivers

SEEN_WITHIN_S = 3.0
"""A node that connects gives up after 5 s."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = LazyLogger()


def run(arguments: Sequence[str]) -> int:
    """Run a driver until it is told to end. The exit code, see `protocol.exitcodes`."""
    if {"-h", "--help"} & {*arguments}:
        describe(Settings)
    try:
        settings = CliApp.run(Settings, cli_args=list(arguments))
    except ValidationError as error:
        for each in error.errors():
            say(wrong(each))
        return exitcodes.USAGE
    set_up_logs("driver", level=settings.log_level)
    raise_open_files()
    code = exitcodes.OK
    try:
        asyncio.run(_serve(settings))
    except* (Locked, TakenOver, TemporaryError) as now:
        code = say_all(now, exitcodes.TRY_AGAIN)
    except* PermanentError as permanent:
        code = say_all(permanent, exitcodes.CONFIGURATION)
    return code


async def _serve(settings: Settings) -> None:
    paths = settings.paths
    try:
        private_folder(paths.root)
        private_folder(paths.jobs)  # also where the state is in a folder that others read
    except OSError as error:
        text = f"state {paths.root}: {error.strerror}. Name another folder with --state."
        raise PermanentError(text) from error
    take_lock(paths.lock)
    tokens = load_tokens(paths)
    sockets = listen(settings)
    async with contextlib.AsyncExitStack() as stack:
        for each in filter(None, sockets):
            stack.enter_context(each)
        stack.callback(withdraw, paths)
        await check_rights(settings)
        if settings.standby:
            with contextlib.suppress(TemporaryError):  # a database that is away says nothing
                await tried(partial(check_journal, settings))
        readiness = await stack.enter_async_context(probed(sockets.probes))
        tls = await _tls(settings) if settings.tls else None
        if settings.tls and not tls:
            return
        if tls:
            tls.publish(paths)
            stack.callback(asyncio.create_task(tls.keep()).cancel)
        readiness.able = True
        lead = None
        if settings.standby:
            name = title(settings.name, settings.advertise or url(settings, sockets.tcp))
            lead = await stack.enter_async_context(open_lead(settings, name=name))
            journal = await _wait_for(lead, settings, sockets, tls)
        else:
            journal = open_journal(settings)
        if journal:
            stack.callback(journal.close)
            await _serve_on(settings, sockets, tls, tokens, journal, lead, readiness)


async def _tls(settings: Settings) -> Tls | None:
    """With `--standby` once the database answers; None where this driver was told to end before."""
    opening = partial(open_tls, settings, SystemClock())
    if not settings.standby:
        return opening()
    told = asyncio.Event()
    _end_when_told(told.set, settings.die_with_fd)
    try:
        return await insist(opening, told)
    finally:
        _end_at_once()


async def _wait_for(
    lead: Lead, settings: Settings, sockets: Listening, tls: Tls | None
) -> SqlJournal | None:
    """The journal, once this driver leads; None where it was told to end before."""
    from holdfast.driver.adapters.rest.standby import Waiting

    waiting = Waiting()
    server = Server(waiting.app, tls.context if tls else None)
    _end_when_told(server.tell, settings.die_with_fd)
    say_to_people(f"driver stands by at {url(settings, sockets.tcp)}")
    whole = LeadWithJournal(lead, settings)
    try:
        led = await stand_by(whole, server, [sockets.tcp, sockets.unix], say=waiting.say)
    finally:
        _end_at_once()
    return whole.journal if led else None


async def _serve_on(
    settings: Settings,
    sockets: Listening,
    tls: Tls | None,
    tokens: Tokens,
    journal: SqlJournal,
    lead: Lead | None,
    readiness: Readiness,
) -> None:
    clock, at = WorldClock(), url(settings, sockets.tcp)
    listening = Drivers((at,), tls.ca if tls else "")
    async with outside(settings, tokens, clock=clock, listening=listening) as around:
        driver = Driver(
            settings,
            journal=journal,
            last_lines=journal,
            entries=journal,
            positions=journal,
            outside=around,
            clock=clock,
        )
        loading = asyncio.create_task(asyncio.to_thread(driver.app))

        async def once_loaded(scope: Scope, receive: Receive, send: Send) -> None:
            await (await loading)(scope, receive, send)

        def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            ready = loading.result() if loading.done() else once_loaded
            return ready(scope, receive, send)

        server = Server(app, tls.context if tls else None)
        _end_when_told(server.tell, settings.die_with_fd)
        async with asyncio.TaskGroup() as group:
            leading = [group.create_task(keep_lead(lead))] if lead else []

            async def begin() -> None:
                await driver.start(group)
                await asyncio.gather(loading, _seen(around))

            with garbage.kept():
                await until_first(begin(), _told(server))
            if not server.told.is_set():
                driver.answers(readiness)
                announce(settings, sockets)
                say_to_people(f"driver ready at {at}, state in {settings.paths.root}")
                term = driver.loop.state.term
                _log.info("driver started", state=str(settings.paths.root), term=term)
                await server.serve([sockets.tcp, sockets.unix])
            driver.leave()
            for task in leading:
                task.cancel()


async def _told(server: Server) -> None:
    """Until this driver is to end, which it can before it serves."""
    await server.told.wait()


async def _seen(around: Outside) -> None:
    """Until the cluster was seen, or that takes long: who connects waits in the socket's queue,
    where a thousand nodes cost nothing.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SEEN_WITHIN_S):
            await around.seen()


def _end_when_told(tell: Callable[[], object], die_with_fd: int | None) -> None:
    """By a signal, or by the end of whoever started us."""
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, tell)
    if die_with_fd is not None:
        when_owner_is_gone(die_with_fd, tell)


def _end_at_once() -> None:
    """On a signal that comes between two servers: nothing is led yet."""
    for number in SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(number)
