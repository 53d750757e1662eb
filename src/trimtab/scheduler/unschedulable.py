"""The unschedulable pods of the queue, grouped so that similar pods share the evaluation of a change.

Pods of one template that the same plugins refused get the same answer to whether a change may help, so each change is
evaluated once a group and not once a pod.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from trimtab.api.pods import Pod
from trimtab.placement import requeue
from trimtab.placement.changes import Change
from trimtab.placement.requeue import UNSUPPORTED
from trimtab.scheduler.queuedpods import QueuedPod

SimilarPods = dict[str, QueuedPod]
"""Similar pods, by UID."""

_pack = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class UnschedulablePods:
    """Unschedulable pods by the plugins that refused them and by similarity; and in the order of their refusals."""

    _groups: dict[frozenset[str], dict[bytes, SimilarPods]] = field(default_factory=dict)
    _order: dict[str, QueuedPod] = field(default_factory=dict)
    """Those that are retried after a timeout: all but unsupported pods."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod that was refused."""
        self._add_to_group(queued)
        if UNSUPPORTED not in queued.refused_by:
            self._order[queued.uid] = queued

    def replace(self, queued: QueuedPod, pod: Pod) -> None:
        """Update a pod. Its position stays: its timeout runs on."""
        self._remove_from_group(queued)
        queued.pod = pod
        self._add_to_group(queued)

    def remove(self, queued: QueuedPod) -> None:
        """Remove a pod."""
        self._remove_from_group(queued)
        self._order.pop(queued.uid, None)

    def concerned(self, change: Change) -> Iterator[SimilarPods]:
        """The groups that a change of this kind may help at all."""
        concerns = requeue.concerns(change)
        for refused_by, groups in self._groups.items():
            if concerns(refused_by):
                yield from groups.values()

    def oldest_time(self) -> int | None:
        """The time of the oldest refusal; None if there is none."""
        return next((queued.since for queued in self._order.values()), None)

    def older_than(self, time: int) -> list[QueuedPod]:
        """The pods that were refused at that time or before."""
        return list(itertools.takewhile(lambda queued: queued.since <= time, self._order.values()))

    def _add_to_group(self, queued: QueuedPod) -> None:
        queued.similarity = _similarity(queued.pod)
        groups = self._groups.setdefault(queued.refused_by, {})
        groups.setdefault(queued.similarity, {})[queued.uid] = queued

    def _remove_from_group(self, queued: QueuedPod) -> None:
        groups = self._groups[queued.refused_by]
        group = groups[queued.similarity]
        del group[queued.uid]
        if not group:
            del groups[queued.similarity]
        if not groups:
            del self._groups[queued.refused_by]


def _similarity(pod: Pod) -> bytes:
    """Everything of a pod that requeue hints may depend on."""
    metadata = pod.metadata
    return _pack((metadata.namespace, metadata.labels, metadata.owner_references, pod.spec))
