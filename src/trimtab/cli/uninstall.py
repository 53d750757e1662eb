"""`trimtab uninstall`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.install import CONTEXT, KUBECONFIG, NAMESPACE, connect

if TYPE_CHECKING:
    from trimtab.api.documents import JSON
    from trimtab.kube.client import Client


@click.command(
    epilog="""
\b
Examples:
  trimtab uninstall --dry-run                what would be removed
  trimtab uninstall                          everything but the definitions of our kinds
  trimtab uninstall --remove-crds --yes      those too, and with them every object of these kinds
  trimtab uninstall --dropped-namespaces     only permissions in namespaces that are not configured any more
"""
)
@NAMESPACE
@click.option("--dry-run", is_flag=True, help="Print what exists and would be removed, and remove nothing.")
@click.option(
    "--remove-crds",
    is_flag=True,
    help="Remove the definitions of our kinds too. That deletes every ScaleDownPolicy, PodGroupCost, UnitedTopology "
    "and CloneSet in the cluster, and the pods of those CloneSets with them.",
)
@click.option(
    "--dropped-namespaces",
    is_flag=True,
    help="Remove only the permissions in namespaces that the installed configuration does not name any more.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@KUBECONFIG
@CONTEXT
def uninstall(
    namespace: str,
    dry_run: bool,
    remove_crds: bool,
    dropped_namespaces: bool,
    yes: bool,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Remove Trimtab from a cluster: its workloads, its webhooks, and every annotation and cost that it has written."""
    if dropped_namespaces and remove_crds:
        raise click.BadParameter("removes permissions and nothing else", param_hint="--dropped-namespaces")
    if dropped_namespaces:
        asyncio.run(_remove_dropped(namespace, kubeconfig, context, dry_run=dry_run))
    else:
        asyncio.run(_uninstall(namespace, kubeconfig, context, dry_run=dry_run, remove_crds=remove_crds, sure=yes))


async def _remove_dropped(namespace: str, kubeconfig: Path | None, context: str, *, dry_run: bool) -> None:
    from trimtab.install import removal

    async with connect(kubeconfig, context) as client:
        options = await removal.installed(client, namespace)
        _fail_for(await removal.remove_dropped_bindings(client, options, click.echo, dry_run=dry_run))


async def _uninstall(
    namespace: str, kubeconfig: Path | None, context: str, *, dry_run: bool, remove_crds: bool, sure: bool
) -> None:
    from trimtab.install import removal

    async with connect(kubeconfig, context) as client:
        options = await removal.installed(client, namespace)
        definitions = await removal.ours(client)
        if remove_crds:
            await _refuse_shared_definitions(client, namespace)
        left = await removal.dry_run(client, options, click.echo) if dry_run else []
        if remove_crds:
            await _print_losses(client, definitions)
        if dry_run:
            _fail_for(left)
            return
        if remove_crds and not sure:
            click.confirm("Delete all of these objects?", abort=True)
        left = await removal.remove(client, options, click.echo)
        if remove_crds:
            left += await removal.remove_definitions(client, click.echo)
        elif definitions:
            names = ", ".join(each["metadata"]["name"] for each in definitions)
            click.echo(f"kept, with all their objects: {names}; --remove-crds removes them")
        _fail_for(left)


def _fail_for(left: Sequence[str]) -> None:
    """List the steps that could not be done, if there are any, and fail."""
    for each in left:
        click.echo(f"could not be done: {each}", err=True)
    if left:
        raise click.ClickException(f"{len(left)} steps could not be done; correct what is named and run this again")


async def _refuse_shared_definitions(client: Client, namespace: str) -> None:
    """Fail if another installation uses the definitions: with them, its objects would be deleted."""
    from trimtab.install import installations

    others = [each.namespace for each in await installations.others(client, namespace)]
    if others:
        reason = f"the installations in {', '.join(others)} use the definitions; remove them first, or omit it"
        raise click.BadParameter(reason, param_hint="--remove-crds")


async def _print_losses(client: Client, definitions: Sequence[JSON]) -> None:
    """Print what would be deleted."""
    from trimtab.install import removal

    for each in definitions:
        count = await removal.count_objects(client, each)
        click.echo(f"removing {each['metadata']['name']} deletes the {count} objects of that kind in this cluster")
