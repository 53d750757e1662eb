"""ScaleDownPolicy and PodGroupCost (`trimtab.dev/v1alpha1`): which pods go first on a scale-down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trimtab.api import limits
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model, Present
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners, advice

API_VERSION = "trimtab.dev/v1alpha1"
POLICY_KIND = "ScaleDownPolicy"
GROUP_COST_KIND = "PodGroupCost"


MAX_VICTIMS = 500
"""How many victims a status lists."""
_MAX_ARGS = 16_384
"""Bytes of a strategy's arguments as JSON."""


TARGETS: Mapping[str, tuple[str, ...]] = {
    "apps/v1": ("Deployment", "ReplicaSet"),
    "v1": ("ReplicationController",),
    "apps.kruise.io/v1alpha1": ("CloneSet",),
}
"""The workloads that a policy can target, by API version."""

UNSUPPORTED_KINDS: Mapping[str, str] = {
    "StatefulSet": "a StatefulSet removes its highest ordinal first, whatever its pods cost",
    "Job": "a Job does not choose its victims by cost",
    "DaemonSet": "a DaemonSet runs one pod per node and has no replicas",
}
"""The kinds that no policy can target, and why."""


class WorkloadReference(Model):
    """A workload in the policy's namespace."""

    api_version: Annotated[str, Meta(description="The workload's API version, such as apps/v1.")]
    kind: Annotated[
        str,
        Meta(
            description="Deployment, ReplicaSet, ReplicationController, CloneSet, or a kind that Trimtab's "
            "configuration lists in workloads."
        ),
    ]
    name: Annotated[str, Meta(description="The workload's name.", min_length=1)]


class StrategySpec(Model):
    """A strategy that ranks pods for deletion, and its weight."""

    name: Annotated[str, Meta(description="The strategy's name, such as Balance or Taints.", min_length=1)]
    weight: Annotated[int, Meta(description="The weight of its rank relative to other strategies.", ge=1, le=1000)] = 1
    threshold: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="The maximum rank; higher ranks count as this. Required if there are several strategies."),
    ] = None
    args: Annotated[Mapping[str, Any], Meta(description="The arguments of the strategy.", max_length=100)] = {}

    def __post_init__(self) -> None:
        if self.args and len(Document(self.args).text) > _MAX_ARGS:
            raise ValueError(f"has args of more than {_MAX_ARGS} bytes")


class WhenUnranked(Model):
    """What happens to a scale-down while some of its pods have no rank."""

    action: Annotated[
        Literal["Wait", "Fallback"],
        Meta(
            description="Wait for the ranks until the timeout, or immediately fall back to the controller's own order."
        ),
    ] = "Wait"
    timeout_seconds: Annotated[
        int, Meta(description="How many seconds to wait before falling back.", ge=0, le=3600)
    ] = 30


Mode = Literal["Observe", "Enforce"]

RESERVED_MILLISECONDS = 200
"""Milliseconds of the budget of a scale request that are reserved for the response."""


class ScaleDownPolicySpec(Model):
    """The target, the strategies, and how costs are delivered."""

    target_ref: Annotated[
        WorkloadReference | None, Meta(description="The workload. Exactly one of targetRef and selector is required.")
    ] = None
    selector: Annotated[
        LabelSelector | None, Meta(description="Selects the pods. Exactly one of targetRef and selector is required.")
    ] = None
    strategies: Annotated[
        tuple[StrategySpec, ...],
        Meta(description="The strategies that rank pods; by default, pods are kept level.", max_length=32),
    ] = ()
    mode: Annotated[
        Mode,
        Meta(
            description="Enforce writes costs; Observe writes nothing to pods, holds no request, and reports what "
            "the controller left beside what Trimtab would have left."
        ),
    ] = "Enforce"
    delivery: Annotated[
        Literal["OnScaleIntent", "Continuous"],
        Meta(description="OnScaleIntent writes costs when a scale-down is requested; Continuous keeps them current."),
    ] = "OnScaleIntent"
    carrier: Annotated[
        Literal["Annotation", "AlphaAnnotation", "PodGroupCost"],
        Meta(
            description="Where costs are written: the pod-deletion-cost annotation, the cost proposal's annotation, or "
            "a PodGroupCost."
        ),
    ] = "Annotation"
    when_unranked: Annotated[WhenUnranked, Meta(description="What happens while some pods have no rank.")] = (
        WhenUnranked()
    )
    other_costs: Annotated[
        Literal["Obey", "TieBreak"] | None,
        Meta(
            description="How costs of other writers count: obeyed, or only between pods that are equal otherwise. "
            "The default is in Trimtab's configuration."
        ),
    ] = None
    budget_milliseconds: Annotated[
        int,
        Meta(
            description="For how many milliseconds a scale request is held at most, up to the budget in Trimtab's "
            "configuration, and more than 200, which are reserved for the answer; 0 means that budget.",
            ge=0,
            le=25_000,
        ),
    ] = 0


class SkewStatus(Model):
    """The skew of one topology key before and after a scale-down, and with an unmodified controller."""

    topology_key: Annotated[str, Meta(description="The topology key.")]
    before: Annotated[int, Meta(description="The skew before the scale-down.")] = 0
    after: Annotated[int, Meta(description="The skew that the plan leaves.")] = 0
    stock: Annotated[int, Meta(description="The skew that an unmodified controller would have left.")] = 0


class PlanStatus(Model):
    """The last planned scale-down."""

    time: Annotated[datetime | None, Meta(description="When it was planned.")] = None
    from_: Annotated[int, Meta(description="The replicas before.")] = msgspec.field(name="from", default=0)
    to: Annotated[int, Meta(description="The replicas requested.")] = 0
    victims: Annotated[
        tuple[str, ...], Meta(description="The first pods chosen for deletion, in order.", max_length=MAX_VICTIMS)
    ] = ()
    skews: Annotated[tuple[SkewStatus, ...], Meta(description="The skew of each topology key.", max_length=100)] = ()
    error: Annotated[str, Meta(description="Why some costs could not be written; empty if all were.")] = ""


class ScaleDownCounts(Model):
    """How many scale-downs a policy applied to, by how they ended."""

    total: Annotated[int, Meta(description="All that have ended.")] = 0
    level: Annotated[int, Meta(description="Those that ended level.")] = 0
    best: Annotated[int, Meta(description="Those that ended as level as was possible.")] = 0
    missed: Annotated[int, Meta(description="Those that ended less level than was possible.")] = 0
    skipped: Annotated[int, Meta(description="Those that were admitted without a plan.")] = 0
    observed: Annotated[int, Meta(description="Those that were only observed.")] = 0


class ScaleDownSummary(Model):
    """A scale-down that has ended."""

    time: Annotated[datetime | None, Meta(description="When it was requested.")] = None
    workload: Annotated[str, Meta(description="The workload, such as Deployment/web.")] = ""
    from_: Annotated[int, Meta(description="The replicas before.")] = msgspec.field(name="from", default=0)
    to: Annotated[int, Meta(description="The replicas requested.")] = 0
    outcome: Annotated[str, Meta(description="What came of the request: planned, observed, or why not.")] = ""
    result: Annotated[str, Meta(description="How it ended: level, best, missed, not-applied or superseded.")] = ""
    cause: Annotated[str, Meta(description="Why it ended less level than was possible.")] = ""
    left: Annotated[str, Meta(description="The pods left in each domain of the first topology key.")] = ""
    planned: Annotated[str, Meta(description="The pods that the plan leaves in each domain.")] = ""
    stock: Annotated[str, Meta(description="The pods that an unmodified controller may leave in each domain.")] = ""


class ScaleDownPolicyStatus(Model):
    """The observed state."""

    observed_generation: Annotated[int, Meta(description="The generation that this status reports on.")] = 0
    conditions: Annotated[
        tuple[Condition, ...], Meta(description="Whether the policy works, and if not, why.", max_length=32)
    ] = ()
    ranked_pods: Annotated[int, Meta(description="The number of pods with a rank.")] = 0
    unranked_pods: Annotated[int, Meta(description="The number of pods without a rank.")] = 0
    last_plan: Annotated[PlanStatus | None, Meta(description="The last planned scale-down.")] = None
    last_error: Annotated[str, Meta(description="The last error.")] = ""
    counts: Annotated[ScaleDownCounts, Meta(description="How many scale-downs ended how.")] = ScaleDownCounts()
    recent: Annotated[
        tuple[ScaleDownSummary, ...], Meta(description="The last ten scale-downs, the latest first.", max_length=10)
    ] = ()


class ScaleDownPolicy(Model):
    """ScaleDownPolicy decides which pods of a workload are deleted first on a scale-down."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleDownPolicySpec = ScaleDownPolicySpec()
    status: ScaleDownPolicyStatus = ScaleDownPolicyStatus()


class GroupOwner(Model):
    """The workload that owns the pods."""

    api_version: Annotated[str, Meta(description="The owner's API version.")] = ""
    kind: Annotated[str, Meta(description="The owner's kind.")] = ""
    name: Annotated[str, Meta(description="The owner's name.")] = ""


class PodGroupCostSpec(Model):
    """The costs of a group of pods; the pod with the highest cost is deleted first."""

    owner: Annotated[GroupOwner, Meta(description="The workload that owns the pods.")] = GroupOwner()
    costs: Annotated[
        Mapping[str, int],
        Meta(
            description="The cost of each pod by name; the pod with the highest cost is deleted first.",
            max_length=20_000,
        ),
    ] = {}


class ManagedFields(Model):
    """The fields of an object that one manager has written; of these, whether they are in its spec."""

    spec: Present | None = msgspec.field(name="f:spec", default=None)


class ManagedFieldsEntry(Model):
    """A manager of some of an object's fields."""

    manager: str = ""
    fields: ManagedFields = msgspec.field(name="fieldsV1", default=ManagedFields())


class ManagedObjectMeta(ObjectMeta):
    """Metadata with the managers of the object's fields. A server that records none, such as the lab's, has none."""

    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class PodGroupCost(Model):
    """PodGroupCost holds all costs of a pod group in one object, so that they change together."""

    metadata: ManagedObjectMeta = ManagedObjectMeta()
    spec: PodGroupCostSpec = PodGroupCostSpec()

    @property
    def spec_managers(self) -> frozenset[str]:
        """The field managers of its spec."""
        return frozenset(each.manager for each in self.metadata.managed_fields if each.fields.spec is not None)


def problems(policy: ScaleDownPolicy, owners: ReplicaSetOwners = DEPLOYMENTS) -> Iterator[InvalidError]:
    """The errors that a schema cannot find. Strategies are validated by `ranking`; `owners` can be targets too."""
    spec = policy.spec
    if spec.target_ref is None and spec.selector is None:
        yield InvalidError("spec", "selects no pods; write a targetRef or a selector")
    if spec.target_ref is not None and spec.selector is not None:
        yield InvalidError("spec.selector", "cannot be combined with targetRef; write one of them")
    if spec.target_ref is not None:
        yield from _target_problems(spec.target_ref, owners.added_to(TARGETS))
    if spec.selector is not None:
        yield from limits.problems(spec.selector, "spec.selector")
    yield from strategy_problems(spec.strategies)


def budget_problems(milliseconds: int, settle_milliseconds: int = 0) -> Iterator[InvalidError]:
    """Why a policy's budget is too short for writing a cost and waiting for the settle time, if it is."""
    least = settle_milliseconds + RESERVED_MILLISECONDS
    if 0 < milliseconds <= least:
        settle = f" and {settle_milliseconds} for controllers to observe costs" if settle_milliseconds else ""
        yield InvalidError(
            "spec.budgetMilliseconds",
            f"{milliseconds} leaves no time for writing costs: {RESERVED_MILLISECONDS} are reserved for the answer"
            f"{settle}; write more than {least}, or 0 for the budget in Trimtab's configuration",
        )


def strategy_problems(strategies: tuple[StrategySpec, ...]) -> Iterator[InvalidError]:
    """The errors of strategies: with several, each needs a threshold, because their ranks are added."""
    if len(strategies) > 1:
        for index, strategy in enumerate(strategies):
            if strategy.threshold is None:
                yield InvalidError(
                    f"spec.strategies[{index}].threshold",
                    "is required with several strategies: their ranks are added, and one without a threshold could "
                    "outweigh all others; write the maximum rank that should count",
                )


def _target_problems(target: WorkloadReference, targets: Mapping[str, tuple[str, ...]]) -> Iterator[InvalidError]:
    if target.kind in UNSUPPORTED_KINDS:
        yield InvalidError("spec.targetRef.kind", f"{target.kind} is not supported: {UNSUPPORTED_KINDS[target.kind]}")
        return
    kinds = targets.get(target.api_version)
    if kinds is None:
        reason = f'"{target.api_version}" is not supported; write one of {", ".join(targets)}'
        yield InvalidError("spec.targetRef.apiVersion", f"{reason}{advice(target.api_version, targets)}")
    elif target.kind not in kinds:
        yield InvalidError(
            "spec.targetRef.kind",
            f'"{target.kind}" of {target.api_version} is not supported; write {" or ".join(kinds)}',
        )
