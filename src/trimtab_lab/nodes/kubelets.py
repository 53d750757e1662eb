"""The kubelets of all our nodes: one informer on pods, one queue, one life for each pod.

A look at a pod goes: what does it say (the informer), what should it say by now (`lives`, `statuses`), write the
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
from trimtab_lab.nodes import lives, scripts, statuses
from trimtab_lab.nodes.addresses import POD_NETWORK, Addresses
from trimtab_lab.nodes.lives import Life, Stage
from trimtab_lab.nodes.roster import Roster
from trimtab_lab.nodes.scripts import Habits, Script
from trimtab_lab.nodes.settings import SETTINGS, Settings
from trimtab_lab.nodes.statuses import Place
from trimtab_lab.nodes.views import POD_WRITES, ContainerStatus, Node, Pod, PodStatus

Report = Callable[[ObjectReference, str, str, str], None]
"""Tells people of something: about what, how serious, a word, a sentence."""

log = logging.getLogger(__name__)


Record = tuple[str, tuple[ContainerStatus, ...], tuple[ContainerStatus, ...]]
"""What a status tells of a life: the phase and the containers. Conditions are others' business too."""


@dataclass(slots=True)
class Ward:
    """What a kubelet remembers of a pod in its care."""

    uid: str
    annotations: Labels
    script: Script
    life: Life
    record: Record
    written: PodStatus | None = None
    version: str = ""
    """What it wrote last, as long as the informer has not shown it, and the version that this made."""
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a pod comes to: a patch to write or the pod to remove, and when to look again."""

    pod: Pod
    ward: Ward
    status: PodStatus
    patch: JSON | None = None
    remove: bool = False
    again: int | None = None

    @property
    def writes(self) -> bool:
        """Whether there is something to do."""
        return self.patch is not None or self.remove


class Kubelets:
    """Runs the pods of all nodes that are alive."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pods: Informer[Pod],
        roster: Roster,
        *,
        seed: int,
        habits: Habits,
        report: Report,
        settings: Settings = SETTINGS,
    ) -> None:
        self.habits = habits
        self._client = client
        self._clock = clock
        self._pods = pods
        self._roster = roster
        self._seed = seed
        self._report = report
        self._settle = round(settings.settle_seconds * SECOND)
        self._limiter = TokenBucket(settings.writes_a_second, settings.write_burst, clock)
        self._wards: dict[Key, Ward] = {}
        self._addresses = Addresses(POD_NETWORK)

    def seen(self, pod: Pod) -> None:
        """Remember the address of a pod that has one already."""
        if pod.status.pod_ip and not pod.spec.host_network:
            self._addresses.note(pod.metadata.uid, pod.status.pod_ip)

    def gone(self, pod: Pod) -> None:
        """Take back the address of a pod that is no more."""
        self._addresses.release(pod.metadata.uid)

    async def reconcile(self, key: Key) -> Result:
        """Look at a pod, and do what is due."""
        look = self._look(key)
        if look is not None and look.writes:
            await self._limiter.wait()
            look = self._look(key)
        if look is None:
            return Result()
        if look.writes:
            await self._act(look)
        left = None if look.again is None else (look.again - self._clock.now()) / SECOND
        return Result(requeue_after=left)

    # What is due.

    def _look(self, key: Key) -> Look | None:
        """What is to be done about a pod; None if it is not, or not now, in our care."""
        pod = self._pods.get(key)
        node = None if pod is None else self._roster.alive(pod.spec.node_name)
        if pod is None or node is None or not node.internal_ip:
            self._wards.pop(key, None)
            return None
        now = self._clock.now()
        ward = self._ward(key, pod, now)
        pod = _as_written(pod, ward)
        if _record(pod.status) != ward.record:
            ward.life, ward.record = lives.recall(pod, now), _record(pod.status)
        ward.life, due = lives.advance(ward.life, ward.script, now)
        if pod.terminating:
            return self._farewell(pod, node, ward, now)
        status = statuses.render(pod, ward.life, ward.script, self._place(pod, node), now)
        if ward.life.stage is Stage.CREATING and due is not None and due - now <= self._settle:
            return Look(pod, ward, status, again=due)
        return Look(pod, ward, status, statuses.patch(pod, status), again=due)

    def _farewell(self, pod: Pod, node: Node, ward: Ward, now: int) -> Look:
        """A pod that is to go: wait until its containers have stopped, then remove it.

        How they ended is written only for those who hold the pod back in order to read it.
        """
        grace = pod.metadata.deletion_grace_period_seconds or 0
        leaves = lives.departure(pod, ward.life, ward.script)
        if now < leaves:
            return Look(pod, ward, pod.status, again=leaves)
        if not pod.metadata.finalizers:
            return Look(pod, ward, pod.status, remove=not ward.removed)
        ward.life = lives.stopped(ward.life, ward.script, leaves, grace)
        status = statuses.render(pod, ward.life, ward.script, self._place(pod, node), now)
        return Look(pod, ward, status, statuses.patch(pod, status), remove=grace > 0 and not ward.removed)

    def _ward(self, key: Key, pod: Pod, now: int) -> Ward:
        """What is known of a pod; read back from its status where nothing is."""
        ward = self._wards.get(key)
        if ward is None or ward.uid != pod.metadata.uid:
            metadata, script = pod.metadata, self._compose(pod)
            ward = Ward(metadata.uid, metadata.annotations, script, lives.recall(pod, now), _record(pod.status))
            self._wards[key] = ward
        elif ward.annotations != pod.metadata.annotations:
            ward.annotations = pod.metadata.annotations
            script = self._compose(pod)
            if script != ward.script:
                ward.script, ward.life = script, replace(ward.life, known=now)
        return ward

    def _compose(self, pod: Pod) -> Script:
        script, problems = scripts.compose(pod, self._seed, self.habits)
        for problem in problems:
            log.warning("pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, problem)
            self._report(_reference(pod), WARNING, "InvalidAnnotation", problem)
        return script

    def _place(self, pod: Pod, node: Node) -> Place:
        if pod.spec.host_network:
            return Place(node.internal_ip, node.internal_ip)
        return Place(node.internal_ip, pod.status.pod_ip or self._addresses.take(pod.metadata.uid))

    # Doing it.

    async def _act(self, look: Look) -> None:
        """Write what is to be written. A pod that is not there any more, or is another one now, needs nothing."""
        try:
            if look.patch is not None:
                await self._write(look, look.patch)
            if look.remove:
                await self._remove(look.pod)
                look.ward.removed = True
        except (NotFound, Conflict) as error:
            log.debug("%s", error)

    async def _write(self, look: Look, patch: JSON) -> None:
        metadata = look.pod.metadata
        answer = await self._client.patch(
            POD_WRITES,
            metadata.name,
            patch,
            how=PatchKind.STRATEGIC,
            namespace=metadata.namespace,
            subresource="status",
        )
        look.ward.written = _merged(look.pod.status, look.status)
        look.ward.version = answer.metadata.resource_version
        look.ward.record = _record(look.status)

    async def _remove(self, pod: Pod) -> None:
        metadata = pod.metadata
        await self._client.delete(
            POD_WRITES, metadata.name, namespace=metadata.namespace, uid=metadata.uid, grace_period_seconds=0
        )


def _as_written(pod: Pod, ward: Ward) -> Pod:
    """The pod with what we last wrote, if the informer does not show it yet."""
    if ward.written is None:
        return pod
    if versions.reached(pod.metadata.resource_version, ward.version):
        ward.written = None
        return pod
    return Pod(metadata=pod.metadata, spec=pod.spec, status=ward.written)


def _record(status: PodStatus) -> Record:
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
