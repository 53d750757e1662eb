"""Options that several commands of `trimtab lab` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trimtab_lab.definition import ControlPlane

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
    help="Feature gates of all Kubernetes binaries; of one, by --extra-arg.",
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
        if feature_gates or emulated_version or extra_args:
            raise click.UsageError("--feature-gates, --emulated-version and --extra-arg need --control-plane")
        return None
    try:
        gates, extra = commands.parse_gates(feature_gates), commands.parse_extra(extra_args)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return ControlPlane(binaries.find(chosen), commands.Customization(gates, emulated_version, extra))
