"""Whether a UnitedTopology can be kept at all, and what its condition says. Pure.

| reason             | what is so                                                     | its pods                    |
|--------------------|----------------------------------------------------------------|-----------------------------|
| PodWebhookDisabled | the feature gate PodWebhook is off                             | marks and costs taken back  |
| Invalid            | the spec cannot be followed (the webhook was away)             | left as they are            |
| TargetTaken        | an older UnitedTopology divides the same workload, or the      | marks and costs taken back  |
|                    | ReplicaSet is a Deployment's, which is what can be divided     |                             |
| TargetMissing      | there is no such workload                                      | there are none              |
| Counted            | all is well                                                    | counted, marked, ranked     |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from trimtab.api import unitedtopology
from trimtab.api.meta import Condition
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube import conditions
from trimtab.unitedtopology.targets import Target

READY = "Ready"

_FIRST = datetime.min.replace(tzinfo=UTC)


class Reason(StrEnum):
    """Why a UnitedTopology is kept, or is not."""

    OFF = "PodWebhookDisabled"
    INVALID = "Invalid"
    TAKEN = "TargetTaken"
    MISSING = "TargetMissing"
    COUNTED = "Counted"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The reason, and a sentence for people."""

    reason: Reason
    message: str

    @property
    def divides(self) -> bool:
        """Whether pods are divided by it."""
        return self.reason in (Reason.COUNTED, Reason.MISSING)

    @property
    def takes_back(self) -> bool:
        """Whether what was written to pods is to go."""
        return self.reason in (Reason.OFF, Reason.TAKEN)


class Cluster(Protocol):
    """What a judgement asks of the cluster."""

    def rivals(self, topology: UnitedTopology) -> list[UnitedTopology]:
        """All UnitedTopologies of the same workload."""
        ...

    def target(self, topology: UnitedTopology) -> Target | None:
        """The workload."""
        ...


Verdict = Callable[[UnitedTopology, Cluster], Judgement]


def verdict(*, pod_webhook: bool) -> Verdict:
    """What judges UnitedTopologies in a process with this feature gate."""

    def judge(topology: UnitedTopology, cluster: Cluster) -> Judgement:
        if not pod_webhook:
            return Judgement(Reason.OFF, "the feature gate PodWebhook is false, and UnitedTopology needs it")
        problems = "; ".join(map(str, unitedtopology.problems(topology)))
        if problems:
            return Judgement(Reason.INVALID, problems)
        first = min(cluster.rivals(topology) or [topology], key=seniority)
        target = topology.spec.target_ref
        if first.metadata.uid != topology.metadata.uid:
            return Judgement(Reason.TAKEN, f"{first.metadata.name} divides {target.kind} {target.name} already")
        found = cluster.target(topology)
        if found is None:
            return Judgement(Reason.MISSING, f"there is no {target.kind} {target.name}")
        if found.above:
            told = f"ReplicaSet {target.name} belongs to {found.above}; make that the target"
            return Judgement(Reason.TAKEN, told)
        return Judgement(Reason.COUNTED, f"the pods of {target.kind} {target.name} are divided")

    return judge


def seniority(topology: UnitedTopology) -> tuple[datetime, str]:
    """Of two for one workload, the older one stands."""
    return topology.metadata.creation_timestamp or _FIRST, topology.metadata.name


def told(known: Iterable[Condition], judgement: Judgement, *, generation: int, now: int) -> tuple[Condition, ...]:
    """The conditions with this judgement among them; a sentence that has not changed keeps its time."""
    before = tuple(known)
    condition = Condition(
        type=READY,
        status=conditions.TRUE if judgement.reason is Reason.COUNTED else conditions.FALSE,
        reason=judgement.reason.value,
        message=judgement.message,
        last_transition_time=conditions.moment(now),
        observed_generation=generation,
    )
    old = conditions.find(before, READY)
    if old is not None and old.status == condition.status:
        condition = msgspec.structs.replace(condition, last_transition_time=old.last_transition_time)
    return (*conditions.drop(before, READY), condition)
