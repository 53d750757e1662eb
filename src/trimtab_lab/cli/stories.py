"""`trimtab lab run`: play a story on a cluster, and show what came of it."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from trimtab_lab.box import Box
    from trimtab_lab.scenarios.runner import Outcome, Progress, Runner
    from trimtab_lab.scenarios.stories import Story

Boxes = Callable[[Path, int, "Story"], "Box"]
"""A lab for a story, given its folder and port."""


def find(name: str) -> Story:
    """The story in a file, or one that comes with Trimtab."""
    from trimtab.api.errors import InvalidError
    from trimtab_lab.scenarios import stories

    shipped = stories.shipped() | stories.with_trimtab()
    if name in shipped:
        return stories.load(shipped[name])
    if not Path(name).exists():
        raise InvalidError(name, f"is neither a file nor a story that comes with Trimtab: {', '.join(shipped)}")
    return stories.load(name)


def table_of_stories() -> str:
    """The stories that come with Trimtab, a line each."""
    from trimtab_lab.scenarios import stories

    def lines(found: Mapping[str, Path]) -> list[str]:
        return [f"  {name:26} {' '.join(stories.load(path).description.split())}" for name, path in found.items()]

    return "\n".join(
        [
            "what Kubernetes does alone:",
            *lines(stories.shipped()),
            "with Trimtab:",
            *lines(stories.with_trimtab()),
        ]
    )


async def play(story: Story, kubeconfig: Path | None, boxes: Boxes, *, keep: bool, quiet: bool) -> Outcome:
    """Play a story on the cluster of a kubeconfig, or without one on a lab that lives as long as the story."""
    if kubeconfig is not None:
        return await _play(story, kubeconfig, keep=keep, quiet=quiet)
    async with _temporary_lab(story, boxes, quiet=quiet) as made:
        return await _play(story, made, keep=False, quiet=quiet)


async def _play(story: Story, kubeconfig: Path, *, keep: bool, quiet: bool) -> Outcome:
    from trimtab.kube.client import Client
    from trimtab.kube.config import discover
    from trimtab.kube.sessions import Session
    from trimtab_lab.scenarios.runner import Options, Runner
    from trimtab_lab.scenarios.simulation import simulated

    async with Client(Session(discover(kubeconfig))) as client:
        runner: Runner = Runner(client, simulated(client), Options(keep=keep))
        if not quiet:
            runner.report = _tell
        return await runner.play(story)


@asynccontextmanager
async def _temporary_lab(story: Story, boxes: Boxes, *, quiet: bool) -> AsyncIterator[Path]:
    from trimtab_lab.box import free_port

    with tempfile.TemporaryDirectory(prefix="trimtab-lab-") as folder:
        state, port = Path(folder), free_port()
        ready = asyncio.Event()
        box = boxes(state, port, story)
        box.on_ready = ready.set
        if not quiet:
            click.echo("starting a lab for it", err=True)
        running = asyncio.ensure_future(box.run())
        waiting = asyncio.ensure_future(ready.wait())
        try:
            await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            yield box.kubeconfig
        finally:
            waiting.cancel()
            running.cancel()
            await asyncio.gather(running, waiting, return_exceptions=True)


def _tell(progress: Progress) -> None:
    """Progress goes to standard error: what is printed at the end is the result."""
    from trimtab_lab.scenarios.runner import Began, Ended, Said

    match progress:
        case Said(text):
            click.echo(text, err=True)
        case Began(number, of, title):
            click.echo(f"[{number}/{of}] {title}", err=True)
        case Ended(record) if record.failures:
            click.echo(f"      {'; '.join(record.failures)}", err=True)


def show(outcome: Outcome, output: str) -> None:
    """The pods in each domain after each step: a table for people, JSON for programs."""
    from rich.console import Console

    from trimtab_lab.scenarios import results

    if output == "json":
        click.echo(json.dumps(results.report(outcome), indent=2))
        return
    console = Console()
    for key in outcome.story.topology:
        console.print(_table(outcome, key))
    console.print("as expected" if not outcome.failures else "\n".join(["not as expected:", *outcome.failures]))


def _table(outcome: Outcome, key: str) -> Table:
    from rich.table import Table

    from trimtab_lab.scenarios.runner import ALL

    spreads: list[tuple[Any, Any]] = [
        (record, record.standings[ALL].spreads[key] if record.standings else None) for record in outcome.records
    ]
    domains = sorted({domain for _, spread in spreads if spread for domain in spread.domains})
    table = Table(title=f"{outcome.story.name}: pods by {outcome.story.topology[key]}", title_justify="left")
    table.add_column("step")
    for domain in [*domains, "skew"]:
        table.add_column(domain, justify="right")
    for record, spread in spreads:
        cells = ["–"] * (len(domains) + 1) if spread is None else _cells(spread, domains)
        table.add_row(f"{record.number} {record.title}", *cells)
    return table


def _cells(spread: Any, domains: Sequence[str]) -> list[str]:
    counts = [str(spread.domains[domain]) if domain in spread.domains else "–" for domain in domains]
    return [*counts, str(spread.skew)]


def draw(outcome: Outcome, path: Path) -> None:
    """The chart of the story's first topology key."""
    from trimtab_lab.scenarios import charts

    path.write_text(charts.draw(outcome, next(iter(outcome.story.topology))))
    click.echo(f"the chart is in {path}", err=True)
