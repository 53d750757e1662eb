"""YAML in the documentation: every object is one that an API server accepts, every fragment one that Trimtab reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.unit.documentation.pages import Block, blocks
from trimtab.api import configuration, crds
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.sessions import Session
from trimtab.scheduler import configuration as scheduler_configuration
from trimtab_lab.apiserver.wire.server import Server
from trimtab_lab.nodes import shapes
from trimtab_lab.scenarios import stories

BLOCKS = blocks("yaml")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def policy(**spec: Any) -> JSON:
    """A ScaleDownPolicy around a fragment of its spec."""
    body = {"targetRef": TARGET, **spec}
    return {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy", "metadata": {"name": "p"}, "spec": body}


def topology(**spec: Any) -> JSON:
    """A UnitedTopology around a fragment of its spec."""
    body = {"targetRef": TARGET, "subsets": [{"name": "all", "nodeSelectorTerm": {}}], **spec}
    kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedTopology"}
    return {**kind, "metadata": {"name": "t"}, "spec": body}


def pod(metadata: JSON | None = None, spec: JSON | None = None) -> JSON:
    """A pod around a fragment of it."""
    body = {"containers": [{"name": "web", "image": "example.com/web:1"}], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**(metadata or {}), "name": "p"}, "spec": body}


WRAPPED: dict[tuple[str, frozenset[str]], Callable[[Any], JSON]] = {
    ("docs/default-constraints.md", frozenset({"metadata", "spec"})): lambda tree: pod(**tree),
    ("docs/howto/keep-a-deployment-level.md", frozenset({"topologySpreadConstraints"})): lambda tree: pod(spec=tree),
    ("docs/howto/run-beside-karpenter.md", frozenset({"topologySpreadConstraints"})): lambda tree: pod(spec=tree),
    ("docs/howto/spot-with-a-floor.md", frozenset({"scheduleStrategy"})): lambda tree: topology(**tree),
    ("docs/lab-nodes.md", frozenset({"metadata"})): lambda tree: pod(**tree),
    ("docs/scale-down.md", frozenset({"metadata"})): lambda tree: pod(**tree),
    ("docs/strategies.md", frozenset({"strategies"})): lambda tree: policy(**tree),
    ("docs/strategies.md", frozenset({"spec"})): lambda tree: policy(**tree["spec"]),
    ("docs/united-topology.md", frozenset({"spec"})): lambda tree: topology(**tree["spec"]),
    ("docs/united-topology.md", frozenset({"scheduleStrategy"})): lambda tree: topology(**tree),
}
"""Fragments of objects, by page and keys, and what makes an object of each."""

FOREIGN = {"WorkloadSpread": "OpenKruise's: neither Trimtab nor the lab knows the kind"}
"""Kinds that are not validated, and why."""

READ_ALONE: dict[str, Callable[[str], object]] = {
    "docs/lab-stories.md": stories.parse,
    "docs/lab-nodes.md": lambda text: shapes.read(yaml.safe_load(text)),
}
"""Pages whose other fragments are files of the lab."""


def documents(block: Block) -> list[JSON]:
    """The YAML documents of a block."""
    found: list[JSON] = list(yaml.safe_load_all(block.text))
    return found


def is_object(tree: JSON) -> bool:
    """Whether an API server stores it."""
    return "kind" in tree and tree["kind"] not in (configuration.KIND, "KubeSchedulerConfiguration", *FOREIGN)


def prepared(block: Block, tree: JSON) -> JSON | None:
    """The object that an API server is to accept; None for what is read otherwise."""
    wrap = WRAPPED.get((block.page, frozenset(tree)))
    return wrap(tree) if wrap is not None else tree if is_object(tree) else None


def read(block: Block, tree: JSON) -> object:
    """Read what no API server stores. Raises an error for what is invalid."""
    if tree.get("kind") in FOREIGN:
        return None
    if "apiVersion" in tree and str(tree["apiVersion"]).startswith(("kubescheduler", "componentconfig")):
        return scheduler_configuration.read(tree)
    fields = {field.encode_name for field in msgspec.structs.fields(configuration.TrimtabConfiguration)}
    if tree.keys() <= fields:
        return configuration.read(tree)
    return READ_ALONE[block.page](block.text)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
async def test_a_block_is_valid(block: Block, tmp_path: Path) -> None:
    """Objects are created as a dry run, with every unknown field refused."""
    objects = [made for tree in documents(block) if (made := prepared(block, tree)) is not None]
    others = [tree for tree in documents(block) if prepared(block, tree) is None]
    for tree in others:
        read(block, tree)
    if not objects:
        return
    async with Server(tmp_path) as server, Client(Session(discover(server.kubeconfig))) as client:
        for each in crds.manifests():
            await client.create(Resource.of(CustomResourceDefinition).raw, each)
        for each in objects:
            await create(client, each)


async def create(client: Client, tree: JSON) -> None:
    """Create an object as a dry run, in the default namespace where it has one."""
    plurals = {kind.kind: kind.plural for kind in crds.KINDS}
    namespaced = tree["kind"] != "ClusterRole"
    plural = plurals.get(tree["kind"], f"{tree['kind'].lower()}s")
    kind = untyped(tree["apiVersion"], tree["kind"], plural, namespaced=namespaced)
    body = {**tree, "metadata": {**tree["metadata"], "namespace": "default"}} if namespaced else tree
    await client.create(kind, body, namespace="default" if namespaced else "", dry_run=True, field_validation="Strict")


def test_no_exception_is_left_over() -> None:
    """An entry of a table that no block needs is removed."""
    found = {(block.page, frozenset(tree)) for block in BLOCKS for tree in documents(block)}
    kinds = {tree.get("kind") for block in BLOCKS for tree in documents(block)}
    assert set(WRAPPED) <= found
    assert set(FOREIGN) <= kinds
