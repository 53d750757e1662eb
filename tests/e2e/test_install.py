"""What `trimtab install` prints, on a control plane that knows admission policies; the lab's does not."""

from __future__ import annotations

import asyncio
import copy
import itertools
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.api.annotations import DELETION_COST, PROTECT_COSTS
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.install import definitions, manifests, protection, removal
from trimtab.install.options import Options, account
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.errors import AlreadyExists, Forbidden, Invalid
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.sessions import Session

pytestmark = pytest.mark.e2e


@asynccontextmanager
async def connected(kubeconfig: Path, warnings: list[str] | None = None, user: str = "") -> AsyncIterator[Client]:
    """A client that records its warnings, and may impersonate another user."""
    endpoint = discover(kubeconfig)
    if user:
        groups = {"Impersonate-User": (user,), "Impersonate-Group": ("system:masters",)}
        endpoint = replace(endpoint, impersonate=groups)
    async with Client(Session(endpoint)) as client:
        configured = client if warnings is None else client.using(on_warning=warnings.append)
        tried = protection.policy(Options())
        tried["metadata"]["name"] = f"tried-{secrets.token_hex(4)}"
        try:
            await client.create(resource(tried), tried, dry_run=True)
        except Invalid as error:
            if "the lab does not evaluate" not in str(error):
                raise
            pytest.skip("this is a lab: it has no admission policies, and says so")
        yield configured


def resource(an_object: JSON) -> Resource[JSON]:
    """What an object's kind is called on the wire."""
    plurals = {**removal.PLURALS, "CustomResourceDefinition": "customresourcedefinitions"}
    namespaced = "namespace" in an_object["metadata"]
    return untyped(an_object["apiVersion"], an_object["kind"], plurals[an_object["kind"]], namespaced=namespaced)


async def test_an_api_server_takes_everything_that_is_printed(control_plane: Path) -> None:
    """Every field of every object is one that it knows, and every expression one that it can evaluate."""
    options = Options(namespace="default")
    async with connected(control_plane) as client:
        for each in manifests.everything(options, definitions.choose("all", []).manifests):
            namespace = each["metadata"].get("namespace", "")
            try:
                await client.create(resource(each), each, namespace=namespace, dry_run=True, field_validation="Strict")
            except AlreadyExists:
                continue


async def wait_until_refused(client: Client, namespace: str) -> None:
    """An API server takes a moment to take up a policy."""
    async with asyncio.timeout(30):
        for cost in itertools.count(100):
            try:
                await change(client, namespace, str(cost))
            except Forbidden:
                return
            await asyncio.sleep(0.2)


async def change(client: Client, namespace: str, cost: str, subresource: str = "") -> None:
    """Change a pod's cost."""
    patch = {"metadata": {"annotations": {DELETION_COST: cost}}}
    await client.patch(Pod, "p", patch, namespace=namespace, subresource=subresource)


@asynccontextmanager
async def protected(client: Client, options: Options, name: str) -> AsyncIterator[str]:
    """A namespace whose costs are protected, with a pod in it; under names of its own, for others are here too."""
    policy, binding, *_ = (copy.deepcopy(each) for each in protection.manifests(options))
    policy["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = name
    binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] = name
    await client.create(Namespace, {"metadata": {"name": name, "labels": {PROTECT_COSTS: "true"}}})
    try:
        for each in (policy, binding):
            await client.create(resource(each), each)
        spec = {"schedulerName": "nobody", "containers": [{"name": "web", "image": "example.com/web:1"}]}
        await until_created(
            client, {"metadata": {"name": "p", "annotations": {DELETION_COST: "5"}}, "spec": spec}, name
        )
        yield name
    finally:
        for each in (binding, policy):
            await client.delete(resource(each), name)
        await client.delete(Namespace, name)


async def until_created(client: Client, pod: JSON, namespace: str) -> None:
    """A namespace takes a moment to get the account that its pods run as."""
    async with asyncio.timeout(30):
        while True:
            try:
                await client.create(Pod, pod, namespace=namespace)
            except Forbidden:
                await asyncio.sleep(0.2)
            else:
                return


async def test_others_are_kept_from_changing_costs_where_an_administrator_says_so(control_plane: Path) -> None:
    """Created with any cost, changed by Trimtab alone, neither by an update nor through the status."""
    options = Options(deny_cost_changes=True)
    name = f"costs-{secrets.token_hex(4)}"
    ours = f"system:serviceaccount:{options.namespace}:{account('webhooks')}"
    async with connected(control_plane) as client, protected(client, options, name):
        await wait_until_refused(client, name)
        with pytest.raises(Forbidden, match="is written by Trimtab"):
            await change(client, name, "9", subresource="status")
        await client.patch(Pod, "p", {"metadata": {"labels": {"tier": "web"}}}, namespace=name)
        async with connected(control_plane, user=ours) as trimtab:
            await change(trimtab, name, "7")
        assert (await client.get(Pod, "p", namespace=name)).metadata.annotations[DELETION_COST] == "7"


async def test_by_default_others_are_warned(control_plane: Path) -> None:
    """And the change is made."""
    warnings: list[str] = []
    name = f"costs-{secrets.token_hex(4)}"
    async with connected(control_plane, warnings) as client, protected(client, Options(), name):
        async with asyncio.timeout(30):
            for cost in itertools.count(100):
                await change(client, name, str(cost))
                if warnings:
                    break
                await asyncio.sleep(0.2)
        assert "is written by Trimtab in this namespace" in warnings[0]
