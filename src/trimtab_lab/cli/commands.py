"""`trimtab lab`: a small cluster on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab_lab.cli import options

if TYPE_CHECKING:
    from trimtab.kube.client import Client
    from trimtab_lab.definition import ControlPlane
    from trimtab_lab.scenarios.stories import Story
    from trimtab_lab.supervisor import Supervisor

_SHAPE = {"zones": [{"name": f"zone-{letter}", "nodes": 4} for letter in "abc"]}
_PRODUCT = ("scheduler", "webhooks", "controllers")
"""The components of Trimtab that run in a lab."""


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
  trimtab lab up --feature-gates LogarithmicScaleDown=false
                                              the youngest pods are deleted first
  trimtab lab up --control-plane ~/bin        on the etcd and kube-apiserver in ~/bin
  trimtab lab up --control-plane ~/bin --feature-gates SomeFeature=true
"""
)
@options.STATE
@click.option("--port", default=16550, show_default=True, help="The API server's port on this machine.")
@options.SHAPE_FILE
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
@options.METRICS_PORT
@options.DASHBOARD
@options.DASHBOARD_PORT
@options.CONTROL_PLANE
@options.FEATURE_GATES
@options.EMULATED_VERSION
@options.EXTRA_ARGS
@options.RESTART_CONTROL_PLANE
def up(
    state: Path,
    port: int,
    shape: Path | None,
    product: bool,
    components: tuple[str, ...],
    metrics_port: int,
    dashboard: bool,
    dashboard_port: int,
    control_plane: str | None,
    restart_control_plane: bool,
    **passed_through: Any,
) -> None:
    """Start a lab and keep it running until Ctrl-C or `trimtab lab down`."""
    from trimtab.kube.files import read_yaml
    from trimtab_lab.cli.banner import banner
    from trimtab_lab.definition import LabOptions, supervisor_for
    from trimtab_lab.nodes import shapes

    if shape is not None:
        shapes.read(read_yaml(shape))  # reports a mistake here instead of in a log
    real = options.find_control_plane(control_plane, **passed_through)
    if restart_control_plane and real is None:
        raise click.UsageError("--restart-control-plane needs --control-plane: the embedded API server keeps no data")
    gates = options.parse_gates(passed_through["feature_gates"])
    if real is None:
        options.controller_options(gates)
    lab_options = LabOptions(
        state,
        port,
        shape,
        components if product else (),
        control_plane=real,
        restarts_control_plane=restart_control_plane,
        feature_gates=gates,
        metrics_port=metrics_port,
        dashboard=dashboard,
        dashboard_port=dashboard_port,
    )
    supervisor = supervisor_for(lab_options)
    supervisor.report = click.echo
    supervisor.on_ready = lambda: click.echo(banner(supervisor, lab_options))
    _run(supervisor.run)
    click.echo("the lab has stopped")


@lab.command()
@options.STATE
def down(state: Path) -> None:
    """Stop the running lab."""
    from trimtab_lab import supervisor

    click.echo("the lab has stopped" if supervisor.stop(state) else f"no lab is running in {state}")


@lab.command()
@options.STATE
def reset(state: Path) -> None:
    """Remove the folder of a lab that has stopped."""
    from trimtab_lab import supervisor

    supervisor.reset(state)
    click.echo(f"removed {state}")


@lab.command()
@options.STATE
@options.OUTPUT
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
        control_plane = lab_state.control_plane if lab_state else None
        tree: dict[str, Any] = {
            "running": running,
            "ready": ready,
            "port": port,
            "controlPlane": control_plane,
            "parts": alive,
        }
        if lab_state is not None and lab_state.dashboard_url:
            tree["dashboard"] = lab_state.dashboard_url
        click.echo(json.dumps(tree, indent=2))
    elif lab_state is None or not running:
        click.echo(f"no lab is running in {state}; start one with 'trimtab lab up'")
    else:
        click.echo(f"a lab is running in {state} (process {lab_state.pid}), on https://127.0.0.1:{lab_state.port}")
        click.echo(f"  on {lab_state.control_plane}")
        if lab_state.dashboard_url:
            click.echo(f"  dashboard: {lab_state.dashboard_url}")
        for name, pid in processes.items():
            click.echo(f"  {name:23} {'running' if alive[name] else 'restarting'}  process {pid}")
    if not running:
        raise SystemExit(3)


@lab.command()
@options.STATE
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
@options.KUBECONFIG
@options.CONTROLLER_GATES
@options.METRICS_PORT
def workloads(kubeconfig: Path | None, feature_gates: tuple[str, ...], metrics_port: int) -> None:
    """Run the lab's ReplicaSet, Deployment and disruption controllers against an API server that has none."""
    from trimtab.kube.processes import set_up_logs
    from trimtab_lab.workloads.service import Workloads
    from trimtab_lab.workloads.serving import serve_metrics

    chosen = options.controller_options(options.parse_gates(feature_gates))

    async def work() -> None:
        async with _client(kubeconfig) as client:
            controllers = Workloads(client, options=chosen)
            async with serve_metrics(controllers.metrics.registry, metrics_port) as port:
                click.echo(f"metrics are served on http://127.0.0.1:{port}/metrics")
                await controllers.run()

    set_up_logs()
    _run(work)


@lab.command(hidden=True)
@options.KUBECONFIG
@click.option(
    "--file", type=click.Path(path_type=Path), required=True, help="The address to listen on, and its secret."
)
def controls(kubeconfig: Path | None, file: Path) -> None:
    """Do what the buttons of the dashboard say. `trimtab lab up` starts it."""
    from trimtab.kube.processes import set_up_logs
    from trimtab_lab.controls import Controls, read_address

    address = read_address(file)

    async def work() -> None:
        async with _client(kubeconfig) as client:
            carried_out = Controls(client, address.secret)
            async with carried_out.served(address.port):
                await carried_out.run()

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
@options.KUBECONFIG
@options.SHAPE_FILE
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
  trimtab lab run stays-level --control-plane ~/bin       on a temporary lab with the binaries in ~/bin
"""
)
@click.argument("story")
@options.STATE
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="The kubeconfig of the cluster. [default: the running lab, or a temporary one]",
)
@options.OUTPUT
@click.option(
    "--chart",
    type=click.Path(path_type=Path),
    help="Write a chart of the pods per domain and of the skew over time to this file (SVG).",
)
@click.option("--keep", is_flag=True, help="Keep the namespace and the nodes of the story at the end.")
@options.CONTROL_PLANE
@options.FEATURE_GATES
@options.EMULATED_VERSION
@options.EXTRA_ARGS
def run(
    story: str,
    state: Path,
    kubeconfig: Path | None,
    output: str,
    chart: Path | None,
    keep: bool,
    control_plane: str | None,
    **passed_through: Any,
) -> None:
    """Run STORY: a YAML file, or the name of a story that comes with Trimtab (`list` shows them).

    It runs on the cluster that --kubeconfig names, with that cluster's controllers and scheduler; with --control-plane
    on a temporary lab of these binaries; otherwise on the running lab, or on a temporary one, also if the running one
    has other feature gates. The exit status is 4 if an expectation of the story does not hold.
    """
    from trimtab_lab.cli import stories
    from trimtab_lab.supervisor import read_state

    if story == "list":
        click.echo(stories.list_stories())
        return
    lab_state = read_state(state)
    real = options.find_control_plane(control_plane, **passed_through)
    gates = options.parse_gates(passed_through["feature_gates"])
    loaded = stories.find_story(story)
    if kubeconfig is None and real is None:
        needed = options.controller_options({**loaded.feature_gates, **gates}).gates
        if lab_state is not None and lab_state.is_running and lab_state.feature_gates in (needed, {}):
            kubeconfig = state / "kubeconfig"
    factory = partial(_story_supervisor, control_plane=real, feature_gates=gates)
    outcome = asyncio.run(stories.play(loaded, kubeconfig, factory, keep=keep, quiet=output == "json"))
    stories.print_outcome(outcome, output)
    if chart is not None:
        stories.write_chart(outcome, chart)
    if outcome.failures or not outcome.complete:
        raise SystemExit(4)


def _run(work: Callable[[], Any]) -> None:
    from trimtab.kube.processes import run_until_stopped

    run_until_stopped(work)


def _client(kubeconfig: Path | None) -> Client:
    from trimtab.kube.client import Client
    from trimtab.kube.config import discover
    from trimtab.kube.sessions import Session

    return Client(Session(discover(kubeconfig)))


def _story_supervisor(
    state: Path, port: int, story: Story, *, control_plane: ControlPlane | None, feature_gates: Mapping[str, bool]
) -> Supervisor:
    """The supervisor of a temporary lab; the story brings its own nodes."""
    from trimtab_lab.definition import LabOptions, supervisor_for

    state.mkdir(parents=True, exist_ok=True)
    shape = state / "shape.yaml"
    shape.write_text(json.dumps({"name": "node-controllers"}))
    profiles = story.scheduler.tree().get("profiles", []) if story.scheduler else []
    gates = {**(story.feature_gates if control_plane is None else {}), **feature_gates}
    return supervisor_for(
        LabOptions(state, port, shape, profiles=profiles, control_plane=control_plane, feature_gates=gates)
    )
