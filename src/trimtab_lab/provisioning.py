"""Trimtab's objects for a lab: printed by `trimtab install --local`, created on the lab's API server.

The lab does not import the product: it runs its command line, as a user would.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists
from trimtab.kube.resources import untyped

_PLURALS: Mapping[str, str] = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
"""The kinds that `trimtab install --local` prints, with their plural names."""


async def render_manifests(configuration: Path) -> list[JSON]:
    """Run `trimtab install --local` for a configuration file and return the objects that it prints."""
    command = (sys.executable, "-m", "trimtab", "install", "--local", "--config", str(configuration), "-o", "json")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    output, errors = await process.communicate()
    if process.returncode != 0:
        raise click.ClickException(f"trimtab install --local failed: {errors.decode().strip()}")
    items: list[JSON] = json.loads(output)["items"]
    return items


async def create_missing(client: Client, objects: Iterable[JSON]) -> None:
    """Create the objects that do not exist, without match conditions: the lab's API server has no CEL."""
    await asyncio.gather(*(_create(client, each) for each in objects))


async def _create(client: Client, tree: JSON) -> None:
    resource = untyped(tree["apiVersion"], tree["kind"], _PLURALS[tree["kind"]], namespaced=False)
    if "webhooks" in tree:
        tree = {**tree, "webhooks": [_without_conditions(webhook) for webhook in tree["webhooks"]]}
    try:
        await client.create(resource, tree)
    except AlreadyExists:
        return


def _without_conditions(webhook: JSON) -> JSON:
    return {name: value for name, value in webhook.items() if name != "matchConditions"}
