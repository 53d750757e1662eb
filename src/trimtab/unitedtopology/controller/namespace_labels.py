"""A label on namespaces that have a UnitedTopology, so that only their pods are sent to the webhooks.

The webhooks' configuration selects namespaces by this label: everywhere else no webhook is called for pods. The label
is removed with the last UnitedTopology.
"""

from __future__ import annotations

from trimtab.api.annotations import NAMESPACE_LABEL, NAMESPACE_LABEL_VALUE
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key
from trimtab.kube.runners import Result, Runner
from trimtab.kube.stores import Object
from trimtab.unitedtopology.view import BY_NAMESPACE, View


class NamespaceLabeller:
    """Sets and removes the label of every namespace."""

    def __init__(
        self, client: Client, view: View, *, pod_webhook: bool, namespaces: frozenset[str] = frozenset()
    ) -> None:
        """If `namespaces` are given, all others are left alone."""
        self._client = client
        self._view = view
        self._pod_webhook = pod_webhook
        self._namespaces = namespaces
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner("namespaces", self.reconcile, self.queue, after=(view.topologies, view.namespaces))
        view.topologies.subscribe(added=self._enqueue, deleted=self._enqueue)
        view.namespaces.subscribe(added=self._enqueue_namespace, updated=lambda _, new: self._enqueue_namespace(new))

    async def reconcile(self, name: Key) -> Result:
        """Set or remove the label of one namespace."""
        namespace = self._view.namespaces.get(name)
        if namespace is None or namespace.metadata.deletion_timestamp is not None or not self._is_managed(name):
            return Result()
        wanted = (
            NAMESPACE_LABEL_VALUE if self._pod_webhook and self._view.topologies.store.by(BY_NAMESPACE, name) else None
        )
        if namespace.metadata.labels.get(NAMESPACE_LABEL) != wanted:
            await self._write(name, {"metadata": {"labels": {NAMESPACE_LABEL: wanted}}})
        return Result()

    async def _write(self, name: str, patch: JSON) -> None:
        try:
            await self._client.patch(Namespace, name, patch)
        except NotFound:
            return

    def _is_managed(self, name: str) -> bool:
        return not self._namespaces or name in self._namespaces

    def _enqueue_namespace(self, namespace: Namespace) -> None:
        """Enqueue a namespace that has the label, or should have it."""
        name = namespace.metadata.name
        if NAMESPACE_LABEL in namespace.metadata.labels or self._view.topologies.store.by(BY_NAMESPACE, name):
            self.queue.add(Key(name))

    def _enqueue(self, topology: Object) -> None:
        self.queue.add(Key(topology.metadata.namespace))
