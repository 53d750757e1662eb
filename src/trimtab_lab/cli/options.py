"""Options that several commands of `trimtab lab` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab_lab.definition import ControlPlane
    from trimtab_lab.workloads.options import Options as ControllerOptions

STATE = click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=Path(".lab"),
    show_default=True,
    help="The folder in which the lab keeps its state.",
)
KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig of the cluster; found as kubectl finds it."
)
OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
SHAPE_FILE = click.option(
    "--shape",
    type=click.Path(path_type=Path),
    help="A YAML file with the nodes (docs/lab-nodes.md). [default: three zones of four nodes]",
)

CONTROL_PLANE = click.option(
    "--control-plane",
    "control_plane",
    is_flag=False,
    flag_value="",
    metavar="DIR",
    help="Use the etcd and the kube-apiserver in this folder, and its kube-controller-manager and kube-scheduler if "
    "they are there. Without DIR: the folder that $KUBEBUILDER_ASSETS names.  [default: the embedded API server]",
)
FEATURE_GATES = click.option(
    "--feature-gates",
    multiple=True,
    metavar="A=true,B=false",
    help="Feature gates of the lab's controllers: LogarithmicScaleDown, PodDeletionCost. With --control-plane, of all "
    "Kubernetes binaries; of one, by --extra-arg.",
)
CONTROLLER_GATES = click.option(
    "--feature-gates",
    multiple=True,
    metavar="A=true,B=false",
    help="Feature gates of the controllers: LogarithmicScaleDown and PodDeletionCost, which are on by default.",
)
METRICS_PORT = click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port on this machine on which the lab's workload controllers serve /metrics.  [default: any free port]",
)
DASHBOARD = click.option(
    "--dashboard/--no-dashboard", default=True, show_default=True, help="Serve the dashboard on this machine."
)
DASHBOARD_PORT = click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port of the dashboard on this machine.  [default: any free port]",
)
EMULATED_VERSION = click.option(
    "--emulated-version", default="", metavar="1.NN", help="The version that all Kubernetes binaries emulate."
)
EXTRA_ARGS = click.option(
    "--extra-arg",
    "extra_args",
    multiple=True,
    metavar="NAME=--FLAG",
    help="A further argument of a binary, such as kube-apiserver=--v=4 or "
    "kube-controller-manager=--feature-gates=SomeFeature=true; repeatable.",
)

RESTART_CONTROL_PLANE = click.option(
    "--restart-control-plane",
    is_flag=True,
    help="Restart etcd and kube-apiserver when they exit, instead of ending the lab; needs --control-plane.",
)


def find_control_plane(
    folder: str | None, feature_gates: tuple[str, ...], emulated_version: str, extra_args: tuple[str, ...]
) -> ControlPlane | None:
    """The binaries that --control-plane names, checked; None without the option."""
    from trimtab_lab.controlplane import binaries, commands
    from trimtab_lab.definition import ControlPlane

    chosen = binaries.choose_folder(folder)
    if chosen is None:
        if emulated_version or extra_args:
            raise click.UsageError("--emulated-version and --extra-arg need --control-plane")
        return None
    gates = parse_gates(feature_gates)
    try:
        extra = commands.parse_extra(extra_args)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return ControlPlane(binaries.find(chosen), commands.Customization(gates, emulated_version, extra))


def parse_gates(feature_gates: tuple[str, ...]) -> dict[str, bool]:
    """The values of --feature-gates."""
    from trimtab_lab.controlplane import commands

    try:
        return commands.parse_gates(feature_gates)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def controller_options(gates: Mapping[str, bool]) -> ControllerOptions:
    """The options of the lab's controllers with these feature gates, checked."""
    from trimtab.api.errors import InvalidError
    from trimtab_lab.workloads.options import STOCK

    try:
        return STOCK.gated(gates)
    except InvalidError as error:
        raise click.UsageError(f"--feature-gates: {error}") from None
