"""The typed objects of UnitedTopology, and its status as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from trimtab.api import codec, times
from trimtab.api.documents import JSON, Document
from trimtab.api.meta import Condition, ObjectMeta
from trimtab.api.model import Model
from trimtab.api.pods import NodeSelectorTerm, Toleration

API_VERSION = "apps.kruise.io/v1alpha1"
KIND = "UnitedTopology"

TARGETS: Mapping[str, tuple[str, ...]] = {
    "apps/v1": ("Deployment", "ReplicaSet"),
    "apps.kruise.io/v1alpha1": ("CloneSet",),
}
"""The workloads that can have subsets, by API version."""

MAX_PODS = 2**31 - 1
"""The largest value of a workload's replicas."""
MAX_SUBSETS = 1000
MAX_FLOORS = 64
"""How many subsets may have a minimum: each has a band of costs beside that of its maximum."""
MAX_RETURNS = 100
"""How many pods return to an earlier subset at once, whatever the spec says."""
MAX_PENDING = 10_000
"""How many pods of a subset may be in creation, or in deletion, at the same time."""


class Level(StrEnum):
    """What a pod is to its subset, in the order in which pods are deleted."""

    REDUNDANT = "Redundant"
    """Above the subset's maximum."""
    BEST_EFFORT = "BestEffort"
    """In a subset without a maximum."""
    GUARANTEED = "Guaranteed"
    """Within the subset's maximum."""


class TargetReference(Model):
    """The target workload, in the same namespace."""

    api_version: Annotated[
        str, Meta(description="The workload's API version, such as apps/v1 or apps.kruise.io/v1alpha1.")
    ]
    kind: Annotated[
        str,
        Meta(
            description="The workload's kind: Deployment, ReplicaSet, CloneSet, or one that Trimtab's configuration "
            "lists in workloads."
        ),
    ]
    name: Annotated[str, Meta(description="The workload's name.", min_length=1)]


class Subset(Model):
    """A subset of a workload's pods: their nodes, their maximum number, and how they are changed."""

    name: Annotated[
        str,
        Meta(
            description="The subset's name, unique in this UnitedTopology.",
            min_length=1,
            max_length=63,
            pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        ),
    ]
    node_selector_term: Annotated[
        NodeSelectorTerm | None,
        Meta(description="Added to each required node selector term of the subset's pods."),
    ] = None
    tolerations: Annotated[
        tuple[Toleration, ...], Meta(description="Appended to the tolerations of the subset's pods.", max_length=100)
    ] = ()
    patch: Annotated[Document | None, Meta(description="A strategic merge patch for the subset's pods.")] = None
    min_replicas: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_PODS)] | None,
        Meta(description="Pods that this subset gets before any other, whatever the order, and loses last."),
    ] = None
    max_replicas: Annotated[
        int | str | None,
        Meta(
            description="The maximum of pods in this subset: a number, or its minReplicas and a percentage of what is "
            "above the minReplicas of all subsets; no limit if absent.",
            extra_json_schema={"minimum": 0, "maximum": MAX_PODS, "pattern": "^(100|[0-9]{1,2})%$"},
        ),
    ] = None


class ReturnStrategy(Model):
    """How pods of later subsets return to an earlier one that has room again."""

    settling_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=86400)],
        Meta(description="For how many seconds a subset must have had room before pods return to it."),
    ] = 60
    max_pods: Annotated[
        int | str,
        Meta(
            description="How many pods return at once: a number or a percentage of the replicas; at least one.",
            extra_json_schema={"minimum": 1, "maximum": MAX_PODS, "pattern": "^(100|[1-9]?[0-9])%$"},
        ),
    ] = 1


class AdaptiveStrategy(Model):
    """How the adaptive strategy detects that a subset has no capacity."""

    disable_simulation_schedule: Annotated[
        bool, Meta(description="Do not simulate scheduling when a pod is created.")
    ] = False
    reschedule_critical_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=86400)] | None,
        Meta(description="A pod that is unschedulable for this many seconds is moved to the next subset."),
    ] = None
    return_: Annotated[
        ReturnStrategy | None,
        Meta(description="Pods of later subsets are evicted to return to an earlier one with room; absent: they stay."),
    ] = msgspec.field(name="return", default=None)


class ScheduleStrategy(Model):
    """Whether subsets are filled strictly in order, or by their capacity."""

    type: Annotated[
        Literal["Fixed", "Adaptive"],
        Meta(description="Fixed fills the subsets in order; Adaptive skips those without enough resources."),
    ] = "Fixed"
    adaptive: Annotated[AdaptiveStrategy | None, Meta(description="Settings for Adaptive.")] = None


class UnitedTopologySpec(Model):
    """The target workload, the subsets, and the schedule strategy."""

    target_ref: Annotated[TargetReference, Meta(description="The workload whose pods are allocated to subsets.")]
    subsets: Annotated[
        tuple[Subset, ...],
        Meta(description="The subsets, in the order in which they are filled.", min_length=1, max_length=MAX_SUBSETS),
    ]
    schedule_strategy: Annotated[ScheduleStrategy, Meta(description="How a subset is chosen for a new pod.")] = (
        ScheduleStrategy()
    )


class SubsetStatus(Model):
    """The pods of one revision in a subset, with pending creations and deletions."""

    name: Annotated[str, Meta(description="The subset's name.")]
    replicas: Annotated[int, Meta(description="The number of pods counted in the subset.")] = 0
    missing_replicas: Annotated[
        int, Meta(description="The number of pods missing to the subset's maximum; -1 if it has no maximum.")
    ] = 0
    creating: Annotated[
        Mapping[str, datetime],
        Meta(
            description="Reservations of pods that are admitted but not counted yet, with the time of each.",
            max_length=MAX_PENDING,
        ),
    ] = {}
    deleting: Annotated[
        Mapping[str, datetime],
        Meta(
            description="Pods that are being deleted or evicted and are still counted, by name, with the time of each.",
            max_length=MAX_PENDING,
        ),
    ] = {}
    missing_reschedule: Annotated[
        int, Meta(description="The number of pods of other subsets without capacity that should be created here.")
    ] = 0


class RevisionStatus(Model):
    """The subsets with pods of a revision other than the newest."""

    revision: Annotated[str, Meta(description="The ReplicaSet's UID, or the CloneSet's revision hash.")]
    subset_statuses: Annotated[
        tuple[SubsetStatus, ...], Meta(description="The subsets, in the order of the spec.", max_length=MAX_SUBSETS)
    ] = ()


class Shortage(Model):
    """A subset whose pods could not be scheduled; it is skipped for a time that grows with each failure."""

    name: Annotated[str, Meta(description="The subset's name.")]
    until: Annotated[datetime, Meta(description="The time until which it is skipped.")]
    times: Annotated[int, Meta(description="The number of consecutive failures.")] = 0


class SubsetReturn(Model):
    """A subset to which pods of later ones return."""

    name: Annotated[str, Meta(description="The subset's name.")]
    since: Annotated[datetime, Meta(description="Since when it has had room, or when pods were evicted last.")]
    expected: Annotated[
        int, Meta(description="The number of pods that it is to have after the last evictions; 0 before any.")
    ] = 0
    pods: Annotated[
        tuple[str, ...], Meta(description="The pods that were to be evicted last.", max_length=MAX_RETURNS)
    ] = ()


class UnitedTopologyStatus(Model):
    """The observed state and the reservations."""

    observed_generation: Annotated[int, Meta(description="The generation that this status reports on.")] = 0
    replicas: Annotated[int, Meta(description="The workload's replicas, which percentages refer to.")] = 0
    revision: Annotated[str, Meta(description="The revision of subsetStatuses: the newest.")] = ""
    subset_statuses: Annotated[
        tuple[SubsetStatus, ...], Meta(description="The subsets, in the order of the spec.", max_length=MAX_SUBSETS)
    ] = ()
    other_revisions: Annotated[
        tuple[RevisionStatus, ...], Meta(description="The subsets with pods of other revisions.", max_length=1000)
    ] = ()
    shortages: Annotated[
        tuple[Shortage, ...],
        Meta(description="Subsets without capacity, which are skipped for a time.", max_length=MAX_SUBSETS),
    ] = ()
    returns: Annotated[
        tuple[SubsetReturn, ...],
        Meta(description="Subsets with room, to which pods of later subsets return.", max_length=MAX_SUBSETS),
    ] = ()
    counted_version: Annotated[
        str, Meta(description="The latest resourceVersion of a counted pod; counts from older views are ignored.")
    ] = ""
    conditions: Annotated[
        tuple[Condition, ...], Meta(description="The current conditions, such as Ready.", max_length=32)
    ] = ()


class UnitedTopology(Model, kw_only=True):
    """UnitedTopology allocates the pods of an existing workload to subsets, each with its own nodes and limit."""

    metadata: ObjectMeta = ObjectMeta()
    spec: UnitedTopologySpec
    status: UnitedTopologyStatus = UnitedTopologyStatus()


def status_tree(status: UnitedTopologyStatus) -> JSON:
    """The status as it is written: every number and every list, so that a merge leaves no earlier value."""
    return {
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "revision": status.revision,
        "subsetStatuses": [_subset_tree(subset) for subset in status.subset_statuses],
        "otherRevisions": [_revision_tree(revision) for revision in status.other_revisions],
        "shortages": [_shortage_tree(shortage) for shortage in status.shortages],
        "returns": [_return_tree(each) for each in status.returns],
        "countedVersion": status.counted_version,
        "conditions": [codec.to_tree(condition) for condition in status.conditions],
    }


def _revision_tree(revision: RevisionStatus) -> JSON:
    subsets = [_subset_tree(subset) for subset in revision.subset_statuses]
    return {"revision": revision.revision, "subsetStatuses": subsets}


def _shortage_tree(shortage: Shortage) -> JSON:
    return {"name": shortage.name, "until": _time(shortage.until), "times": shortage.times}


def _return_tree(each: SubsetReturn) -> JSON:
    tree: JSON = {"name": each.name, "since": _time(each.since)}
    return tree | ({"expected": each.expected, "pods": list(each.pods)} if each.expected else {})


def _subset_tree(subset: SubsetStatus) -> JSON:
    tree: JSON = {"name": subset.name, "replicas": subset.replicas, "missingReplicas": subset.missing_replicas}
    for name, entries in (("creating", subset.creating), ("deleting", subset.deleting)):
        if entries:
            tree[name] = {key: _time(moment) for key, moment in entries.items()}
    if subset.missing_reschedule:
        tree["missingReschedule"] = subset.missing_reschedule
    return tree


def _time(moment: datetime) -> str:
    if moment.tzinfo is UTC:  # ten thousand reservations take a third as long
        return f"{moment.isoformat(timespec='microseconds').removesuffix('+00:00')}Z"
    return times.format_micro(times.to_ns(moment))
