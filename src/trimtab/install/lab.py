"""What a lab gets of an installation: our kinds, and what its API server asks.

Nothing else is needed there: it has no authorization, and Trimtab runs beside it as processes. What its API server does
not know is left out: conditions of webhooks and admission policies, which are written in CEL.
"""

from __future__ import annotations

import asyncio

from trimtab.api import crds
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.install import reviews
from trimtab.install.removal import PLURALS
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists
from trimtab.kube.resources import Resource, untyped


async def furnish(client: Client, configuration: TrimtabConfiguration) -> None:
    """Create what is not there yet; `configuration.webhooks.url` is where the webhooks will be."""
    asked = reviews.configurations(
        configuration, reviews.by_url(configuration.webhooks.url), labels=crds.OURS, conditions=False
    )
    made = [
        _create(client, untyped(each["apiVersion"], each["kind"], PLURALS[each["kind"]], namespaced=False), each)
        for each in asked
    ]
    await asyncio.gather(define(client), *made)


async def define(client: Client) -> None:
    """Create the definitions of our kinds that are not there yet."""
    definitions = Resource.of(CustomResourceDefinition).raw
    await asyncio.gather(*(_create(client, definitions, each) for each in crds.manifests()))


async def _create(client: Client, resource: Resource[JSON], tree: JSON) -> None:
    try:
        await client.create(resource, tree)
    except AlreadyExists:
        return
