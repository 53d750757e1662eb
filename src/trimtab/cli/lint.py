"""`trimtab lint`: what keeps workloads from being level."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.findings import CannotCheckError, check_ids, exit_by, fail_on_option
from trimtab.cli.output import emit, line, output_option, title, warn
from trimtab.cli.source import Source, source_options

if TYPE_CHECKING:
    from trimtab.inspection.cluster import Cluster
    from trimtab.inspection.lint.rules import LintResult


@click.command(
    epilog="""
\b
Exit status:
  0  nothing was found, or nothing as severe as --fail-on
  1  something was found
  2  the check could not be made

\b
Examples:
  trimtab lint -A                                         the live cluster, all namespaces
  trimtab lint -f manifests/                              files; rules that need nodes are left out
  trimtab lint -f manifests/ --snapshot cluster.json.zst  files, against the nodes of a cluster
  helm template ./chart | trimtab lint -f - --live        a rendered chart, against the live cluster
  trimtab lint -f manifests/ -o github                    annotations of a GitHub workflow
"""
)
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.Path(path_type=Path, allow_dash=True),
    multiple=True,
    help="Manifests to check: files, folders, or - for standard input.  [default: the live cluster]",
)
@click.option("--live", is_flag=True, help="Check the manifests against the live cluster.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Check all namespaces of the cluster.")
@click.option("--ignore", multiple=True, help="The ID of a rule to leave out; repeatable.")
@fail_on_option
@output_option("json", "yaml", "sarif", "github")
@source_options
def lint(
    files: tuple[Path, ...],
    live: bool,
    all_namespaces: bool,
    ignore: tuple[str, ...],
    fail_on: str,
    output: str | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    snapshot: Path | None,
    config: Path | None,
) -> None:
    """Find what keeps workloads from being level, in manifests or in a cluster.

    Each finding has an ID, the way to fix it, and a section of docs/lint.md.
    """
    from trimtab.api.errors import InvalidError
    from trimtab.inspection.lint.rules import RULES
    from trimtab.kube.errors import KubeError

    source = Source(kubeconfig, context, namespace, snapshot, config)
    check_ids(ignore, (rule.id for rule in RULES))
    try:
        result = _checked(source, files, is_live=live or not files, all_namespaces=all_namespaces, ignored=ignore)
    except (InvalidError, KubeError, OSError) as error:
        raise CannotCheckError(str(error)) from error
    _print(result, output)
    exit_by(result.worst(), fail_on)


def _checked(
    source: Source, files: tuple[Path, ...], *, is_live: bool, all_namespaces: bool, ignored: tuple[str, ...]
) -> LintResult:
    from trimtab.inspection import manifests
    from trimtab.inspection.cluster import Cluster
    from trimtab.inspection.lint.rules import check
    from trimtab.inspection.lint.world import world_of

    unreadable: list[manifests.UnreadableFile] = []
    written = list(manifests.read(files, unreadable))
    settings = source.settings()
    cluster: Cluster = source.read() if is_live or source.snapshot is not None else Cluster(time=0)
    namespace = source.chosen_namespace(cluster)
    checked = () if all_namespaces else (namespace,)
    world = world_of(
        *(written, cluster),
        namespace=namespace,
        checked=checked,
        defaults=settings.defaults,
        owners=settings.owners,
        unreadable_files=unreadable,
    )
    return check(world, ignored)


def _print(result: LintResult, output: str | None) -> None:
    from trimtab.inspection.lint import formats

    if output == "sarif":
        line(json.dumps(formats.sarif(result), indent=2))
    elif output == "github":
        for each in formats.github(result):
            line(each)
    else:
        emit(result, output, lambda: _render(result))
    if result.not_checked and output is None:
        rules = ", ".join(result.not_checked)
        warn(f"no nodes are known, so {rules} were not checked; add --live, or --snapshot FILE")


def _render(result: LintResult) -> None:
    for each in result.findings:
        place = f"{each.file}:{each.line}: " if each.line else f"{each.file}: " if each.file else ""
        title(f"{place}{each.severity} {each.id} {each.subject}")
        line(f"  {each.message}")
        line(f"  fix: {each.fix}")
        line(f"  see: {each.docs}")
    findings = "finding" if len(result.findings) == 1 else "findings"
    workloads = "workload" if result.checked == 1 else "workloads"
    line(f"{len(result.findings)} {findings} in {result.checked} {workloads}")
