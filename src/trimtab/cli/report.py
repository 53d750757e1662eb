"""`trimtab report`: the scale-downs of an installation, summed up."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.output import emit, output_option, warn
from trimtab.cli.reports import render_installation, render_summary
from trimtab.cli.source import Source, source_options


@click.command(
    epilog="""
\b
Examples:
  trimtab report                                    what the ScaleDownPolicies of a namespace have counted
  trimtab report -A -o json                         of all namespaces
  curl -s http://127.0.0.1:10269/scaledowns > a.json && trimtab report -f a.json
                                                    the records of one replica of the webhooks
  trimtab watch -o json > b.jsonl; trimtab report -f b.jsonl
"""
)
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Records of scale-downs: what /scaledowns serves, a log in JSON, or the lines of `trimtab watch -o json`.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="The policies of all namespaces.")
@output_option("json", "yaml")
@source_options
def report(
    files: tuple[Path, ...],
    all_namespaces: bool,
    output: str | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    snapshot: Path | None,
    config: Path | None,
) -> None:
    """Sum up the scale-downs of an installation, or of records.

    Without files, the statuses of ScaleDownPolicies are read, which count every scale-down that they applied to.
    Default policies have no status: their scale-downs are in the records of the webhooks, which -f reads.
    """
    from trimtab.api.scaledown import ScaleDownPolicy
    from trimtab.inspection import summaries

    if files:
        summary = summaries.summarize(summaries.read_files(files))
        emit(summary, output, lambda: render_summary(summary))
        return
    source = Source(kubeconfig, context, namespace, snapshot, config)
    cluster = source.read([ScaleDownPolicy])
    where = source.chosen_namespace(cluster)
    policies = [each for each in cluster.all(ScaleDownPolicy) if all_namespaces or each.metadata.namespace == where]
    if not policies:
        scope = "the cluster" if all_namespaces else f"namespace {where}"
        warn(f"there are no ScaleDownPolicies in {scope}; for default policies, read the webhooks' records with -f")
    found = summaries.of_policies(policies)
    emit(found, output, lambda: render_installation(found))
