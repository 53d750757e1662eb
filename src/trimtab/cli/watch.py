"""`trimtab watch`: every scale-down of a cluster, followed by watching alone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.output import is_terminal, line, output_option, warn
from trimtab.cli.reports import render_summary
from trimtab.cli.source import Source, client_of, config_option, live_options

if TYPE_CHECKING:
    from trimtab.inspection.observing import ObservedScaleDown


@click.command(
    epilog="""
\b
Examples:
  trimtab watch                                  until Ctrl-C, then a report
  trimtab watch --for 3600                       for an hour
  trimtab watch -n shop                          one namespace
  trimtab watch -o json > scaledowns.jsonl       a line of JSON for each; `trimtab report -f` reads them
"""
)
@click.option("--for", "seconds", type=click.FloatRange(min=0), help="End after so many seconds.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many scale-downs.")
@output_option("json")
@config_option
@live_options
def watch(
    seconds: float | None,
    count: int | None,
    output: str | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    config: Path | None,
) -> None:
    """Follow every scale-down: what the controller left, and what Trimtab would have left.

    Nothing is installed and nothing is written: list and watch rights are enough. Ends with a report.
    """
    from trimtab.inspection.summaries import summarize

    source = Source(kubeconfig, context, namespace, config=config)
    found: list[ObservedScaleDown] = []
    asyncio.run(_follow(source, found, seconds, count, output))
    report = summarize(found)
    if output is None:
        line()
        render_summary(report)
    else:
        warn(report.sentence())


async def _follow(
    source: Source, found: list[ObservedScaleDown], seconds: float | None, count: int | None, output: str | None
) -> None:
    from trimtab.inspection import reading
    from trimtab.inspection.observing import FOLLOWED, ScaleDownObserver

    endpoint, settings = source.endpoint(), source.settings()
    ended = asyncio.Event()

    def report(record: ObservedScaleDown) -> None:
        found.append(record)
        line(_json(record) if output == "json" else _sentence(record))
        if count is not None and len(found) >= count:
            ended.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    async with client_of(endpoint) as client:
        scope, kinds, gaps = await reading.readable(
            client, namespace=source.namespace or endpoint.namespace, kinds=(*FOLLOWED, *settings.owners.custom)
        )
        for gap in gaps:
            warn(gap.sentence())
        observer = ScaleDownObserver(client, settings, report, namespace=source.namespace or scope, kinds=kinds)
        following = asyncio.ensure_future(observer.run())
        await _first(following, observer.wait_synced())
        where = f"namespace {source.namespace or scope}" if source.namespace or scope else "all namespaces"
        warn(f"following the scale-downs of {where}" + ("; Ctrl-C ends with a report" if is_terminal() else ""))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _first(following, ended.wait())
        observer.check()
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _first(following: asyncio.Future[None], wanted: Coroutine[Any, Any, object]) -> None:
    """Wait for something while the observer runs; an error of the observer is raised."""
    waiting: asyncio.Future[Any] = asyncio.ensure_future(wanted)
    try:
        await asyncio.wait([following, waiting], return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()
    finally:
        waiting.cancel()


def _json(record: ObservedScaleDown) -> str:
    from trimtab.api import codec

    return codec.encode(record).decode()


def _sentence(record: ObservedScaleDown) -> str:
    """One scale-down in one line."""
    subject = f"{record.time} {record.namespace}/{record.kind}/{record.name} {record.from_} → {record.to}"
    return f"{subject}: {record.sentence()}"
