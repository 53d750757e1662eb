"""`trimtab run`: the product against a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from trimtab.cli.files import read_yaml


@click.command(
    epilog="""
\b
Examples:
  trimtab run                                        the cluster of $KUBECONFIG, or of this pod
  trimtab run --scheduler-config scheduler.yaml      with profiles of your own
  trimtab run --log-format json --port 0             for machines
"""
)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Which cluster; looked for as kubectl does.")
@click.option("--context", default="", help="Which context of the kubeconfig.")
@click.option(
    "--component", "components", multiple=True, default=("scheduler",), show_default=True, help="What to run; repeat."
)
@click.option("--scheduler-config", type=click.Path(path_type=Path), help="A KubeSchedulerConfiguration file.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where health and metrics are served.")
@click.option("--port", default=10269, show_default=True, help="On which port; 0 for any, -1 for none.")
@click.option("--log-format", type=click.Choice(["console", "json"]), default="console", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def run(
    kubeconfig: Path | None,
    context: str,
    components: tuple[str, ...],
    scheduler_config: Path | None,
    host: str,
    port: int,
    log_format: str,
    log_level: str,
) -> None:
    """Run Trimtab against a cluster until told to stop."""
    from trimtab import app

    settings = app.Settings(
        components=components,
        kubeconfig=kubeconfig,
        context=context,
        scheduler=None if scheduler_config is None else read_yaml(scheduler_config),
        host=host,
        port=port,
    )
    app.check(settings)
    app.set_up_logs("json" if log_format == "json" else "console", log_level)
    asyncio.run(app.until_stopped(app.App(settings).run))
