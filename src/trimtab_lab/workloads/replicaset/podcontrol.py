"""Creates and deletes pods for a workload, with events.

Pods are created in slow-start batches (`trimtab.kube.slow_start`). A terminating namespace refuses every pod; that is
not a failure, and retrying would not help.

A pod is deleted by its UID, so that a successor with the same name is not deleted; one that is gone is ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from trimtab.api.apps import ReplicaSet
from trimtab.api.codec import encode
from trimtab.api.documents import pod_from_template
from trimtab.api.meta import ObjectReference
from trimtab.api.pods import Pod
from trimtab.kube import ownership
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, Conflict, NotFound
from trimtab.kube.events import NORMAL, WARNING, Recorder
from trimtab.kube.resources import Resource
from trimtab.kube.runners import TerminalError
from trimtab.kube.slow_start import create_in_batches
from trimtab_lab.workloads.replicaset.metrics import Metrics
from trimtab_lab.workloads.replicaset.replicas import FAILED_CREATE, FAILED_DELETE

SUCCESSFUL_CREATE, SUCCESSFUL_DELETE = "SuccessfulCreate", "SuccessfulDelete"
_LONGEST_NAME = 253


class PodControl:
    """Creates and deletes pods for workloads of one kind."""

    def __init__(self, client: Client, recorder: Recorder, metrics: Metrics, owners: Resource[Any]) -> None:
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._owners = owners

    async def create(self, replicaset: ReplicaSet, count: int, failed: Callable[[int], None]) -> ApiError | None:
        """Create pods; returns the first error. `failed` is called with the number that were not created."""
        body = self._body(replicaset)
        return await create_in_batches([body] * count, partial(self._create, replicaset), failed)

    async def delete(
        self, replicaset: ReplicaSet, pods: Sequence[Pod], failed: Callable[[Pod], None]
    ) -> ApiError | None:
        """Delete these pods; returns the first error. `failed` is called for each that will not be seen as deleted."""
        outcomes = await asyncio.gather(*(self._delete(replicaset, pod, failed) for pod in pods))
        return next((outcome for outcome in outcomes if outcome is not None), None)

    def _body(self, replicaset: ReplicaSet) -> bytes:
        """The body of all pods of a workload: the API server generates their names."""
        metadata, template = replicaset.metadata, replicaset.spec.template
        if template is None:
            raise TerminalError(f"{self._owners.kind} {metadata.namespace}/{metadata.name} has no template")
        owner = ownership.controller_reference(self._owners, metadata)
        prefix = f"{metadata.name}-" if len(metadata.name) < _LONGEST_NAME else metadata.name
        return encode(pod_from_template(template, namespace=metadata.namespace, owner=owner, generate_name=prefix))

    async def _create(self, replicaset: ReplicaSet, body: bytes) -> ApiError | None:
        try:
            created = await self._client.create(Pod, body, namespace=replicaset.metadata.namespace)
        except ApiError as error:
            if error.is_namespace_terminating:
                return None
            self._record_event(replicaset, WARNING, FAILED_CREATE, f"Error creating: {error.message}")
            return error
        self._record_event(replicaset, NORMAL, SUCCESSFUL_CREATE, f"Created pod: {created.metadata.name}")
        return None

    async def _delete(self, replicaset: ReplicaSet, pod: Pod, failed: Callable[[Pod], None]) -> ApiError | None:
        metadata = pod.metadata
        try:
            await self._client.delete(Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        except (NotFound, Conflict):
            failed(pod)
            return None
        except ApiError as error:
            failed(pod)
            self._record_event(replicaset, WARNING, FAILED_DELETE, f"Error deleting: {error.message}")
            return error
        self._metrics.pod_deleted(self._owners.kind)
        self._record_event(replicaset, NORMAL, SUCCESSFUL_DELETE, f"Deleted pod: {metadata.name}")
        return None

    def _record_event(self, replicaset: ReplicaSet, severity: str, reason: str, message: str) -> None:
        metadata = replicaset.metadata
        about = ObjectReference(
            api_version=self._owners.api_version,
            kind=self._owners.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )
        self._recorder.record(about, severity, reason, message)
