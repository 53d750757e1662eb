"""`trimtab run`: the components, against a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.kube.files import read_yaml, with_kube_scheduler, with_scheduler

if TYPE_CHECKING:
    from trimtab.api.configuration import TrimtabConfiguration

_OVERRIDES: Mapping[str, tuple[str, ...]] = {
    "components": ("components",),
    "namespaces": ("namespaces",),
    "scheduler_config": ("scheduler",),
    "host": ("serving", "host"),
    "port": ("serving", "port"),
    "log_format": ("logs", "format"),
    "log_level": ("logs", "level"),
}
"""The field of the configuration that each option sets."""


@click.command(
    epilog="""
\b
Examples:
  trimtab run                                      the cluster of $KUBECONFIG, or of this pod
  trimtab run --config trimtab.yaml                everything from one file (docs/configuration.md)
  trimtab run --config trimtab.yaml --component webhooks --port 10270
                                                   one component, beside processes that run the others
  trimtab run --component scheduler --scheduler-config scheduler.yaml --namespace shop
  trimtab run --config trimtab.yaml --check        check the configuration and exit
"""
)
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="A TrimtabConfiguration file.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig file; found as kubectl finds it.")
@click.option("--context", default="", help="The context of the kubeconfig.")
@click.option(
    "--component",
    "components",
    multiple=True,
    help="A component to run: scheduler, webhooks, controllers, dashboard; repeatable.",
)
@click.option("--namespace", "namespaces", multiple=True, help="A namespace to handle; repeatable. [default: all]")
@click.option("--scheduler-config", type=click.Path(path_type=Path), help="A KubeSchedulerConfiguration file.")
@click.option("--host", help="The address for health and metrics. [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port for health and metrics; 0 for any, -1 for none. [default: 10269]")
@click.option("--log-format", type=click.Choice(["console", "json"]), help="[default: console]")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
@click.option("--check", "only_check", is_flag=True, help="Check the configuration and exit.")
def run(config_file: Path | None, kubeconfig: Path | None, context: str, only_check: bool, **flags: object) -> None:
    """Run Trimtab against a cluster until it is stopped. Options override the file."""
    from trimtab.kube.processes import (
        collect_less_often,
        prefer_event_loop,
        run_until_stopped,
        set_up_logs,
        set_up_memory,
    )

    collect_less_often()  # before the other modules are imported, which creates many objects and no garbage
    from trimtab import app

    configuration = configured(config_file, flags)
    if only_check:
        app.check(configuration)
        click.echo(f"the configuration is valid; it runs {', '.join(configuration.components)}")
        return
    set_up_logs(configuration.logs.format, configuration.logs.level)
    set_up_memory()
    prefer_event_loop()
    again = None if config_file is None else Rereading(config_file, flags).read
    run_until_stopped(app.App(app.Settings(configuration, kubeconfig, context, again)).run)


class Rereading:
    """A configuration file that is read every few seconds, and parsed only if it has changed.

    That takes tens of milliseconds. Other files that it names are for parts that are read at the start alone.
    """

    def __init__(self, path: Path, flags: Mapping[str, object]) -> None:
        self._path = path
        self._flags = flags
        self._parsed: tuple[bytes, TrimtabConfiguration] | None = None
        """The text that was parsed last, and its configuration."""

    def read(self) -> TrimtabConfiguration:
        """The present configuration. Raises InvalidError, each time, while it is invalid."""
        try:
            text = self._path.read_bytes()
        except OSError:  # which is reported below
            text = b""
        if self._parsed is None or not text or text != self._parsed[0]:
            self._parsed = (text, configured(self._path, self._flags))
        return self._parsed[1]


def configured(path: Path | None, flags: Mapping[str, object]) -> TrimtabConfiguration:
    """The configuration of a file, with options applied over it."""
    from trimtab.api import configuration
    from trimtab.api.errors import InvalidError

    tree: dict[str, Any] = {} if path is None else with_kube_scheduler(read_yaml(path), path.parent)
    folder = Path() if path is None else path.parent
    for option, value in flags.items():
        if value not in (None, ()):
            _override(tree, _OVERRIDES[option], value)
            folder = Path() if option == "scheduler_config" else folder
    try:
        read = configuration.read(with_scheduler(tree, folder))
    except InvalidError as error:
        raise error if path is None else InvalidError(f"{path}: {error.path}".rstrip(": "), error.reason) from None
    return read


def _override(tree: dict[str, Any], at: tuple[str, ...], value: object) -> None:
    *outer, last = at
    for name in outer:
        inner = tree.get(name)
        tree[name] = dict(inner) if isinstance(inner, dict) else {}
        tree = tree[name]
    tree[last] = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
