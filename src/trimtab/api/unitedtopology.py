"""UnitedTopology (`apps.kruise.io/v1alpha1`): subsets for a workload that exists already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from trimtab.api import percent
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition, ObjectMeta
from trimtab.api.model import Model
from trimtab.api.pods import NodeSelectorTerm, Toleration

API_VERSION = "apps.kruise.io/v1alpha1"
KIND = "UnitedTopology"

TARGETS: Mapping[str, tuple[str, ...]] = {
    "apps/v1": ("Deployment", "ReplicaSet"),
    "apps.kruise.io/v1alpha1": ("CloneSet",),
}
"""Which workloads can have subsets, by API version."""


class TargetReference(Model):
    """The workload, in the same namespace."""

    api_version: Annotated[str, Meta(description="The workload's API version: apps/v1 or apps.kruise.io/v1alpha1.")]
    kind: Annotated[str, Meta(description="The workload's kind: Deployment, ReplicaSet or CloneSet.")]
    name: Annotated[str, Meta(description="The workload's name.", min_length=1)]


class Subset(Model):
    """One place for a workload's pods: where, how many at most, and what is different there."""

    name: Annotated[str, Meta(description="The subset's name, unique in this UnitedTopology.", min_length=1)]
    node_selector_term: Annotated[
        NodeSelectorTerm | None,
        Meta(description="Added to each required node selector term of the subset's pods."),
    ] = None
    tolerations: Annotated[
        tuple[Toleration, ...], Meta(description="Appended to the tolerations of the subset's pods.")
    ] = ()
    patch: Annotated[Document | None, Meta(description="A strategic merge patch for the subset's pods.")] = None
    max_replicas: Annotated[
        int | str | None,
        Meta(
            description="The most pods in this subset: a number, or a percentage of the workload. No limit if absent."
        ),
    ] = None


class AdaptiveStrategy(Model):
    """How an adaptive schedule finds out that a subset has no room."""

    disable_simulation_schedule: Annotated[
        bool, Meta(description="Do not simulate scheduling when a pod is created.")
    ] = False
    reschedule_critical_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=86400)] | None,
        Meta(description="A pod that could not be scheduled for so long is moved to the next subset."),
    ] = None


class ScheduleStrategy(Model):
    """Whether subsets are filled strictly in order, or with a look at the room there is."""

    type: Annotated[
        Literal["Fixed", "Adaptive"],
        Meta(description="Fixed fills the subsets in order; Adaptive skips those without enough resources."),
    ] = "Fixed"
    adaptive: Annotated[AdaptiveStrategy | None, Meta(description="Settings for Adaptive.")] = None


class UnitedTopologySpec(Model):
    """Which workload, which subsets, and how they are chosen."""

    target_ref: Annotated[TargetReference, Meta(description="The workload whose pods are divided.")]
    subsets: Annotated[
        tuple[Subset, ...],
        Meta(description="The subsets, in the order in which they are filled.", min_length=1),
    ]
    schedule_strategy: Annotated[ScheduleStrategy, Meta(description="How a subset is chosen for a new pod.")] = (
        ScheduleStrategy()
    )


class SubsetStatus(Model):
    """How full a subset is, and what is on its way."""

    name: Annotated[str, Meta(description="The subset's name.")]
    missing_replicas: Annotated[
        int, Meta(description="How many pods the subset still lacks; -1 where it has no maximum.")
    ] = 0
    creating: Annotated[
        Mapping[str, datetime], Meta(description="Pods that were given a place and have not been seen yet.")
    ] = {}
    deleting: Annotated[
        Mapping[str, datetime], Meta(description="Pods that are being deleted or evicted and still there.")
    ] = {}
    missing_reschedule: Annotated[
        int, Meta(description="How many pods that found no room elsewhere should come here.")
    ] = 0


class UnitedTopologyStatus(Model):
    """What has been handed out."""

    observed_generation: Annotated[int, Meta(description="The generation that this status is about.")] = 0
    subset_statuses: Annotated[
        tuple[SubsetStatus, ...], Meta(description="The subsets, in the order of the spec.")
    ] = ()
    conditions: Annotated[tuple[Condition, ...], Meta(description="What stands in the way, if anything.")] = ()


class UnitedTopology(Model, kw_only=True):
    """Divides the pods of an existing workload into subsets, each with its own place and limit."""

    metadata: ObjectMeta = ObjectMeta()
    spec: UnitedTopologySpec
    status: UnitedTopologyStatus = UnitedTopologyStatus()


def problems(topology: UnitedTopology) -> Iterator[InvalidError]:
    """What makes a UnitedTopology unusable, although it is of the right shape."""
    target = topology.spec.target_ref
    kinds = TARGETS.get(target.api_version)
    if kinds is None:
        known = " or ".join(TARGETS)
        yield InvalidError("spec.targetRef.apiVersion", f'"{target.api_version}" is not supported; write {known}')
    elif target.kind not in kinds:
        yield InvalidError(
            "spec.targetRef.kind",
            f'"{target.kind}" of {target.api_version} cannot have subsets; write {" or ".join(kinds)}',
        )
    seen: dict[str, int] = {}
    for index, subset in enumerate(topology.spec.subsets):
        path = f"spec.subsets[{index}]"
        first = seen.setdefault(subset.name, index)
        if first != index:
            yield InvalidError(
                f"{path}.name",
                f'"{subset.name}" is the name of spec.subsets[{first}] already; give each its own',
            )
        yield from _limit_problems(subset.max_replicas, f"{path}.maxReplicas")


def _limit_problems(limit: int | str | None, path: str) -> Iterator[InvalidError]:
    if limit is None:
        return
    if isinstance(limit, int):
        if limit < 0:
            yield InvalidError(path, f"{limit} is negative; write 0 or more, or leave it out for no limit")
        return
    try:
        share = percent.scaled(limit, 100, round_up=False)
    except InvalidError as error:
        yield error.under(path)
        return
    if not 0 <= share <= 100:
        yield InvalidError(path, f'"{limit}" is not between 0% and 100%')
