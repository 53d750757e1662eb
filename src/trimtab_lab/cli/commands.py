"""`trimtab lab`: a cluster in a box."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from trimtab.kube.client import Client
    from trimtab_lab.box import Box, Part
    from trimtab_lab.scenarios.stories import Story

_SHAPE = {"zones": [{"name": f"zone-{letter}", "nodes": 4} for letter in "abc"]}
_SCHEDULER: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
}
_CONFIGURATION: dict[str, Any] = {
    "apiVersion": "trimtab.dev/v1alpha1",
    "kind": "TrimtabConfiguration",
    "leaderElection": {"enabled": False},
    "scaleDown": {"defaultPolicies": [{"name": "level"}]},
    "serving": {"port": -1},
}
_PRODUCT = ("scheduler", "webhooks", "controllers")
"""What of Trimtab runs in a lab, each in a process of its own."""
_PROFILES = [{"schedulerName": "default-scheduler"}, {"schedulerName": "trimtab"}]

_STATE = click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=Path(".lab"),
    show_default=True,
    help="Where the lab keeps its state.",
)
_KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Which cluster; looked for as kubectl does."
)
_OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)


@click.group(
    epilog="""
\b
Examples:
  trimtab lab up                    start, and stay until Ctrl-C
  trimtab lab status -o json        what runs, for programs
  trimtab lab run list              the stories that come with Trimtab
  trimtab lab run two-zones-then-three --chart story.svg
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
@click.option(
    "--component",
    "components",
    multiple=True,
    type=click.Choice(_PRODUCT),
    default=_PRODUCT,
    show_default=True,
    help="What of Trimtab to run in it; repeat.",
)
def up(state: Path, port: int, shape: Path | None, product: bool, components: tuple[str, ...]) -> None:
    """Start a lab, and keep it running until Ctrl-C or `trimtab lab down`."""
    from trimtab.kube.files import read_yaml
    from trimtab_lab.box import Box
    from trimtab_lab.nodes import shapes

    if shape is not None:
        shapes.read(read_yaml(shape))  # a mistake in it is told here, not in a log
    chosen = components if product else ()
    box = Box(state, port, _parts(state, port, shape, chosen), say=click.echo)
    configuration = _write_configuration(state)
    box.provision = None if set(chosen) <= {"scheduler"} else _provisioning(configuration)
    box.on_ready = lambda: click.echo(_banner(box))
    _run(box.run)
    click.echo("the lab has ended")


@lab.command()
@_STATE
def down(state: Path) -> None:
    """End the lab that runs."""
    from trimtab_lab import box

    click.echo("the lab has ended" if box.end(state) else f"no lab is running in {state}")


@lab.command()
@_STATE
def reset(state: Path) -> None:
    """Remove what a lab has left behind."""
    from trimtab_lab import box

    box.reset(state)
    click.echo(f"{state} is gone")


@lab.command()
@_STATE
@_OUTPUT
def status(state: Path, output: str) -> None:
    """Show what runs."""
    from trimtab_lab import box

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
            click.echo(f"  {name:12} {'running' if alive else 'starting again'}  process {found.parts[name]}")
    if not running:
        raise SystemExit(3)


@lab.command()
@_STATE
@click.option("--port", default=16550, show_default=True, help="The port on this machine; 0 for any.")
def apiserver(state: Path, port: int) -> None:
    """Run the lab's API server alone."""
    from trimtab.kube.processes import set_up_logs
    from trimtab_lab.apiserver.wire.server import Server

    async def serve() -> None:
        async with Server(state, port=port) as server:
            click.echo(f"{server.url}, with {server.kubeconfig}")
            await asyncio.Event().wait()

    set_up_logs()
    _run(serve)


@lab.command()
@_KUBECONFIG
def workloads(kubeconfig: Path | None) -> None:
    """Run the lab's ReplicaSet, Deployment and disruption controllers against an API server that has none."""
    from trimtab.kube.processes import set_up_logs
    from trimtab_lab.workloads.service import Workloads

    async def work() -> None:
        async with _client(kubeconfig) as client:
            await Workloads(client).run()

    set_up_logs()
    _run(work)


@lab.command()
@_KUBECONFIG
@click.option("--shape", type=click.Path(path_type=Path), help="The nodes, in YAML; three zones of four without it.")
@click.option("--seed", default=0, show_default=True, help="What chance begins with: the same seed, the same delays.")
@click.option(
    "--lifecycle/--no-lifecycle",
    default=False,
    help="Taint nodes that fail and evict their pods; for a control plane without node controllers.",
)
def nodes(kubeconfig: Path | None, shape: Path | None, seed: int, lifecycle: bool) -> None:
    """Simulate nodes on any control plane, the lab's or a real one."""
    from trimtab.kube.files import read_yaml
    from trimtab.kube.processes import set_up_logs
    from trimtab_lab.nodes import settings, shapes
    from trimtab_lab.nodes.service import Nodes

    made = shapes.read(_SHAPE if shape is None else read_yaml(shape))

    async def work() -> None:
        async with _client(kubeconfig) as client:
            how = settings.LAB if lifecycle else settings.SETTINGS
            await Nodes(client, client.clock, made, seed, settings=how).run()

    set_up_logs()
    _run(work)


@lab.command()
@click.argument("story")
@_STATE
@_KUBECONFIG
@_OUTPUT
@click.option("--chart", type=click.Path(path_type=Path), help="Draw pods per domain and skew over time, as SVG.")
@click.option("--keep", is_flag=True, help="Leave everything as it is at the end, to be looked at.")
def run(story: str, state: Path, kubeconfig: Path | None, output: str, chart: Path | None, keep: bool) -> None:
    """Play STORY: a YAML file, or the name of one that comes with Trimtab (`list` shows them).

    It is played on the cluster that --kubeconfig names, with the controllers and the scheduler that it has; else on the
    lab that runs; else on a lab that lives as long as the story.
    """
    from trimtab_lab.box import read_state
    from trimtab_lab.cli import stories

    if story == "list":
        click.echo(stories.table_of_stories())
        return
    told = stories.find(story)
    running = read_state(state)
    if kubeconfig is None and running is not None and running.alive:
        kubeconfig = state / "kubeconfig"
    outcome = asyncio.run(stories.play(told, kubeconfig, _story_box, keep=keep, quiet=output == "json"))
    stories.show(outcome, output)
    if chart is not None:
        stories.draw(outcome, chart)
    if outcome.failures or not outcome.complete:
        raise SystemExit(4)


def _run(work: Callable[[], Any]) -> None:
    from trimtab.kube.processes import until_stopped

    asyncio.run(until_stopped(work))


def _client(kubeconfig: Path | None) -> Client:
    from trimtab.kube.client import Client
    from trimtab.kube.config import discover
    from trimtab.kube.sessions import Session

    return Client(Session(discover(kubeconfig)))


def _story_box(state: Path, port: int, story: Story) -> Box:
    """A lab for one story, which brings its own nodes."""
    from trimtab_lab.box import Box

    state.mkdir(parents=True, exist_ok=True)
    shape = state / "shape.yaml"
    shape.write_text(json.dumps({"name": "node-controllers"}))
    profiles = story.scheduler.tree().get("profiles", []) if story.scheduler else []
    provision = _provisioning(_write_configuration(state, profiles))
    return Box(state, port, _parts(state, port, shape, _PRODUCT), provision=provision)


def _parts(state: Path, port: int, shape: Path | None, components: Sequence[str]) -> list[Part]:
    """The processes of a lab, API server first."""
    from trimtab_lab.box import API_SERVER, Part

    kubeconfig = ("--kubeconfig", str(state / "kubeconfig"))
    parts = [
        Part(API_SERVER, ("lab", "apiserver", "--state", str(state), "--port", str(port))),
        Part("workloads", ("lab", "workloads", *kubeconfig)),
        Part("nodes", ("lab", "nodes", *kubeconfig, "--lifecycle", *(("--shape", str(shape)) if shape else ()))),
    ]
    config = ("--config", str(state / "trimtab.json"))
    parts += [Part(name, ("run", *kubeconfig, *config, "--component", name)) for name in components]
    return parts


def _write_configuration(state: Path, profiles: Sequence[Any] = ()) -> Path:
    """In the lab Trimtab is the only scheduler, so it serves the pods that name none; all workloads are kept level."""
    from trimtab_lab.box import free_port

    port = free_port()
    webhooks = {"host": "127.0.0.1", "port": port, "url": f"https://127.0.0.1:{port}"}
    scheduler = {**_SCHEDULER, "profiles": [*_PROFILES, *profiles]}
    tree = {**_CONFIGURATION, "webhooks": webhooks, "scheduler": scheduler}
    state.mkdir(parents=True, exist_ok=True)
    path = state / "trimtab.json"
    path.write_text(json.dumps(tree, indent=2))
    return path


def _provisioning(configuration: Path) -> Callable[[Path, Awaitable[None]], Awaitable[None]]:
    """Creates what `trimtab install --local` prints, once the API server is ready."""

    async def provision(kubeconfig: Path, ready: Awaitable[None]) -> None:
        from trimtab_lab import provisioning

        objects, _ = await asyncio.gather(provisioning.printed(configuration), ready)
        async with _client(kubeconfig) as client:
            await provisioning.create(client, objects)

    return provision


def _banner(box: Box) -> str:
    return f"""
Trimtab's lab is up. In another terminal:

  export KUBECONFIG={box.kubeconfig.absolute()}
  kubectl get nodes -L topology.kubernetes.io/zone
  kubectl create deployment web --image=example.com/web:1 --replicas=9
  kubectl get pods -o wide
  kubectl scale deployment web --replicas=4        # zones stay level; a warning says what stock would leave

Logs are in {box.folder}/logs. Everything is kept in memory: Ctrl-C ends it, and nothing stays.
"""
