"""`onefold run`: a worker in the foreground, until a signal or the end of its sources.

It puts together what the configuration names, starts it and tells how it ended; it decides nothing itself.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from onefold.cli.codes import Code
from onefold.cli.facts import iso
from onefold.cli.frame import Asked, Command, asked
from onefold.cli.opened import check_named, found_store, pasted, unusable
from onefold.cli.problems import NOTHING_RAN, Facts, Problem
from onefold.cli.talk import data, emit
from onefold.cli.text import counted
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.core.story import moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onefold.core.ports import AsyncStore
    from onefold.stores.locate import Located
    from onefold.worker.configuration import Configuration, Values, WorkerSettings
    from onefold.worker.running import Worker


@click.command("run", cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME | module:pipeline | file.py:pipeline]...")
@click.option("--once", is_flag=True, help="End when every source was read to its present.")
@click.option(
    "--listen", metavar="[HOST:]PORT", help="Answer /health, /ready and /metrics here; 0 for any port."
)
@click.option("--grace", metavar="DURATION", help="How long running effects may take after a signal; 30s.")
@click.option("--log", metavar="text|json", help="How the log on stderr is written; text.")
def run(names: tuple[str, ...], once: bool, listen: str | None, grace: str | None, log: str | None) -> int:
    """Run pipelines: read sources, act on every record once.

    A NAME is a section of onefold.toml, [pipelines.NAME] or [apps.NAME]; without names every section
    runs. The store is created if it does not exist. Without a terminal, as in cron, name the store with
    --store, $ONEFOLD_STORE or onefold.toml: ./onefold.db is then used only if it exists.

    Ends by itself when all sources have ended. SIGTERM and SIGINT stop it cleanly: nothing more is
    claimed, running effects end within the grace time, the rest is given back; a second signal cuts the
    grace short.

    Exits with 0, or 3 if an effect is in doubt or, when it ends by itself, any work of these pipelines is
    parked. Exits with 1 if with --once a source could not be read, with 130 after SIGINT. If work waits
    for its next attempt, the last line says how much, and until when.

    \b
    Example:
        onefold run prices.py:pipeline --once
    """
    from onefold.worker.configuration import nearest, worker_settings
    from onefold.worker.logs import configure

    options, found = asked(), nearest()
    settings, origins = worker_settings(found, {"listen": listen, "grace": grace, "log": log})
    configure(settings.log)
    return _run(names, once, found, settings, origins, options)


def _run(
    names: Sequence[str],
    once: bool,
    found: Configuration,
    settings: WorkerSettings,
    origins: Values,
    options: Asked,
) -> int:
    import anyio

    from onefold.runtime.threads import left_running
    from onefold.worker.leaving import Leaving
    from onefold.worker.listening import Listening, bound
    from onefold.worker.loading import chosen
    from onefold.worker.observing import Observation
    from onefold.worker.running import Worker
    from onefold.worker.settings import Live

    live = Live()
    located = found_store(options)
    pipelines = chosen(names, found, live)
    check_named(located, "run")
    taken = bound(settings.listen, origins["listen"].origin) if settings.listen else None
    store = _connected(located)
    worker = Worker(pipelines, store=store, grace=settings.grace, once=once, purge=settings.purge)
    worker.leaving = leaving = Leaving()
    observation = Observation(worker)
    worker.beside += [live.attend, observation.attend]
    listening = Listening(taken, observation) if taken else None
    if listening:
        worker.beside.append(listening.attend)

    async def work() -> int:
        await _reached(store, located)
        _announce(worker, located, listening.url if listening else None)
        code = await worker.arun(signals=True)
        # Here and not after the loop: its end waits for threads of the user's.
        _told(worker, code, options)
        if leaving.is_promised:
            leaving.last(code, left_running() > 0)
        return code

    try:
        return anyio.run(work)
    except BaseExceptionGroup as group:
        raise _alone(group) from None


def _connected(located: Located) -> AsyncStore:
    from onefold.stores import aconnect
    from onefold.stores.locate import announce

    try:
        store = aconnect(located.url)
    except Misconfigured as error:
        raise unusable(located, error) from error
    announce(located)
    return store


async def _reached(store: AsyncStore, located: Located) -> None:
    """Ask the store once before anything runs: a worker whose store was never there would wait for ever."""
    from onefold.core.documents import load, named
    from onefold.drive import AsyncPorts, arun

    try:
        await arun(load([named("cursors", "nobody")]), AsyncPorts(store))
    except OnefoldError as error:
        facts = Facts("the store cannot be used", str(error), located.url, located.origin, NOTHING_RAN)
        raise Problem(
            Code.UNREACHABLE, facts._replace(steps=(" ".join(("onefold doctor", *pasted(located))),))
        ) from error


def _announce(worker: Worker, located: Located, url: str | None) -> None:
    import logging

    from onefold.core.redaction import safe_url

    log = logging.getLogger("onefold.worker")
    names = ", ".join(f"{one.name} ({', '.join(one.sources)})" for one in worker.pipelines)
    log.info("%s runs %s on %s (from %s)", worker.name, names, safe_url(located.url), located.origin)
    if url:
        log.info("health, readiness and metrics: %s", url, extra={"url": url})


def _alone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what went wrong, out of the groups that task groups wrap it in."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


# ----- telling


def _told(worker: Worker, code: int, options: Asked) -> None:
    from onefold.worker.report import numbers

    accounts: dict[str, dict[str, Any]] = {
        pipeline: {source: numbers(tally, source) for source in tally.sources}
        for pipeline, tally in worker.tallies.items()
    }
    if options.json:
        emit({"worker": worker.name, "code": code, "pipelines": accounts, "left": _left_json(worker)})
        return
    for pipeline, sources in accounts.items():
        for source, account in sources.items():
            data(f"{pipeline}/{source}: {_line(account)}")

    data(*_parked(worker), *_waiting(worker))


def _left_json(worker: Worker) -> dict[str, Any]:
    return {
        name: {"parked": left.parked, "waiting": left.waiting, "next": iso(left.due)}
        for name, left in worker.leftovers.items()
    }


def _parked(worker: Worker) -> Iterator[str]:
    for name, left in worker.leftovers.items():
        if left.parked:
            look = f"onefold list --parked --scope {quote(name)}"
            yield f"{name}: {counted(left.parked, 'entry', 'entries')} parked, needs a person; see `{look}`"


def _waiting(worker: Worker) -> Iterator[str]:
    for name, left in worker.leftovers.items():
        if left.due is not None:
            number = counted(left.waiting, "entry waits", "entries wait")
            yield f"{name}: {number} for another attempt, from {moment(left.due)} on; run it again then"


def _line(account: dict[str, int]) -> str:
    shown = ["done", "duplicate", "reread", "refused", "in-doubt", "failed", "broken", "gap"]
    told = [f"{account[name]:,} {name}" for name in shown if account.get(name)]
    return ", ".join([counted(account.get("seen", 0), "record") + " seen", *told])
