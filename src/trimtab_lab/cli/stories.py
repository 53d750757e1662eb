"""`trimtab lab run`: run a story on a cluster and print its outcome."""

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

    from trimtab_lab.scenarios.runner import Outcome, Progress, Runner
    from trimtab_lab.scenarios.stories import Story
    from trimtab_lab.supervisor import Supervisor

SupervisorFactory = Callable[[Path, int, "Story"], "Supervisor"]
"""Makes the supervisor of a temporary lab, given its folder, its port and the story."""


def find_story(name: str) -> Story:
    """Read the story with this name: one that comes with Trimtab, or a file."""
    from trimtab.api.errors import InvalidError
    from trimtab_lab.scenarios import stories

    kubernetes_stories = stories.kubernetes_stories() | stories.gated_stories() | stories.trimtab_stories()
    if name in kubernetes_stories:
        return stories.load(kubernetes_stories[name])
    if not Path(name).exists():
        raise InvalidError(
            name, f"is neither a file nor a story that comes with Trimtab: {', '.join(kubernetes_stories)}"
        )
    return stories.load(name)


def list_stories() -> str:
    """List the stories that come with Trimtab, one per line."""
    from trimtab_lab.scenarios import stories

    def lines(found: Mapping[str, Path]) -> list[str]:
        return [f"  {name:26} {' '.join(stories.load(path).description.split())}" for name, path in found.items()]

    return "\n".join(
        [
            "what Kubernetes does alone:",
            *lines(stories.kubernetes_stories()),
            "with other feature gates:",
            *lines(stories.gated_stories()),
            "with Trimtab:",
            *lines(stories.trimtab_stories()),
        ]
    )


async def play(
    story: Story, kubeconfig: Path | None, factory: SupervisorFactory, *, keep: bool, quiet: bool
) -> Outcome:
    """Run a story on the cluster of a kubeconfig, or without one on a temporary lab."""
    if kubeconfig is not None:
        return await _play(story, kubeconfig, keep=keep, quiet=quiet)
    async with _temporary_lab(story, factory, quiet=quiet) as temporary:
        return await _play(story, temporary, keep=False, quiet=quiet)


async def _play(story: Story, kubeconfig: Path, *, keep: bool, quiet: bool) -> Outcome:
    from trimtab.kube.client import Client
    from trimtab.kube.config import discover
    from trimtab.kube.sessions import Session
    from trimtab_lab.scenarios.runner import Options, Runner
    from trimtab_lab.scenarios.simulation import node_simulator

    async with Client(Session(discover(kubeconfig))) as client:
        runner: Runner = Runner(client, node_simulator(client), Options(keep=keep))
        if not quiet:
            runner.report = _report_progress
        return await runner.play(story)


@asynccontextmanager
async def _temporary_lab(story: Story, factory: SupervisorFactory, *, quiet: bool) -> AsyncIterator[Path]:
    from trimtab_lab.supervisor import find_free_port

    with tempfile.TemporaryDirectory(prefix="trimtab-lab-") as folder:
        state, port = Path(folder), find_free_port()
        ready = asyncio.Event()
        supervisor = factory(state, port, story)
        supervisor.on_ready = ready.set
        if not quiet:
            click.echo("starting a temporary lab", err=True)
        running = asyncio.ensure_future(supervisor.run())
        waiting = asyncio.ensure_future(ready.wait())
        try:
            await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            yield supervisor.kubeconfig
        finally:
            waiting.cancel()
            running.cancel()
            await asyncio.gather(running, waiting, return_exceptions=True)


def _report_progress(progress: Progress) -> None:
    """Print progress to standard error; standard output is for the result."""
    from trimtab_lab.scenarios.runner import Message, StepEnded, StepStarted

    match progress:
        case Message(text):
            click.echo(text, err=True)
        case StepStarted(number, of, title):
            click.echo(f"[{number}/{of}] {title}", err=True)
        case StepEnded(record) if record.failures:
            click.echo(f"      {'; '.join(record.failures)}", err=True)


def print_outcome(outcome: Outcome, output: str) -> None:
    """Print the pods in each domain after each step: a table for people, JSON for programs."""
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
        (record, record.distributions[ALL].spreads[key] if record.distributions else None) for record in outcome.records
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


def write_chart(outcome: Outcome, path: Path) -> None:
    """Write the chart of the story's first topology key to a file."""
    from trimtab_lab.scenarios import charts

    path.write_text(charts.draw(outcome, next(iter(outcome.story.topology))))
    click.echo(f"wrote the chart to {path}", err=True)
