"""The kinds of faults: how often each comes in a round, and where it exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LONGEST = 0.5
"""The part of a round in which the kinds come whose consequences last longest."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault."""

    name: str
    per_round: int
    summary: str
    needs: str = ""
    """What it needs that not every lab has; empty where it always exists."""
    is_early: bool = False
    """Whether it comes in the first part of a round, because its consequences last long."""


REAL = "etcd and kube-apiserver"
FAKETIME = "libfaketime"

KINDS = (
    Kind("scale", 24, "a workload gets a random size"),
    Kind("roll-out", 3, "a workload gets another template"),
    Kind("evict", 12, "a pod is evicted"),
    Kind("drain", 3, "a node is drained, and used again later"),
    Kind("add-zone", 2, "nodes of another zone join"),
    Kind("fail-zone", 2, "the nodes of a zone fail, shortly or until the control plane notices", is_early=True),
    Kind("kill-webhooks", 2, "kill -9 of a webhooks replica", is_early=True),
    Kind("kill-controllers", 2, "kill -9 of a controllers replica"),
    Kind("kill-trimtab-scheduler", 2, "kill -9 of a replica of Trimtab's scheduler"),
    Kind("kill-controller-manager", 2, "kill -9 of the controller manager; the lab's, where there is no other"),
    Kind("kill-kube-scheduler", 2, "kill -9 of kube-scheduler", REAL),
    Kind("cut-off-leader", 2, "the leader of the controllers reaches no API server until it has lost its lease"),
    Kind("shift-clock", 2, "a replica is restarted with another time of day", FAKETIME, is_early=True),
    Kind("pause-api-server", 2, "the API server is stopped and continued"),
    Kind("restart-api-server", 2, "kill -9 of kube-apiserver", REAL),
    Kind("pause-etcd", 2, "etcd is stopped and continued", REAL),
    Kind("restart-etcd", 2, "kill -9 of etcd", REAL),
    Kind("etcd-quota", 2, "etcd's database reaches its quota, and is cleared", REAL),
    Kind("cut-watches", 24, "all connections of a replica to the API server are cut"),
    Kind("unreadable-object", 16, "an object that is nested too deep, or has too many values, is created"),
    Kind("forged-review", 90, "a review that no API server sent reaches a webhook port"),
    Kind("connection-burst", 2, "more connections than a webhook port takes at a time are opened and left alone"),
)
BY_NAME: Mapping[str, Kind] = {each.name: each for each in KINDS}


def applicable(available: frozenset[str]) -> tuple[Kind, ...]:
    """The kinds that exist where this is available."""
    return tuple(each for each in KINDS if not each.needs or each.needs in available)


def not_applicable(available: frozenset[str]) -> dict[str, str]:
    """The other kinds, and what each of them needs."""
    return {each.name: each.needs for each in KINDS if each.needs and each.needs not in available}
