"""`trimtab doctor`: a read-only check of an installation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.findings import CannotCheckError, check_ids, exit_by, fail_on_option
from trimtab.cli.output import emit, line, output_option, title, warn
from trimtab.cli.source import client_of

if TYPE_CHECKING:
    from trimtab.doctor.facts import Facts
    from trimtab.doctor.rules import Diagnosis
    from trimtab.install.options import Options
    from trimtab.kube.client import Client
    from trimtab.kube.endpoints import Endpoint


@click.command(
    epilog="""
\b
Exit status:
  0  nothing was found, or nothing as severe as --fail-on
  1  something was found
  2  the check could not be made

\b
Examples:
  trimtab doctor                             the installation in trimtab-system
  trimtab doctor --namespace level -o json   in another namespace, for programs
  trimtab doctor --config trimtab.yaml       processes outside the cluster, as `trimtab run --config` starts them
  trimtab doctor --fail-on error             warnings are printed, and the exit status is 0
"""
)
@click.option("--namespace", default="trimtab-system", show_default=True, help="The namespace of the installation.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The configuration of processes outside the cluster; their accounts and Deployments are not looked for.",
)
@click.option("--ignore", multiple=True, help="The ID of a finding to leave out; repeatable.")
@fail_on_option
@output_option("json", "yaml")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig file; found as kubectl finds it.")
@click.option("--context", default="", help="The context of the kubeconfig.")
def doctor(
    namespace: str,
    config_file: Path | None,
    ignore: tuple[str, ...],
    fail_on: str,
    output: str | None,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Check an installation: what is broken in it, and how to fix that.

    Versions, certificates, webhooks, leases, clocks, permissions, costs and policies; nothing is changed. Each finding
    has an ID, its fix, and a place in docs/doctor.md. What may not be read is named, with what was not checked without
    it; an administrator's kubeconfig reads everything.
    """
    from trimtab.doctor.rules import RULES, check
    from trimtab.kube.config import discover
    from trimtab.kube.errors import KubeError

    check_ids(ignore, (rule.id for rule in RULES))
    local = None if config_file is None else _local(config_file)
    try:
        facts = asyncio.run(_read(discover(kubeconfig, context=context), namespace, local))
    except KubeError as error:
        raise CannotCheckError(f"the cluster was not reached: {error}") from error
    result = check(facts, ignore)
    emit(result, output, lambda: _render(result))
    for gap in result.gaps if output is None else ():
        warn(gap.sentence())
    exit_by(result.worst(), fail_on)


def _local(config_file: Path) -> Options:
    from trimtab.api import configuration
    from trimtab.install.options import Options
    from trimtab.kube.files import read_yaml, with_kube_scheduler, with_scheduler

    folder = config_file.parent
    tree = with_kube_scheduler(with_scheduler(read_yaml(config_file), folder), folder)
    read = configuration.read(tree)
    webhooks = {**(tree.get("webhooks") or {}), "registeredAs": read.webhooks.registered_as}
    return Options(namespace=read.namespace, configuration={**tree, "webhooks": webhooks}, components=read.components)


async def _read(endpoint: Endpoint, namespace: str, local: Options | None) -> Facts:
    from trimtab.doctor import reading

    @asynccontextmanager
    async def impersonate(user: str) -> AsyncIterator[Client]:
        async with client_of(replace(endpoint, impersonate={"Impersonate-User": (user,)})) as client:
            yield client

    async with client_of(endpoint) as client:
        where = namespace if local is None else local.namespace
        return await reading.read(client, namespace=where, impersonate=impersonate, local=local)


def _render(result: Diagnosis) -> None:
    for each in result.findings:
        title(f"{each.severity} {each.id} {each.object}")
        line(f"  {each.message}")
        line(f"  fix: {each.fix}")
        line(f"  see: {each.docs}")
    findings = "finding" if len(result.findings) == 1 else "findings"
    line(f"{len(result.findings)} {findings}; {len(result.checked)} rules were checked")
