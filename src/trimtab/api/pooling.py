"""Memory of pods: equal parts are kept once, and what nothing reads is not kept.

All pods of a template have the same containers, affinity, tolerations, labels, owner and (but for a few restarts) the
same container statuses; they differ in names, a node, an address and times. A pool keeps one object for each distinct
combination of the equal parts, found by its packed bytes. A part of the pool that is full (labels of finished Jobs
never recur) is cleared: existing pods keep their objects, and later ones share new objects.

Nothing reads (`UNREAD_CONDITIONS`, `UNREAD_ANNOTATIONS`) the conditions in which a kubelet reports its progress, nor
where a network plugin records what it did. They are different for each pod, and would be half of its memory.
"""

from __future__ import annotations

import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from trimtab.api.meta import ObjectMeta
from trimtab.api.pods import ContainerStatus, Pod, PodCondition, PodSpec, PodStatus

UNREAD_CONDITIONS = frozenset({"PodReadyToStartContainers", "Initialized", "ContainersReady"})
"""The conditions that no decision reads. `PodScheduled` is read only while it is not True."""
UNREAD_ANNOTATIONS = (
    "cni.projectcalico.org/",
    "k8s.ovn.org/",
    "k8s.v1.cni.cncf.io/network-status",
    "kubectl.kubernetes.io/last-applied-configuration",
)
"""Beginnings of the annotations that no decision reads: what network plugins record, and kubectl for itself."""

S = TypeVar("S", PodSpec, PodStatus, ObjectMeta)
_Values = Callable[[Any], tuple[Any, ...]]

_LIMIT = 16_384
_BYTES = 32 << 20
"""Of packed parts: a pool of this size is cleared, since users choose how large a pod is."""
_LARGEST_PART = 65_536
"""Bytes of a packed part that is shared. Those of usual pods have hundreds."""
_LARGEST = 4096
"""Bytes of packed annotations that are shared; larger ones are hardly those of many pods."""
_ANNOTATIONS_LIMIT = 2_048
"""Where annotations differ from pod to pod (costs), none recurs; those of one template are listed one after another."""

_LATEST = 4
"""With how many parts one is compared before it is packed."""

_OWN_SPEC = ("node_name",)
_OWN_STATUS = ("conditions", "pod_ip")
_OWN_METADATA = ("name", "uid", "resource_version", "creation_timestamp", "deletion_timestamp", "annotations")

_pack = msgspec.msgpack.Encoder().encode
_set = msgspec.structs.force_setattr


class PodPool:
    """Keeps one copy of the parts that pods have in common."""

    __slots__ = ("_annotations", "_containers", "_latest", "_latest_annotations", "_metadata", "_specs", "_statuses")

    def __init__(self) -> None:
        self._latest: Pod | None = None
        """The pod that was adopted last: an informer's pod is put into several snapshots."""
        self._specs = _Part(PodSpec, _OWN_SPEC, "containers")
        self._statuses = _Part(PodStatus, _OWN_STATUS, "container_statuses")
        self._metadata = _Part(ObjectMeta, _OWN_METADATA, "labels")
        self._annotations: dict[bytes, Mapping[str, str]] = {}
        self._latest_annotations: Mapping[str, str] = {}
        self._containers: dict[bytes, ContainerStatus] = {}
        """Of statuses: those of one template differ in restarts, and each container has few such states."""

    def __len__(self) -> int:
        """The number of distinct specs."""
        return len(self._specs)

    def adopt(self, pod: Pod, former: Pod | None = None) -> Pod:
        """Replace parts of the pod by equal ones of the pool. The pod's value does not change.

        `former` is its last version, which was adopted before: most changes leave most of a pod as it was. A spec or
        status that is equal to the former one becomes the same object, so that readers need not compare them.
        """
        if pod is self._latest:
            return pod
        if former is None or not _take_over(pod, former, "spec"):
            self._adopt_spec(pod)
        if former is None or not _take_over(pod, former, "status"):
            self._adopt_status(pod)
        self._adopt_metadata(pod, None if former is None else former.metadata)
        self._latest = pod
        return pod

    def _adopt_spec(self, pod: Pod) -> None:
        spec = pod.spec
        if (alike := self._specs.alike(spec)) is not spec:
            _set(pod, "spec", replace(alike, node_name=sys.intern(spec.node_name)))

    def _adopt_status(self, pod: Pod) -> None:
        status = pod.status
        if (alike := self._statuses.alike(status, share=self._share_containers)) is not status:
            _set(pod, "status", replace(alike, conditions=status.conditions, pod_ip=status.pod_ip))

    def _adopt_metadata(self, pod: Pod, former: ObjectMeta | None) -> None:
        metadata = pod.metadata
        if (alike := self._metadata.alike(metadata, former)) is not metadata:
            _set(pod, "metadata", self._own_metadata(alike, metadata))

    def _own_metadata(self, alike: ObjectMeta, metadata: ObjectMeta) -> ObjectMeta:
        return replace(
            alike,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            annotations=alike.annotations
            if metadata.annotations == alike.annotations
            else self._shared(metadata.annotations),
        )

    def _share_containers(self, status: PodStatus) -> None:
        if len(self._containers) >= _LIMIT:
            self._containers.clear()
        for field in ("container_statuses", "init_container_statuses"):
            found: tuple[ContainerStatus, ...] = getattr(status, field)
            shared = tuple([self._containers.setdefault(_pack(each), each) for each in found])
            if not all(map(operator.is_, found, shared)):
                _set(status, field, shared)

    def _shared(self, annotations: Mapping[str, str]) -> Mapping[str, str]:
        if annotations != self._latest_annotations:
            self._latest_annotations = self._known(annotations)
        return self._latest_annotations

    def _known(self, annotations: Mapping[str, str]) -> Mapping[str, str]:
        packed = _pack(annotations)
        if len(packed) > _LARGEST:
            return annotations
        if len(self._annotations) >= _ANNOTATIONS_LIMIT:
            self._annotations.clear()
        return self._annotations.setdefault(packed, annotations)


class _Part:
    """The distinct values of one part of pods, which the pods' own fields are left out of.

    Packing takes much longer than comparing. So a part is compared with the latest ones first: lists have the pods of a
    template one after another, whose statuses differ in a few counts of restarts. And a part that has been adopted
    before, by this pool or by another one, is recognized by its field `main`, which no two distinct parts share.
    """

    __slots__ = ("_by_main", "_bytes", "_known", "_latest", "_main", "_shared_values")

    def __init__(self, kind: type[msgspec.Struct], own: tuple[str, ...], main: str) -> None:
        shared = [field for field in kind.__struct_fields__ if field not in own]
        self._main = shared.index(main)
        """The place of the field `main` among the shared values."""
        self._shared_values: _Values = operator.attrgetter(*shared)
        self._known: dict[bytes, Any] = {}
        self._bytes = 0
        self._by_main: dict[int, Any] = {}
        """Parts of the pool by the identity of their field `main`, which is its alone while the pool holds it."""
        self._latest: deque[tuple[tuple[Any, ...], Any]] = deque(maxlen=_LATEST)
        """The parts that were found last, each after its shared values."""

    def __len__(self) -> int:
        return len(self._known)

    def alike(self, part: S, former: S | None = None, *, share: Callable[[S], None] | None = None) -> S:
        """The first part that is equal but for its own fields; the part itself, if it is the first or shares them.

        `former` is compared first. `share` is called for the first one, to replace what it has in common with parts
        that are not equal.
        """
        values = self._shared_values(part)
        if former is not None and values == self._shared_values(former):
            return former
        main = values[self._main]
        for latest_values, latest in self._latest:
            if values == latest_values:
                is_adopted = main is latest_values[self._main] and all(map(operator.is_, latest_values, values))
                found: S = part if is_adopted else latest
                return found
        adopted_before = self._by_main.get(id(main))
        if adopted_before is not None and all(map(operator.is_, self._shared_values(adopted_before), values)):
            return part
        made = self._find(part, values, share)
        self._latest.appendleft((self._shared_values(made), made))
        return made

    def _find(self, part: S, values: tuple[Any, ...], share: Callable[[S], None] | None) -> S:
        """The known part with these shared values; the part itself, if there is none yet."""
        packed = _pack(values)
        if len(packed) > _LARGEST_PART:
            return part
        known: S | None = self._known.get(packed)
        if known is not None:
            return known
        self._bytes += len(packed)
        if len(self._known) >= _LIMIT or self._bytes > _BYTES:
            self._known.clear()
            self._by_main.clear()
            self._bytes = len(packed)
        if share is not None:
            share(part)
        self._known[packed] = self._by_main[id(self._shared_values(part)[self._main])] = part
        return part


def _take_over(pod: Pod, former: Pod, part: str) -> bool:
    """Replace a part of the pod by that of its last version, if they are equal."""
    known = getattr(former, part)
    if getattr(pod, part) != known:
        return False
    _set(pod, part, known)
    return True


def share(pods: Iterable[Pod], pool: PodPool | None = None) -> None:
    """Let these pods share equal parts, among themselves and with the pool."""
    pool = PodPool() if pool is None else pool
    for pod in pods:
        pool.adopt(pod)


def trim(pod: Pod) -> Pod:
    """Remove from the pod what nothing reads. Only for pods that are kept, and only before others have them."""
    conditions = pod.status.conditions
    if conditions:
        read = [
            _interned(each)
            for each in conditions
            if each.type not in UNREAD_CONDITIONS and (each.type != "PodScheduled" or each.status != "True")
        ]
        _set(pod.status, "conditions", tuple(read))
    annotations = pod.metadata.annotations
    unread = {name for name in annotations if name.startswith(UNREAD_ANNOTATIONS)}
    if unread:
        _set(pod.metadata, "annotations", {name: annotations[name] for name in annotations if name not in unread})
    return pod


def _interned(condition: PodCondition) -> PodCondition:
    """The condition with the same strings as all others of its type."""
    _set(condition, "type", sys.intern(condition.type))
    _set(condition, "status", sys.intern(condition.status))
    if condition.reason:
        _set(condition, "reason", sys.intern(condition.reason))
    return condition
