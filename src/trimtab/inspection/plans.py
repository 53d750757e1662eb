"""What a scale-down would delete, and why: the plan, what stock may do, and what stands in the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from trimtab.api.apps import Deployment
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.pods import Pod
from trimtab.api.workloads import ReplicaSetOwner, with_template
from trimtab.inspection import nodes
from trimtab.inspection.cluster import Cluster, Gap, Workload
from trimtab.inspection.policies import AppliedPolicy, policy_of
from trimtab.inspection.settings import WINDOW, Settings
from trimtab.inspection.subsets import tiers
from trimtab.inspection.targets import display, kind_of
from trimtab.ranking.certainty import Window
from trimtab.ranking.combination import Part
from trimtab.ranking.levelings import Leveling
from trimtab.ranking.plan import Victim
from trimtab.scaledown import clonesets, proportional
from trimtab.scaledown.constraints import scheduler_name
from trimtab.scaledown.proportional import ControllerSize
from trimtab.scaledown.replicaset_plans import (
    ControllerModel,
    ControllerPlan,
    hedge_warnings,
    plan_controller,
    summary,
)
from trimtab.scaledown.stability import is_rolling_out, is_stable


class StrategyValue(Model, omit_defaults=False):
    """What one strategy says of a pod; without values where it says nothing."""

    strategy: str
    weight: int
    raw: float | None = None
    capped: float | None = None
    weighted: float | None = None

    @classmethod
    def of(cls, part: Part) -> StrategyValue:
        """The value of a part of a rank."""
        return cls(strategy=part.strategy, weight=part.weight, raw=part.raw, capped=part.capped, weighted=part.weighted)


class PlannedVictim(Model, omit_defaults=False):
    """A pod that the plan deletes, and why."""

    pod: str
    node: str
    reason: str
    criterion: str = ""
    """The criterion of Kubernetes that decided, if one did."""
    topology_key: str = ""
    """The topology key that decided, if one did."""
    by_stock: str = ""
    """Whether the controller alone deletes it: `always`, `possible` or `never`."""
    strategies: tuple[StrategyValue, ...] = ()


class Constrained(Model, omit_defaults=False):
    """The pods in each domain of one constraint: before, after the plan, and as stock may leave them."""

    topology_key: str
    hard: bool
    max_skew: int
    domains: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    stock: tuple[int, ...]
    """One of the least level distributions that stock may leave."""
    stock_is_certain: bool
    skew_before: int
    skew_after: int
    skew_stock: int
    outside_before: int = 0
    """The workload's pods that are in no domain."""
    outside_after: int = 0

    @classmethod
    def of(cls, leveling: Leveling) -> Constrained:
        """The value of what a plan says about a constraint."""
        before, after = leveling.outside
        return cls(
            topology_key=leveling.topology_key,
            hard=leveling.hard,
            max_skew=leveling.max_skew,
            domains=leveling.domains,
            before=leveling.before,
            after=leveling.after,
            stock=leveling.stock,
            stock_is_certain=leveling.stock_is_certain,
            skew_before=leveling.skew_before,
            skew_after=leveling.skew_after,
            skew_stock=leveling.skew_stock,
            outside_before=before,
            outside_after=after,
        )


class PlannedController(Model, omit_defaults=False):
    """The plan for one controller of pods: the workload itself, or a ReplicaSet of it."""

    name: str
    from_: int = msgspec.field(name="from")
    to: int
    victims: tuple[PlannedVictim, ...] = ()
    always: tuple[str, ...] = ()
    """The pods that the controller alone deletes in every case."""
    possible: tuple[str, ...] = ()
    """The pods that it may delete, those of `always` included."""
    constraints: tuple[Constrained, ...] = ()
    costs: int | None = None
    """How many costs make the plan certain; none where no costs can."""
    summary: str = ""


class WorkloadPlan(Model, omit_defaults=False):
    """The plan for a workload."""

    kind: str
    namespace: str
    name: str
    from_: int = msgspec.field(name="from")
    to: int
    policy: AppliedPolicy
    controllers: tuple[PlannedController, ...] = ()
    nodes_emptied: tuple[str, ...] = ()
    """The nodes that hold no other pods than victims, DaemonSets' and static pods aside."""
    obstacles: tuple[str, ...] = ()
    """What stands in the way of a level result, or of the plan itself."""
    within_seconds: float = WINDOW
    """When the controller is assumed to act."""
    gaps: tuple[Gap, ...] = ()

    @property
    def victims(self) -> tuple[PlannedVictim, ...]:
        """The victims of all controllers."""
        return tuple(victim for each in self.controllers for victim in each.victims)


@dataclass(frozen=True, slots=True)
class PlanInput:
    """The controllers that shrink, and what is assumed about them."""

    sizes: tuple[ControllerSize, ...]
    model: ControllerModel
    applied: AppliedPolicy
    plans: tuple[ControllerPlan, ...]


def plan_workload(
    cluster: Cluster, workload: Workload, replicas: int, settings: Settings, *, within: float = WINDOW
) -> WorkloadPlan:
    """The plan for a workload that is scaled down. Raises InvalidError for a target that is no scale-down."""
    _check(workload, replicas)
    made = controller_plans(cluster, workload, replicas, settings, within=within)
    metadata = workload.metadata
    victims = {key for each in made.plans for key in each.plan.keys}
    return WorkloadPlan(
        kind=kind_of(workload),
        namespace=metadata.namespace,
        name=metadata.name,
        from_=workload.desired_replicas,
        to=replicas,
        policy=made.applied,
        controllers=tuple(_controller(cluster, each) for each in made.plans),
        nodes_emptied=tuple(nodes.emptied(cluster, victims)),
        obstacles=tuple(dict.fromkeys(_obstacles(cluster, workload, made))),
        within_seconds=within,
        gaps=cluster.gaps,
    )


def controller_plans(
    cluster: Cluster, workload: Workload, replicas: int, settings: Settings, *, within: float = WINDOW
) -> PlanInput:
    """The plans as the features make them, one for each controller that loses pods."""
    sizes = controller_sizes(cluster, workload, replicas)
    applied, effective, policy = policy_of(cluster, workload, settings)
    window = Window.after(cluster.time, seconds=within, tolerance=settings.tolerance)
    model = ControllerModel(cluster.time, window, is_stable(cluster, workload), settings.options, settings.rank)
    foreign = (effective.spec.other_costs if effective is not None else None) or settings.foreign_costs
    subset_tiers = tiers(cluster, workload, replicas)
    workload = with_template(workload, cluster.sets_of(workload) if isinstance(workload, ReplicaSetOwner) else ())
    plans = (
        plan_controller(
            *(workload, size, cluster.pods_of(size.uid), cluster.snapshot, policy),
            defaults=settings.constraints(scheduler_name(workload.spec.template)),
            model=model,
            foreign_costs=foreign,
            tiers=subset_tiers,
        )
        for size in sizes
    )
    return PlanInput(sizes, model, applied, tuple(each for each in plans if each is not None))


def controller_sizes(cluster: Cluster, workload: Workload, replicas: int) -> tuple[ControllerSize, ...]:
    """The controllers that shrink when a workload is scaled down."""
    sets = cluster.sets_of(workload) if isinstance(workload, ReplicaSetOwner) else ()
    return proportional.controller_sizes(workload, replicas, sets, siblings=cluster.siblings_of(workload))


def _check(workload: Workload, replicas: int) -> None:
    size = workload.desired_replicas
    if replicas < 0:
        raise InvalidError("--replicas", f"{replicas} is negative; write 0 or more")
    if replicas >= size:
        hint = f"write a number from 0 to {size - 1}" if size else "there is nothing to scale down"
        raise InvalidError("--replicas", f"{replicas} is no scale-down: {display(workload)} has {size}; {hint}")


def _controller(cluster: Cluster, made: ControllerPlan) -> PlannedController:
    plan = made.plan
    always, possible = set(plan.stock.always), set(plan.stock.possible)
    return PlannedController(
        name=made.size.name,
        from_=plan.before,
        to=plan.replicas,
        victims=tuple(_victim(cluster, each, always, possible) for each in plan.victims),
        always=tuple(map(_name, plan.stock.always)),
        possible=tuple(map(_name, plan.stock.possible)),
        constraints=tuple(map(Constrained.of, plan.levelings)),
        costs=None if made.delivery is None else len(made.delivery.costs),
        summary=summary(plan, "keeps"),
    )


def _victim(cluster: Cluster, victim: Victim, always: set[str], possible: set[str]) -> PlannedVictim:
    pod = cluster.snapshot.pod(victim.key)
    return PlannedVictim(
        pod=_name(victim.key),
        node=_node_of(pod),
        reason=victim.because,
        criterion="" if victim.criterion is None else victim.criterion.name,
        topology_key=victim.topology_key or "",
        by_stock="always" if victim.key in always else "possible" if victim.key in possible else "never",
        strategies=tuple(map(StrategyValue.of, victim.parts)),
    )


def _node_of(pod: Pod | None) -> str:
    return "" if pod is None else pod.spec.node_name


def _name(key: str) -> str:
    return key.partition("/")[2]


def _obstacles(cluster: Cluster, workload: Workload, made: PlanInput) -> Iterator[str]:
    """What stands in the way."""
    if not made.applied.name:
        yield f"Trimtab would not act: no policy applies ({made.applied.reason})"
    elif made.applied.mode == "Observe":
        yield "Trimtab would only report: the policy's mode is Observe"
    if made.applied.problem:
        yield f"the policy does not work: {made.applied.problem}"
    yield from made.applied.notes
    if isinstance(workload, ReplicaSetOwner) and not made.sizes:
        yield f"no ReplicaSet shrinks: {_without_sizes(workload)}"
    if is_rolling_out(cluster, workload):
        yield _rollout(cluster, workload)
    owner = workload.metadata.controller
    if owner is not None:
        yield f"{owner.kind} {owner.name} manages it, and may restore its size; scale that instead"
    for each in made.plans:
        yield from map(str, each.plan.obstacles)
        yield from hedge_warnings(each)
        if each.ignored:
            yield each.ignored
        if each.delivery is None:
            yield f"{each.size.name}: deletion costs of other writers prevent the plan"
    yield from _unsettled(cluster, made.sizes)


def _without_sizes(workload: ReplicaSetOwner) -> str:
    if isinstance(workload, Deployment):
        return "the Deployment has none with pods, or its strategy is Recreate during a rollout"
    kind = kind_of(workload)
    return f"the {kind} has none with pods, or several, among which its controller divides its size in a way of its own"


def _rollout(cluster: Cluster, workload: Workload) -> str:
    if clonesets.is_rolling(workload, cluster.pods_of(workload.metadata.uid)):
        return "its pods are of several revisions, of which the older are deleted first: Trimtab would leave it alone"
    how = "its ReplicaSets shrink in proportion, and " if isinstance(workload, Deployment) else ""
    return f"a rollout is under way: {how}the rollout goes on deleting pods"


def _unsettled(cluster: Cluster, sizes: Sequence[ControllerSize]) -> Iterator[str]:
    for size in sizes:
        active = sum(pod.active for pod in cluster.pods_of(size.uid))
        if active != size.before:
            yield f"{size.name} has {active} pods, and is to have {size.before} before the scale-down"
