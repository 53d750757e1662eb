"""The kubelets of all simulated nodes: one informer on pods, one queue, one lifecycle for each pod.

A sync of a pod compares its status with what it should be by now (`podlifecycle`, `statuses`), writes the difference,
and requeues the pod for the next change. A sync is idempotent. The pod's status is the record; what a kubelet keeps in
memory (fractions of seconds, and writes that the informer has not shown) only helps. So the lifecycle is restored from
the status after a restart, after the node was away, and where the status shows other containers than were written:
then another process has run the pod, and two that insisted would overwrite each other for ever.

The pods of a failed node are not touched. When the node recovers, they continue as their statuses say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from trimtab.api.documents import JSON
from trimtab.api.meta import Labels, ObjectReference
from trimtab.kube import versions
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.errors import Conflict, NotFound
from trimtab.kube.events import WARNING
from trimtab.kube.informers import Informer
from trimtab.kube.limits import TokenBucket
from trimtab.kube.resources import Key
from trimtab.kube.runners import Result
from trimtab_lab.nodes import podlifecycle, scripts, statuses
from trimtab_lab.nodes.addresses import POD_NETWORK, Addresses
from trimtab_lab.nodes.podlifecycle import PodLifecycle, Stage
from trimtab_lab.nodes.scripts import PodTimings, Script
from trimtab_lab.nodes.settings import SETTINGS, Settings
from trimtab_lab.nodes.simulatednodes import SimulatedNodes
from trimtab_lab.nodes.statuses import PodAddresses
from trimtab_lab.nodes.views import POD_WRITES, ContainerStatus, Node, Pod, PodStatus

EventReporter = Callable[[ObjectReference, str, str, str], None]
"""Records an event: the object, the type, the reason and the message."""

log = logging.getLogger(__name__)


ContainerRecord = tuple[str, tuple[ContainerStatus, ...], tuple[ContainerStatus, ...]]
"""The part of a status that a lifecycle is restored from: the phase and the containers."""


@dataclass(slots=True)
class PodRecord:
    """What a kubelet remembers of a pod."""

    uid: str
    annotations: Labels
    script: Script
    life: PodLifecycle
    record: ContainerRecord
    written: PodStatus | None = None
    version: str = ""
    """The last written status and its resource version, until the informer has shown it."""
    removed: bool = False


@dataclass(frozen=True, slots=True)
class PodSync:
    """The result of a sync: a patch to write or the pod to remove, and when to requeue it."""

    pod: Pod
    record: PodRecord
    status: PodStatus
    patch: JSON | None = None
    remove: bool = False
    requeue_at: int | None = None

    @property
    def has_work(self) -> bool:
        """Whether there is something to write."""
        return self.patch is not None or self.remove


class Kubelets:
    """Runs the pods of all nodes that have not failed."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pods: Informer[Pod],
        simulated: SimulatedNodes,
        *,
        seed: int,
        timings: PodTimings,
        report: EventReporter,
        settings: Settings = SETTINGS,
    ) -> None:
        self.timings = timings
        self._client = client
        self._clock = clock
        self._pods = pods
        self._simulated = simulated
        self._seed = seed
        self._report = report
        self._settle = round(settings.settle_seconds * SECOND)
        self._limiter = TokenBucket(settings.writes_per_second, settings.write_burst, clock)
        self._records: dict[Key, PodRecord] = {}
        self._addresses = Addresses(POD_NETWORK)

    def record_address(self, pod: Pod) -> None:
        """Record the address of a pod that already has one."""
        if pod.status.pod_ip and not pod.spec.host_network:
            self._addresses.record(pod.metadata.uid, pod.status.pod_ip)

    def release_address(self, pod: Pod) -> None:
        """Release the address of a deleted pod."""
        self._addresses.release(pod.metadata.uid)

    async def reconcile(self, key: Key) -> Result:
        """Sync a pod: write what is due."""
        sync = self._look(key)
        if sync is not None and sync.has_work:
            await self._limiter.wait()
            sync = self._look(key)
        if sync is None:
            return Result()
        if sync.has_work:
            await self._act(sync)
        left = None if sync.requeue_at is None else (sync.requeue_at - self._clock.now()) / SECOND
        return Result(requeue_after=left)

    # Decide.

    def _look(self, key: Key) -> PodSync | None:
        """What to do for a pod now; None if its node is not simulated or has failed."""
        pod = self._pods.get(key)
        node = None if pod is None else self._simulated.get_running(pod.spec.node_name)
        if pod is None or node is None or not node.internal_ip:
            self._records.pop(key, None)
            return None
        now = self._clock.now()
        record = self._pod_record(key, pod, now)
        pod = _as_written(pod, record)
        if _record(pod.status) != record.record:
            record.life, record.record = podlifecycle.restore(pod, now), _record(pod.status)
        record.life, due = podlifecycle.advance(record.life, record.script, now)
        if pod.terminating:
            return self._terminate(pod, node, record, now)
        status = statuses.render(pod, record.life, record.script, self._addresses_of(pod, node), now)
        if record.life.stage is Stage.CREATING and due is not None and due - now <= self._settle:
            return PodSync(pod, record, status, requeue_at=due)
        return PodSync(pod, record, status, statuses.patch(pod, status), requeue_at=due)

    def _terminate(self, pod: Pod, node: Node, record: PodRecord, now: int) -> PodSync:
        """Wait until the containers of a deleted pod have stopped, then remove it.

        Their exit codes are written only if a finalizer keeps the pod, for the finalizer's owner to read.
        """
        grace = pod.metadata.deletion_grace_period_seconds or 0
        leaves = podlifecycle.deletion_time(pod, record.life, record.script)
        if now < leaves:
            return PodSync(pod, record, pod.status, requeue_at=leaves)
        if not pod.metadata.finalizers:
            return PodSync(pod, record, pod.status, remove=not record.removed)
        record.life = podlifecycle.stop(record.life, record.script, leaves, grace)
        status = statuses.render(pod, record.life, record.script, self._addresses_of(pod, node), now)
        return PodSync(pod, record, status, statuses.patch(pod, status), remove=grace > 0 and not record.removed)

    def _pod_record(self, key: Key, pod: Pod, now: int) -> PodRecord:
        """The record of a pod; restored from its status if there is none."""
        record = self._records.get(key)
        if record is None or record.uid != pod.metadata.uid:
            metadata, script = pod.metadata, self._compose(pod)
            record = PodRecord(
                metadata.uid, metadata.annotations, script, podlifecycle.restore(pod, now), _record(pod.status)
            )
            self._records[key] = record
        elif record.annotations != pod.metadata.annotations:
            record.annotations = pod.metadata.annotations
            script = self._compose(pod)
            if script != record.script:
                record.script, record.life = script, replace(record.life, known=now)
        return record

    def _compose(self, pod: Pod) -> Script:
        script, problems = scripts.script_for(pod, self._seed, self.timings)
        for problem in problems:
            log.warning("pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, problem)
            self._report(_reference(pod), WARNING, "InvalidAnnotation", problem)
        return script

    def _addresses_of(self, pod: Pod, node: Node) -> PodAddresses:
        if pod.spec.host_network:
            return PodAddresses(node.internal_ip, node.internal_ip)
        return PodAddresses(node.internal_ip, pod.status.pod_ip or self._addresses.allocate(pod.metadata.uid))

    # Act.

    async def _act(self, sync: PodSync) -> None:
        """Write the result of a sync. A pod that is gone or was replaced needs nothing."""
        try:
            if sync.patch is not None:
                await self._write(sync, sync.patch)
            if sync.remove:
                await self._remove(sync.pod)
                sync.record.removed = True
        except (NotFound, Conflict) as error:
            log.debug("%s", error)

    async def _write(self, sync: PodSync, patch: JSON) -> None:
        metadata = sync.pod.metadata
        answer = await self._client.patch(
            POD_WRITES,
            metadata.name,
            patch,
            how=PatchKind.STRATEGIC,
            namespace=metadata.namespace,
            subresource="status",
        )
        sync.record.written = _merge_status(sync.pod.status, sync.status)
        sync.record.version = answer.metadata.resource_version
        sync.record.record = _record(sync.status)

    async def _remove(self, pod: Pod) -> None:
        metadata = pod.metadata
        await self._client.delete(
            POD_WRITES, metadata.name, namespace=metadata.namespace, uid=metadata.uid, grace_period_seconds=0
        )


def _as_written(pod: Pod, record: PodRecord) -> Pod:
    """The pod with the last written status, if the informer does not show it yet."""
    if record.written is None:
        return pod
    if versions.reached(pod.metadata.resource_version, record.version):
        record.written = None
        return pod
    return Pod(metadata=pod.metadata, spec=pod.spec, status=record.written)


def _record(status: PodStatus) -> ContainerRecord:
    return status.phase, status.container_statuses, status.init_container_statuses


def _merge_status(observed: PodStatus, written: PodStatus) -> PodStatus:
    """The written status, with the conditions that other components own."""
    ours = {each.type for each in written.conditions}
    others = tuple(each for each in observed.conditions if each.type not in ours)
    return PodStatus(
        **{name: getattr(written, name) for name in PodStatus.__struct_fields__ if name != "conditions"},
        conditions=(*written.conditions, *others),
    )


def _reference(pod: Pod) -> ObjectReference:
    metadata = pod.metadata
    return ObjectReference(
        api_version="v1", kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
    )
