"""Trimtab's objects for a lab: printed by `trimtab install`, created on the lab's API server.

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
from trimtab.kube.config import discover
from trimtab.kube.errors import AlreadyExists
from trimtab.kube.resources import untyped
from trimtab.kube.sessions import Session

PLURALS: Mapping[str, str] = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "CustomResourceDefinition": "customresourcedefinitions",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
"""The kinds of an installation that processes outside the cluster need, with their plural names."""


def connect(kubeconfig: Path | None) -> Client:
    """A client of the API server of a kubeconfig."""
    return Client(Session(discover(kubeconfig)))


async def render_local(configuration: Path) -> list[JSON]:
    """The objects that `trimtab install --local` prints for a configuration file."""
    return await _render("--local", "--config", str(configuration))


async def render_accounts(configuration: Path, kubeconfig: Path) -> list[JSON]:
    """What `trimtab install` prints of Trimtab's identity: its namespace, ServiceAccounts, roles, admission policy."""
    options = ("--crds", "none", "--config", str(configuration), "--kubeconfig", str(kubeconfig))
    wanted = PLURALS.keys() - {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
    return [each for each in await _render(*options) if each["kind"] in wanted]


async def _render(*options: str) -> list[JSON]:
    command = (sys.executable, "-m", "trimtab", "install", *options, "-o", "json")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    output, errors = await process.communicate()
    if process.returncode != 0:
        raise click.ClickException(f"trimtab install {options[0]} failed: {errors.decode().strip()}")
    items: list[JSON] = json.loads(output)["items"]
    return items


async def create_missing(client: Client, objects: Iterable[JSON], *, has_cel: bool = False) -> None:
    """Create the objects that do not exist; without match conditions if the API server has no CEL."""
    namespaces: list[JSON] = []
    others: list[JSON] = []
    for each in objects:
        (namespaces if each["kind"] == "Namespace" else others).append(each if has_cel else _without_conditions(each))
    for group in (namespaces, others):
        await asyncio.gather(*(_create(client, each) for each in group))


async def _create(client: Client, tree: JSON) -> None:
    namespace = tree["metadata"].get("namespace", "")
    resource = untyped(tree["apiVersion"], tree["kind"], PLURALS[tree["kind"]], namespaced=bool(namespace))
    try:
        await client.create(resource, tree, namespace=namespace)
    except AlreadyExists:
        return


def _without_conditions(tree: JSON) -> JSON:
    if "webhooks" not in tree:
        return tree
    webhooks = [{name: value for name, value in each.items() if name != "matchConditions"} for each in tree["webhooks"]]
    return {**tree, "webhooks": webhooks}
