"""`trimtab snapshot`: the cluster as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from trimtab.cli.source import Source, config_option, live_options


@click.command(
    epilog="""
\b
Examples:
  trimtab snapshot > cluster.json.zst                     what decisions look at, compressed
  trimtab snapshot --anonymize -f cluster.json.zst        with all names replaced, to share
  trimtab snapshot --plain | jq .objects.nodes            as JSON
  trimtab plan deploy/web --replicas 6 --snapshot cluster.json.zst
"""
)
@click.option(
    "-f", "--file", type=click.Path(path_type=Path, dir_okay=False), help="The file.  [default: standard output]"
)
@click.option("--anonymize", is_flag=True, help="Replace names, label values and images; what decisions say stays.")
@click.option("--plain", is_flag=True, help="Write JSON without compressing it.")
@config_option
@live_options
def snapshot(
    file: Path | None,
    anonymize: bool,
    plain: bool,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    config: Path | None,
) -> None:
    """Capture what decisions look at in a file: no secrets, no environment, no annotations of others.

    Every command that inspects a cluster reads such a file with --snapshot. Only list rights are needed; what may not
    be listed is named, and the file says so too.
    """
    from trimtab.inspection import anonymous, files

    if file is None and not plain and sys.stdout.isatty():
        raise click.UsageError("the file is compressed; redirect it (> cluster.json.zst), or add --plain")
    cluster = Source(kubeconfig, context, namespace, config=config).read()
    captured = files.to_file(cluster)
    content: Any = anonymous.anonymize(files.tree_of(captured)) if anonymize else captured
    data = files.encode(content, compress=not plain)
    if file is not None:
        file.write_bytes(data)
    else:
        sys.stdout.buffer.write(data)
