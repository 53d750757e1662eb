"""A kind like Argo's Rollout and a small controller of it, to stand in for workloads of other projects.

A Rollout owns a ReplicaSet for each template and gives the newest one its size; the others get none when all pods of
the newest are available. Its status has the observed generation as text, as Argo's has.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from trimtab.api.apps import ReplicaSet
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.workloads import CustomWorkload, ReplicaSetOwners, WorkloadKind
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from trimtab.kube.informers import Informer
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, Resource, object_key
from trimtab.kube.runners import Result, Runner
from trimtab.kube.stores import by_controller, key_of

KIND = WorkloadKind(group="rollouts.example.com", version="v1alpha1", kind="Rollout", plural="rollouts")
OWNERS = ReplicaSetOwners.of([KIND])
(Rollout,) = OWNERS.custom
ROLLOUTS = Resource.of(Rollout).raw
WORKLOADS: list[JSON] = [{"group": KIND.group, "version": KIND.version, "kind": KIND.kind, "plural": KIND.plural}]
"""As a configuration names it."""
REVISION = "rollout.example.com/revision"
HASH = "rollouts-pod-template-hash"

_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: JSON = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{KIND.plural}.{KIND.group}"},
    "spec": {
        "group": KIND.group,
        "scope": "Namespaced",
        "names": {"kind": KIND.kind, "plural": KIND.plural, "singular": "rollout", "listKind": "RolloutList"},
        "versions": [
            {
                "name": KIND.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"replicas": {"type": "integer"}, "selector": _FREE, "template": _FREE},
                            },
                            "status": _FREE,
                        },
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
            }
        ],
    },
}


def rollout(workload: JSON) -> JSON:
    """A Rollout with the spec of a Deployment."""
    return {**workload, "apiVersion": KIND.api_version, "kind": KIND.kind}


class RolloutController:
    """Keeps the ReplicaSets of Rollouts."""

    def __init__(self, client: Client, *, namespace: str = "") -> None:
        self._client = client
        rng = random.Random(1)
        self._rollouts = Informer(client, Rollout, namespace=namespace, rng=rng)
        self._sets = Informer(client, ReplicaSet, namespace=namespace, indexes={"owner": by_controller}, rng=rng)
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self._runner = Runner("rollouts", self.reconcile, self.queue, after=(self._sets,))
        self._rollouts.subscribe(added=self._add, updated=lambda _, new: self._add(new))
        self._sets.subscribe(added=self._add_owner, updated=lambda _, new: self._add_owner(new))

    async def run(self) -> None:
        """Work until cancelled."""
        await asyncio.gather(self._rollouts.run(), self._sets.run(), self._runner.run())

    def _add(self, found: CustomWorkload) -> None:
        self.queue.add(key_of(found))

    def _add_owner(self, replicaset: ReplicaSet) -> None:
        owner = replicaset.metadata.controller
        if owner is not None and owner.kind == KIND.kind:
            self.queue.add(object_key(replicaset.metadata.namespace, owner.name))

    async def reconcile(self, key: Key) -> Result:
        """Give the newest ReplicaSet the Rollout's size."""
        found = self._rollouts.get(key)
        if found is None:
            return Result()
        own = self._sets.store.by("owner", found.metadata.uid)
        name = f"{found.metadata.name}-{template_hash(found)}"
        newest = next((each for each in own if each.metadata.name == name), None)
        if newest is None:
            await self._create(found, name, own)
            return Result()
        await self._resize(newest, found.desired_replicas)
        if newest.status.available_replicas == found.desired_replicas:
            for each in own:
                if each is not newest:
                    await self._resize(each, 0)
        await self._report(found, own)
        return Result()

    async def _create(self, found: CustomWorkload, name: str, own: Sequence[ReplicaSet]) -> None:
        metadata, template = found.metadata, template_of(found)
        labels = {**template["metadata"]["labels"], HASH: template_hash(found)}
        template = {**template, "metadata": {**template["metadata"], "labels": labels}}
        owner = {"apiVersion": KIND.api_version, "kind": KIND.kind, "name": metadata.name, "uid": metadata.uid}
        revision = 1 + max((int(each.metadata.annotations.get(REVISION, "0")) for each in own), default=0)
        body = {
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": {REVISION: str(revision)},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {
                "replicas": found.desired_replicas,
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
        with suppress(AlreadyExists):
            await self._client.create(ReplicaSet, body, namespace=metadata.namespace)

    async def _resize(self, replicaset: ReplicaSet, size: int) -> None:
        if replicaset.desired_replicas != size:
            metadata = replicaset.metadata
            await self._client.patch(
                ReplicaSet, metadata.name, {"spec": {"replicas": size}}, namespace=metadata.namespace
            )

    async def _report(self, found: CustomWorkload, own: Sequence[ReplicaSet]) -> None:
        metadata, selector = found.metadata, found.spec.selector
        labels = {} if selector is None else selector.match_labels
        replicas = sum(each.status.replicas for each in own)
        available = sum(each.status.available_replicas for each in own)
        known = found.status
        if (known.replicas, known.available_replicas, known.observed_generation) == (
            *(replicas, available),
            metadata.generation,
        ):
            return
        status = {
            "replicas": replicas,
            "availableReplicas": available,
            "observedGeneration": str(metadata.generation),
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        }
        with suppress(NotFound, Conflict):
            patch = {"metadata": {"uid": metadata.uid}, "status": status}
            await self._client.patch(ROLLOUTS, metadata.name, patch, namespace=metadata.namespace, subresource="status")


def template_of(found: CustomWorkload) -> JSON:
    """The template as plain JSON."""
    assert found.spec.template is not None
    tree: JSON = found.spec.template.tree()
    return tree


def template_hash(found: CustomWorkload) -> str:
    """A hash of the template."""
    return hashlib.sha256(json.dumps(template_of(found), sort_keys=True).encode()).hexdigest()[:8]


async def define(client: Client) -> None:
    """Have the API server serve Rollouts; it may do so already."""
    with suppress(AlreadyExists):
        await client.create(CustomResourceDefinition, DEFINITION)
    async with asyncio.timeout(30):
        while not await _is_served(client):
            await asyncio.sleep(0.05)


async def _is_served(client: Client) -> bool:
    try:
        await client.list(ROLLOUTS, limit=1)
    except ApiError:
        return False
    return True


@asynccontextmanager
async def controlling(client: Client, namespace: str) -> AsyncIterator[None]:
    """The kind, and its controller for one namespace, until the context ends; then its Rollouts are deleted."""
    await define(client)
    task = asyncio.ensure_future(RolloutController(client, namespace=namespace).run())
    try:
        yield
    finally:
        await client.delete_all(ROLLOUTS, namespace=namespace, propagation="Background")
        await cancel(task)
