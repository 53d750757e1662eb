"""`trimtab lab`: a small cluster on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from trimtab.kube.client import Client
    from trimtab_lab.scenarios.stories import Story
    from trimtab_lab.supervisor import ProcessSpec, Supervisor

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
"""The components of Trimtab that run in a lab, each in a process of its own."""
_PROFILES = [{"schedulerName": "default-scheduler"}, {"schedulerName": "trimtab"}]

_STATE = click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=Path(".lab"),
    show_default=True,
    help="The folder in which the lab keeps its state.",
)
_KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig of the cluster; found as kubectl finds it."
)
_OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
_SHAPE_FILE = click.option(
    "--shape",
    type=click.Path(path_type=Path),
    help="A YAML file with the nodes (docs/lab-nodes.md). [default: three zones of four nodes]",
)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""
\b
Examples:
  trimtab lab up                    start a lab; Ctrl-C stops it
  trimtab lab status -o json        what is running, for programs
  trimtab lab run list              the stories that come with Trimtab
  trimtab lab run two-zones-then-three --chart story.svg
  trimtab lab down                  stop it from another terminal
""",
)
def lab() -> None:
    """A small cluster on this machine: API server, workloads, nodes, and Trimtab itself."""


@lab.command(
    epilog="""
\b
Examples:
  trimtab lab up                              three zones of four nodes, and Trimtab
  trimtab lab up --shape cluster.yaml         nodes of your own
  trimtab lab up --no-product                 the cluster alone
  trimtab lab up --component scheduler        of Trimtab, only the scheduler
"""
)
@_STATE
@click.option("--port", default=16550, show_default=True, help="The API server's port on this machine.")
@_SHAPE_FILE
@click.option(
    "--product/--no-product", default=True, show_default=True, help="Run Trimtab in it, or the cluster alone."
)
@click.option(
    "--component",
    "components",
    multiple=True,
    type=click.Choice(_PRODUCT),
    default=_PRODUCT,
    show_default=True,
    help="A component of Trimtab to run; can be repeated.",
)
def up(state: Path, port: int, shape: Path | None, product: bool, components: tuple[str, ...]) -> None:
    """Start a lab and keep it running until Ctrl-C or `trimtab lab down`."""
    from trimtab.kube.files import read_yaml
    from trimtab_lab.nodes import shapes
    from trimtab_lab.supervisor import Supervisor

    if shape is not None:
        shapes.read(read_yaml(shape))  # reports a mistake here instead of in a log
    chosen = components if product else ()
    supervisor = Supervisor(state, port, _processes(state, port, shape, chosen), report=click.echo)
    configuration = _write_configuration(state)
    supervisor.provision = None if set(chosen) <= {"scheduler"} else _provisioning(configuration)
    supervisor.on_ready = lambda: click.echo(_banner(supervisor))
    _run(supervisor.run)
    click.echo("the lab has stopped")


@lab.command()
@_STATE
def down(state: Path) -> None:
    """Stop the running lab."""
    from trimtab_lab import supervisor

    click.echo("the lab has stopped" if supervisor.stop(state) else f"no lab is running in {state}")


@lab.command()
@_STATE
def reset(state: Path) -> None:
    """Remove the folder of a lab that has stopped."""
    from trimtab_lab import supervisor

    supervisor.reset(state)
    click.echo(f"removed {state}")


@lab.command()
@_STATE
@_OUTPUT
def status(state: Path, output: str) -> None:
    """Show the processes of the lab. The exit status is 3 if none is running."""
    from trimtab_lab import supervisor

    lab_state = supervisor.read_state(state)
    running = lab_state is not None and lab_state.is_running
    processes = {} if lab_state is None else lab_state.processes
    alive = {name: supervisor.is_alive(pid) for name, pid in processes.items()}
    if output == "json":
        ready = lab_state is not None and running and supervisor.is_ready(lab_state.port)
        port = lab_state.port if lab_state else None
        click.echo(json.dumps({"running": running, "ready": ready, "port": port, "parts": alive}, indent=2))
    elif lab_state is None or not running:
        click.echo(f"no lab is running in {state}; start one with 'trimtab lab up'")
    else:
        click.echo(f"a lab is running in {state} (process {lab_state.pid}), on https://127.0.0.1:{lab_state.port}")
        for name, pid in processes.items():
            click.echo(f"  {name:12} {'running' if alive[name] else 'restarting'}  process {pid}")
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


@lab.command(
    epilog="""
\b
Examples:
  trimtab lab nodes --shape cluster.yaml                beside a controller manager
  trimtab lab nodes --shape cluster.yaml --lifecycle    on a control plane without node controllers
"""
)
@_KUBECONFIG
@_SHAPE_FILE
@click.option("--seed", default=0, show_default=True, help="The seed of random delays.")
@click.option(
    "--lifecycle/--no-lifecycle",
    default=False,
    help="Taint failed nodes and evict their pods; for a control plane without node controllers.",
)
def nodes(kubeconfig: Path | None, shape: Path | None, seed: int, lifecycle: bool) -> None:
    """Simulate nodes on any control plane, the lab's or a real one."""
    from trimtab.kube.files import read_yaml
    from trimtab.kube.processes import set_up_logs
    from trimtab_lab.nodes import settings, shapes
    from trimtab_lab.nodes.service import Nodes

    node_shape = shapes.read(_SHAPE if shape is None else read_yaml(shape))

    async def work() -> None:
        async with _client(kubeconfig) as client:
            chosen = settings.LAB if lifecycle else settings.SETTINGS
            await Nodes(client, client.clock, node_shape, seed, settings=chosen).run()

    set_up_logs()
    _run(work)


@lab.command(
    epilog="""
\b
Examples:
  trimtab lab run list                                    the stories that come with Trimtab
  trimtab lab run stays-level                             on the running lab, or on a temporary one
  trimtab lab run story.yaml --chart story.svg            a story of your own, with a chart
  trimtab lab run story.yaml --kubeconfig ~/.kube/config  on another cluster
"""
)
@click.argument("story")
@_STATE
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="The kubeconfig of the cluster. [default: the running lab, or a temporary one]",
)
@_OUTPUT
@click.option(
    "--chart",
    type=click.Path(path_type=Path),
    help="Write a chart of the pods per domain and of the skew over time to this file (SVG).",
)
@click.option("--keep", is_flag=True, help="Keep the namespace and the nodes of the story at the end.")
def run(story: str, state: Path, kubeconfig: Path | None, output: str, chart: Path | None, keep: bool) -> None:
    """Run STORY: a YAML file, or the name of a story that comes with Trimtab (`list` shows them).

    It runs on the cluster that --kubeconfig names, with that cluster's controllers and scheduler; otherwise on the
    running lab; otherwise on a temporary lab. The exit status is 4 if an expectation of the story does not hold.
    """
    from trimtab_lab.cli import stories
    from trimtab_lab.supervisor import read_state

    if story == "list":
        click.echo(stories.list_stories())
        return
    lab_state = read_state(state)
    if kubeconfig is None and lab_state is not None and lab_state.is_running:
        kubeconfig = state / "kubeconfig"
    loaded = stories.find_story(story)
    outcome = asyncio.run(stories.play(loaded, kubeconfig, _story_supervisor, keep=keep, quiet=output == "json"))
    stories.print_outcome(outcome, output)
    if chart is not None:
        stories.write_chart(outcome, chart)
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


def _story_supervisor(state: Path, port: int, story: Story) -> Supervisor:
    """The supervisor of a temporary lab; the story brings its own nodes."""
    from trimtab_lab.supervisor import Supervisor

    state.mkdir(parents=True, exist_ok=True)
    shape = state / "shape.yaml"
    shape.write_text(json.dumps({"name": "node-controllers"}))
    profiles = story.scheduler.tree().get("profiles", []) if story.scheduler else []
    provision = _provisioning(_write_configuration(state, profiles))
    return Supervisor(state, port, _processes(state, port, shape, _PRODUCT), provision=provision)


def _processes(state: Path, port: int, shape: Path | None, components: Sequence[str]) -> list[ProcessSpec]:
    """The processes of a lab, API server first."""
    from trimtab_lab.supervisor import API_SERVER, ProcessSpec

    kubeconfig = ("--kubeconfig", str(state / "kubeconfig"))
    specs = [
        ProcessSpec(API_SERVER, ("lab", "apiserver", "--state", str(state), "--port", str(port))),
        ProcessSpec("workloads", ("lab", "workloads", *kubeconfig)),
        ProcessSpec("nodes", ("lab", "nodes", *kubeconfig, "--lifecycle", *(("--shape", str(shape)) if shape else ()))),
    ]
    config = ("--config", str(state / "trimtab.json"))
    specs += [ProcessSpec(name, ("run", *kubeconfig, *config, "--component", name)) for name in components]
    return specs


def _write_configuration(state: Path, profiles: Sequence[Any] = ()) -> Path:
    """Write the configuration of Trimtab in a lab: the default scheduler, and a default policy for all workloads."""
    from trimtab_lab.supervisor import find_free_port

    port = find_free_port()
    webhooks = {"host": "127.0.0.1", "port": port, "url": f"https://127.0.0.1:{port}"}
    scheduler = {**_SCHEDULER, "profiles": [*_PROFILES, *profiles]}
    tree = {**_CONFIGURATION, "webhooks": webhooks, "scheduler": scheduler}
    state.mkdir(parents=True, exist_ok=True)
    path = state / "trimtab.json"
    path.write_text(json.dumps(tree, indent=2))
    return path


def _provisioning(configuration: Path) -> Callable[[Path, Awaitable[None]], Awaitable[None]]:
    """A function that creates what `trimtab install --local` prints, once the API server is ready."""

    async def provision(kubeconfig: Path, ready: Awaitable[None]) -> None:
        from trimtab_lab import provisioning

        objects, _ = await asyncio.gather(provisioning.render_manifests(configuration), ready)
        async with _client(kubeconfig) as client:
            await provisioning.create_missing(client, objects)

    return provision


def _banner(supervisor: Supervisor) -> str:
    return f"""
Trimtab's lab is up. In another terminal:

  export KUBECONFIG={supervisor.kubeconfig.absolute()}
  kubectl get nodes -L topology.kubernetes.io/zone
  kubectl create deployment web --image=example.com/web:1 --replicas=9
  kubectl get pods -o wide
  kubectl scale deployment web --replicas=4        # zones stay level; a warning says what Kubernetes alone would leave

Logs are in {supervisor.folder}/logs. All objects are kept in memory; Ctrl-C stops the lab.
"""
