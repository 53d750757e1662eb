"""`trimtab scheduler-config`: the configuration of kube-scheduler that has the same default constraints."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    "scheduler-config",
    epilog="""
\b
Examples:
  trimtab scheduler-config --config trimtab.yaml > kube-scheduler.yaml
  trimtab scheduler-config --config trimtab.yaml --profile trimtab --kubeconfig /etc/kubernetes/scheduler.conf
""",
)
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="A TrimtabConfiguration file.")
@click.option("--profile", default="", help="The profile of Trimtab's scheduler to follow. [default: the first]")
@click.option("--kubeconfig", default="", help="The kubeconfig file that kube-scheduler is to use.")
def scheduler_config(config_file: Path | None, profile: str, kubeconfig: str) -> None:
    """Print a KubeSchedulerConfiguration for kube-scheduler with Trimtab's default constraints.

    kube-scheduler's own configuration, if `defaultConstraints.kubeScheduler` has it, is kept in all other parts.
    """
    import yaml

    from trimtab.app import kube_scheduler
    from trimtab.cli.run import configured

    made = kube_scheduler.configuration(configured(config_file, {}), profile=profile, kubeconfig=kubeconfig)
    for line in made.notes:
        click.echo(f"# {line}")
    click.echo(yaml.safe_dump(made.tree, sort_keys=False), nl=False)
