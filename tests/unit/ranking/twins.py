"""Slow twins of the victim orders and rankers, written pod by pod as upstream describes them.

They look at typed pods and never at columns, compare two pods at a time, and use nothing of `trimtab.ranking`. What
they say of a pair of pods is what upstream's comparison says; only `in_order` adds a tie break.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from trimtab.api.pods import Pod

Compare = Callable[[Pod, Pod], int]
"""Negative if the first goes first, positive if the second does, 0 if they are tied."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST = "controller.kubernetes.io/pod-deletion-cost"


T = TypeVar("T", int, float, bytes, datetime)


def less(first: T, second: T) -> int:
    """-1 if the first is the smaller, 1 if the second is."""
    return (first > second) - (first < second)


def ready_since(pod: Pod) -> datetime | None:
    """When a ready pod became ready."""
    return next(c.last_transition_time for c in pod.status.conditions if c.type == "Ready")


def cost(pod: Pod) -> int:
    """The deletion cost; 0 where it is missing or badly written."""
    text = pod.metadata.annotations.get(_COST, "")
    if not text.isascii() or text.startswith(("+", " ")) or (text.startswith("0") and text != "0"):
        return 0
    try:
        number = int(text) if "_" not in text else 0
    except ValueError:
        return 0
    return number if -(2**31) <= number < 2**31 else 0


def restarts(pod: Pod) -> int:
    """The most restarts of a container."""
    return max([0, *(status.restart_count for status in pod.status.container_statuses)])


def sidecar_restarts(pod: Pod) -> int:
    """The most restarts of a sidecar."""
    names = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    return max([0, *(s.restart_count for s in pod.status.init_container_statuses if s.name in names)])


def nanoseconds(span: timedelta) -> int:
    """A span of time, exactly."""
    return span // timedelta(microseconds=1) * 1000


@dataclass(frozen=True)
class ReplicaSetTwin:
    """Kubernetes' comparison. `now` None stands for a clock that was not read."""

    related: Collection[Pod]
    now: datetime | None
    logarithmic: bool = True
    deletion_cost: bool = True

    def rank(self, pod: Pod) -> int:
        """How many active related pods are on the pod's node."""
        return sum(other.active and other.spec.node_name == pod.spec.node_name for other in self.related)

    def compare(self, a: Pod, b: Pod) -> int:
        """Rule by rule."""
        if bool(a.spec.node_name) != bool(b.spec.node_name):  # 1
            return less(bool(a.spec.node_name), bool(b.spec.node_name))
        if phases := less(_PHASES.get(a.status.phase, 0), _PHASES.get(b.status.phase, 0)):  # 2
            return phases
        if a.ready != b.ready:  # 3
            return less(a.ready, b.ready)
        if self.deletion_cost and cost(a) != cost(b):  # 4
            return less(cost(a), cost(b))
        if self.rank(a) != self.rank(b):  # 5
            return less(self.rank(b), self.rank(a))
        if a.ready and ready_since(a) != ready_since(b):  # 6
            return self.by_time(ready_since(a), ready_since(b), a, b)
        if restarts(a) != restarts(b):  # 7
            return less(restarts(b), restarts(a))
        if sidecar_restarts(a) != sidecar_restarts(b):  # 7
            return less(sidecar_restarts(b), sidecar_restarts(a))
        if a.metadata.creation_timestamp != b.metadata.creation_timestamp:  # 8
            return self.by_time(a.metadata.creation_timestamp, b.metadata.creation_timestamp, a, b)
        return 0

    def by_time(self, first: datetime | None, second: datetime | None, a: Pod, b: Pod) -> int:
        """Two different times; on the logarithmic scale, equals go by UID."""
        if first is None or second is None:
            return -1 if first is None else 1
        if not self.logarithmic or self.now is None:
            return less(second, first)
        scales = less(self.scale(first), self.scale(second))
        return scales or less(a.metadata.uid.encode(), b.metadata.uid.encode())

    def scale(self, moment: datetime) -> int:
        """The power of two at or below the age; times in tests keep away from where floats would matter."""
        assert self.now is not None
        age = nanoseconds(self.now - moment)
        return age.bit_length() - 1 if age > 0 else -1


@dataclass(frozen=True)
class CloneSetTwin:
    """OpenKruise's comparison."""

    ranks: Mapping[str, float]
    available: Collection[str] | None = None

    def compare(self, a: Pod, b: Pod) -> int:
        """Rule by rule."""
        if bool(a.spec.node_name) != bool(b.spec.node_name):  # 1
            return less(bool(a.spec.node_name), bool(b.spec.node_name))
        if phases := less(_PHASES.get(a.status.phase, 0), _PHASES.get(b.status.phase, 0)):  # 2
            return phases
        if self.available is not None and (a.key in self.available) != (b.key in self.available):  # 3
            return less(a.key in self.available, b.key in self.available)
        if a.ready != b.ready:  # 3
            return less(a.ready, b.ready)
        if cost(a) != cost(b):  # 4
            return less(cost(a), cost(b))
        if self.ranks.get(a.key, 0) != self.ranks.get(b.key, 0):  # 5
            return less(self.ranks.get(b.key, 0), self.ranks.get(a.key, 0))
        if a.ready and ready_since(a) != ready_since(b):  # 6
            return later_first(ready_since(a), ready_since(b))
        if restarts(a) != restarts(b):  # 7
            return less(restarts(b), restarts(a))
        return later_first(a.metadata.creation_timestamp, b.metadata.creation_timestamp)  # 8


def later_first(first: datetime | None, second: datetime | None) -> int:
    """An unknown time before a later one before an earlier one."""
    if first is None or second is None:
        return less(first is not None, second is not None)
    return less(second, first)


def in_order(pods: Sequence[Pod], compare: Compare) -> list[Pod]:
    """Sorted by a consistent comparison, ties by UID and name."""
    by_text = sorted(pods, key=lambda pod: (pod.metadata.uid.encode(), pod.key))
    return sorted(by_text, key=functools.cmp_to_key(compare))


def same_node_ranks(pods: Sequence[Pod]) -> dict[str, float]:
    """Of n pods on a node, n − 1 for the first to go down to 0."""
    by_node = defaultdict(list)
    for pod in pods:
        by_node[pod.spec.node_name].append(pod)
    ranks = dict.fromkeys((pod.key for pod in pods), 0.0)
    for name, group in by_node.items():
        if name:
            for index, pod in enumerate(in_order(group, CloneSetTwin({}).compare)):
                ranks[pod.key] = float(len(group) - 1 - index)
    return ranks


def spread_ranks(
    pods: Sequence[Pod], labels: Mapping[str, Mapping[str, str]], keys: Sequence[tuple[str, Collection[str]]]
) -> dict[str, float]:
    """The balanced ranks for constraints given by key and limited values; `labels` are those of the nodes."""
    total = dict.fromkeys((pod.key for pod in pods), 0.0)
    for key, limited in keys:
        domains = defaultdict(list)
        for pod in pods:
            value = labels.get(pod.spec.node_name, {}).get(key)
            if value is not None and (not limited or value in limited):
                domains[value].append(pod)
        ranks = {} if key == "kubernetes.io/hostname" else same_node_ranks(pods)
        for group in domains.values():
            for index, pod in enumerate(in_order(group, CloneSetTwin(ranks).compare)):
                total[pod.key] += (len(group) - index) * math.log(len(domains) + 2)
    return total


def is_strict_weak_order(pods: Sequence[Pod], compare: Compare) -> bool:
    """Whether a comparison is consistent on these pods: neither it nor being tied ever runs in a circle."""
    sign = {(a.key, b.key): compare(a, b) for a in pods for b in pods}
    keys = [pod.key for pod in pods]
    if any(sign[a, b] != -sign[b, a] for a, b in itertools.product(keys, keys)):
        return False
    for a, b, c in itertools.permutations(keys, 3):
        if sign[a, b] <= 0 and sign[b, c] <= 0 and sign[a, c] != min(sign[a, b], sign[b, c]):
            return False
    return True
