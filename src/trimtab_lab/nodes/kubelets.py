"""The kubelets of all our nodes: one informer on pods, one queue, one life for each pod.

A sync at a pod goes: what does it say (the informer), what should it say by now (`lives`, `statuses`), write the
difference, come back when something is due. Looking again is always harmless. The pod's status is the record; what a
kubelet remembers besides – the fractions of seconds, and what it has written and not yet seen – is a help. So a life is
read back from the status after a restart, after the node was away, and also where the status tells of other containers
than were written: then somebody else has had the pod meanwhile, and two who insisted would write for ever.

The pods of a node that has failed are not touched. When it comes back, so do they, as their statuses tell.
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
"""Tells people of something: about what, how serious, a word, a sentence."""

log = logging.getLogger(__name__)


ContainerRecord = tuple[str, tuple[ContainerStatus, ...], tuple[ContainerStatus, ...]]
"""What a status tells of a life: the phase and the containers. Conditions are others' business too."""


@dataclass(slots=True)
class PodRecord:
    """What a kubelet remembers of a pod in its care."""

    uid: str
    annotations: Labels
    script: Script
    life: PodLifecycle
    record: ContainerRecord
    written: PodStatus | None = None
    version: str = ""
    """What it wrote last, as long as the informer has not shown it, and the version that this made."""
    removed: bool = False


@dataclass(frozen=True, slots=True)
class PodSync:
    """What a sync at a pod comes to: a patch to write or the pod to remove, and when to sync again."""

    pod: Pod
    record: PodRecord
    status: PodStatus
    patch: JSON | None = None
    remove: bool = False
    requeue_at: int | None = None

    @property
    def has_work(self) -> bool:
        """Whether there is something to do."""
        return self.patch is not None or self.remove


class Kubelets:
    """Runs the pods of all nodes that are alive."""

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

    def seen(self, pod: Pod) -> None:
        """Remember the address of a pod that has one already."""
        if pod.status.pod_ip and not pod.spec.host_network:
            self._addresses.record(pod.metadata.uid, pod.status.pod_ip)

    def gone(self, pod: Pod) -> None:
        """Take back the address of a pod that is no more."""
        self._addresses.release(pod.metadata.uid)

    async def reconcile(self, key: Key) -> Result:
        """Look at a pod, and do what is due."""
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

    # What is due.

    def _look(self, key: Key) -> PodSync | None:
        """What is to be done about a pod; None if it is not, or not now, in our care."""
        pod = self._pods.get(key)
        node = None if pod is None else self._simulated.alive(pod.spec.node_name)
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
        status = statuses.render(pod, record.life, record.script, self._place(pod, node), now)
        if record.life.stage is Stage.CREATING and due is not None and due - now <= self._settle:
            return PodSync(pod, record, status, requeue_at=due)
        return PodSync(pod, record, status, statuses.patch(pod, status), requeue_at=due)

    def _terminate(self, pod: Pod, node: Node, record: PodRecord, now: int) -> PodSync:
        """A pod that is to go: wait until its containers have stopped, then remove it.

        How they ended is written only for those who hold the pod back in order to read it.
        """
        grace = pod.metadata.deletion_grace_period_seconds or 0
        leaves = podlifecycle.deletion_time(pod, record.life, record.script)
        if now < leaves:
            return PodSync(pod, record, pod.status, requeue_at=leaves)
        if not pod.metadata.finalizers:
            return PodSync(pod, record, pod.status, remove=not record.removed)
        record.life = podlifecycle.stop(record.life, record.script, leaves, grace)
        status = statuses.render(pod, record.life, record.script, self._place(pod, node), now)
        return PodSync(pod, record, status, statuses.patch(pod, status), remove=grace > 0 and not record.removed)

    def _pod_record(self, key: Key, pod: Pod, now: int) -> PodRecord:
        """What is known of a pod; read back from its status where nothing is."""
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

    def _place(self, pod: Pod, node: Node) -> PodAddresses:
        if pod.spec.host_network:
            return PodAddresses(node.internal_ip, node.internal_ip)
        return PodAddresses(node.internal_ip, pod.status.pod_ip or self._addresses.allocate(pod.metadata.uid))

    # Doing it.

    async def _act(self, sync: PodSync) -> None:
        """Write what is to be written. A pod that is not there any more, or is another one now, needs nothing."""
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
        sync.record.written = _merged(sync.pod.status, sync.status)
        sync.record.version = answer.metadata.resource_version
        sync.record.record = _record(sync.status)

    async def _remove(self, pod: Pod) -> None:
        metadata = pod.metadata
        await self._client.delete(
            POD_WRITES, metadata.name, namespace=metadata.namespace, uid=metadata.uid, grace_period_seconds=0
        )


def _as_written(pod: Pod, record: PodRecord) -> Pod:
    """The pod with what we last wrote, if the informer does not show it yet."""
    if record.written is None:
        return pod
    if versions.reached(pod.metadata.resource_version, record.version):
        record.written = None
        return pod
    return Pod(metadata=pod.metadata, spec=pod.spec, status=record.written)


def _record(status: PodStatus) -> ContainerRecord:
    return status.phase, status.container_statuses, status.init_container_statuses


def _merged(observed: PodStatus, written: PodStatus) -> PodStatus:
    """The written status with the conditions that are somebody else's."""
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
