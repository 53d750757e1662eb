"""ScaleDownPolicy and PodGroupCost (`trimtab.dev/v1alpha1`): who goes first, and where that is written down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model

API_VERSION = "trimtab.dev/v1alpha1"
POLICY_KIND = "ScaleDownPolicy"
GROUP_COST_KIND = "PodGroupCost"


TARGETS: Mapping[str, tuple[str, ...]] = {
    "apps/v1": ("Deployment", "ReplicaSet"),
    "v1": ("ReplicationController",),
    "apps.kruise.io/v1alpha1": ("CloneSet",),
}
"""Which workloads a policy can speak for, by API version."""

UNSUPPORTED_KINDS: Mapping[str, str] = {
    "StatefulSet": "a StatefulSet removes its highest ordinal first, whatever its pods cost",
    "Job": "a Job does not choose its victims by cost",
    "DaemonSet": "a DaemonSet has one pod a node and does not shrink by number",
}
"""Kinds that no policy can speak for, and why."""


class WorkloadReference(Model):
    """A workload in the policy's namespace."""

    api_version: Annotated[str, Meta(description="The workload's API version, such as apps/v1.")]
    kind: Annotated[str, Meta(description="Deployment, ReplicaSet, ReplicationController or CloneSet.")]
    name: Annotated[str, Meta(description="The workload's name.", min_length=1)]


class StrategySpec(Model):
    """One opinion of who should go first, and how much it counts."""

    name: Annotated[str, Meta(description="The strategy's name, such as Balance or Taints.", min_length=1)]
    weight: Annotated[int, Meta(description="How much its rank counts beside other strategies'.", ge=1, le=1000)] = 1
    threshold: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="Ranks above this count as this much. Required where there are several strategies."),
    ] = None
    args: Annotated[Mapping[str, Any], Meta(description="Settings of the strategy itself.")] = {}


class WhenUnranked(Model):
    """What happens to a scale-down while some of its pods have no rank."""

    action: Annotated[
        Literal["Wait", "Fallback"],
        Meta(description="Wait for the ranks until the timeout, or fall back to the original order at once."),
    ] = "Wait"
    timeout_seconds: Annotated[int, Meta(description="How long to wait before falling back.", ge=0, le=3600)] = 30


class ScaleDownPolicySpec(Model):
    """Which pods, which strategies, and how ranks are delivered."""

    target_ref: Annotated[WorkloadReference | None, Meta(description="The workload. Write this or a selector.")] = None
    selector: Annotated[LabelSelector | None, Meta(description="The pods. Write this or a targetRef.")] = None
    strategies: Annotated[
        tuple[StrategySpec, ...], Meta(description="The strategies; without any, pods are kept level.")
    ] = ()
    delivery: Annotated[
        Literal["OnScaleIntent", "Continuous"],
        Meta(description="Write costs only when a scale-down is asked for, or keep them current all the time."),
    ] = "OnScaleIntent"
    carrier: Annotated[
        Literal["Annotation", "AlphaAnnotation", "PodGroupCost"],
        Meta(description="Where costs are written: pod-deletion-cost, the proposal's annotation, or a PodGroupCost."),
    ] = "Annotation"
    when_unranked: Annotated[WhenUnranked, Meta(description="What happens while some pods have no rank.")] = (
        WhenUnranked()
    )


class SkewStatus(Model):
    """The skew of one topology key: what it was, what it became, what stock Kubernetes would have left."""

    topology_key: Annotated[str, Meta(description="The topology key.")]
    before: Annotated[int, Meta(description="The skew before the scale-down.")] = 0
    after: Annotated[int, Meta(description="The skew that the plan leaves.")] = 0
    stock: Annotated[int, Meta(description="The skew that an unmodified controller would have left.")] = 0


class PlanStatus(Model):
    """The last scale-down that was planned."""

    time: Annotated[datetime | None, Meta(description="When it was planned.")] = None
    from_: Annotated[int, Meta(description="The size before.")] = msgspec.field(name="from", default=0)
    to: Annotated[int, Meta(description="The size asked for.")] = 0
    victims: Annotated[tuple[str, ...], Meta(description="The pods that were to go, first one first.")] = ()
    skews: Annotated[tuple[SkewStatus, ...], Meta(description="The skew of each topology key.")] = ()
    error: Annotated[str, Meta(description="Why not all of its costs could be written; empty where they were.")] = ""


class ScaleDownPolicyStatus(Model):
    """What the policy does at present."""

    observed_generation: Annotated[int, Meta(description="The generation that this status is about.")] = 0
    conditions: Annotated[tuple[Condition, ...], Meta(description="Whether it works, and if not, why.")] = ()
    ranked_pods: Annotated[int, Meta(description="How many pods have a rank.")] = 0
    unranked_pods: Annotated[int, Meta(description="How many pods have none yet.")] = 0
    last_plan: Annotated[PlanStatus | None, Meta(description="The last scale-down that was planned.")] = None
    last_error: Annotated[str, Meta(description="The last thing that went wrong.")] = ""


class ScaleDownPolicy(Model):
    """Says which pods of a workload go first when it shrinks."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleDownPolicySpec = ScaleDownPolicySpec()
    status: ScaleDownPolicyStatus = ScaleDownPolicyStatus()


class GroupOwner(Model):
    """The workload whose pods these are."""

    api_version: Annotated[str, Meta(description="The owner's API version.")] = ""
    kind: Annotated[str, Meta(description="The owner's kind.")] = ""
    name: Annotated[str, Meta(description="The owner's name.")] = ""


class PodGroupCostSpec(Model):
    """The costs of a whole group, written at once: the higher goes first."""

    owner: Annotated[GroupOwner, Meta(description="The workload that owns the pods.")] = GroupOwner()
    costs: Annotated[Mapping[str, int], Meta(description="The cost of each pod by name; the higher goes first.")] = {}


class PodGroupCost(Model):
    """All the costs of a pod group in one object, so that they change together."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupCostSpec = PodGroupCostSpec()


def problems(policy: ScaleDownPolicy) -> Iterator[InvalidError]:
    """What makes a policy unusable, although it is of the right shape. Strategies are checked by `ranking`."""
    spec = policy.spec
    if spec.target_ref is None and spec.selector is None:
        yield InvalidError("spec", "names no pods; write a targetRef or a selector")
    if spec.target_ref is not None and spec.selector is not None:
        yield InvalidError("spec.selector", "cannot stand beside targetRef; write one of them")
    if spec.target_ref is not None:
        yield from _target_problems(spec.target_ref)
    yield from strategy_problems(spec.strategies)


def strategy_problems(strategies: tuple[StrategySpec, ...]) -> Iterator[InvalidError]:
    """Ranks of several strategies are added up, which means nothing unless each is capped."""
    if len(strategies) > 1:
        for index, strategy in enumerate(strategies):
            if strategy.threshold is None:
                yield InvalidError(
                    f"spec.strategies[{index}].threshold",
                    "is required where there are several strategies: their ranks are added up, and one without a "
                    "threshold would drown the others; write the rank above which more makes no difference",
                )


def _target_problems(target: WorkloadReference) -> Iterator[InvalidError]:
    if target.kind in UNSUPPORTED_KINDS:
        yield InvalidError("spec.targetRef.kind", f"{target.kind} is not supported: {UNSUPPORTED_KINDS[target.kind]}")
        return
    kinds = TARGETS.get(target.api_version)
    if kinds is None:
        known = ", ".join(TARGETS)
        yield InvalidError(
            "spec.targetRef.apiVersion", f'"{target.api_version}" is not supported; write one of {known}'
        )
    elif target.kind not in kinds:
        yield InvalidError(
            "spec.targetRef.kind",
            f'"{target.kind}" of {target.api_version} is not supported; write {" or ".join(kinds)}',
        )
