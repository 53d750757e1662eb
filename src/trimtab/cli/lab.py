"""`trimtab lab`: a cluster in a box."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click

_STATE = click.option(
    "--state", type=click.Path(path_type=Path), default=Path(".lab"), show_default=True, help="Where the lab keeps its state."
)
_OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)


@click.group(
    epilog="""
\b
Examples:
  trimtab lab up                    start, and stay until Ctrl-C
  trimtab lab status -o json        what runs, for programs
  trimtab lab down                  end it from another terminal
"""
)
def lab() -> None:
    """A small cluster on this machine: API server, workloads, nodes, and Trimtab itself."""


@lab.command()
@_STATE
@click.option("--port", default=16550, show_default=True, help="The API server's port on this machine.")
@click.option("--shape", type=click.Path(path_type=Path), help="The nodes, in YAML; three zones of four without it.")
@click.option("--product/--no-product", default=True, show_default=True, help="Run Trimtab in it, or only the cluster.")
def up(state: Path, port: int, shape: Path | None, product: bool) -> None:
    """Start a lab, and keep it running until Ctrl-C or `trimtab lab down`."""
    from trimtab.app import until_stopped
    from trimtab.lab.box import Box

    box = Box(state, port, _parts(state, port, shape, product=product), say=click.echo)
    box.on_ready = lambda: click.echo(_banner(box))
    asyncio.run(until_stopped(box.run))
    click.echo("the lab has ended")


@lab.command()
@_STATE
def down(state: Path) -> None:
    """End the lab that runs."""
    from trimtab.lab import box

    click.echo("the lab has ended" if box.end(state) else f"no lab is running in {state}")


@lab.command()
@_STATE
def reset(state: Path) -> None:
    """Remove what a lab has left behind."""
    from trimtab.lab import box

    box.reset(state)
    click.echo(f"{state} is gone")


@lab.command()
@_STATE
@_OUTPUT
def status(state: Path, output: str) -> None:
    """Show what runs."""
    from trimtab.lab import box

    found = box.read_state(state)
    running = found is not None and found.alive
    parts = {} if found is None else {name: box.is_alive(pid) for name, pid in found.parts.items()}
    ready = found is not None and running and box.is_ready(found.port)
    if output == "json":
        tree = {"running": running, "ready": ready, "port": found.port if found else None, "parts": parts}
        click.echo(json.dumps(tree, indent=2))
    elif found is None or not running:
        click.echo(f"no lab is running in {state}; start one with 'trimtab lab up'")
    else:
        click.echo(f"a lab is running in {state} (process {found.pid}), on https://127.0.0.1:{found.port}")
        for name, alive in parts.items():
            click.echo(f"  {name:10} {'running' if alive else 'starting again'}  process {found.parts[name]}")
    if not running:
        raise SystemExit(3)


def _banner(box: object) -> str:
    from trimtab.lab.box import Box

    assert isinstance(box, Box)  # noqa: S101 - narrows the type
    return f"""
Trimtab's lab is up. In another terminal:

  export KUBECONFIG={box.kubeconfig.absolute()}
  kubectl get nodes -L topology.kubernetes.io/zone
  kubectl create deployment web --image=example.com/web:1 --replicas=9
  kubectl get pods -o wide

Logs are in {box.folder}/logs. Everything is kept in memory: Ctrl-C ends it, and nothing stays.
"""
