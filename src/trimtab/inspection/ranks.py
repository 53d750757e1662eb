"""The pods of a workload in the order in which they are deleted, with everything that decides it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trimtab.api.annotations import DELETION_COST, CostOwner, cost_owner
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.inspection import nodes
from trimtab.inspection.cluster import Cluster, Gap, Workload
from trimtab.inspection.plans import StrategyValue, controller_plans
from trimtab.inspection.policies import AppliedPolicy, policy_of
from trimtab.inspection.settings import Settings
from trimtab.inspection.targets import display, kind_of
from trimtab.ranking.plan import Policy
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.sequences import stock_order
from trimtab.ranking.victims import Order, same_node_counts
from trimtab.scaledown.replicaset_plans import ControllerPlan
from trimtab.snapshot.columns import SmallColumn
from trimtab.snapshot.pods import NEVER

SECOND = 1_000_000_000


class Criteria(Model, omit_defaults=False):
    """What the controller's criteria compare, for one pod: 1 to 8 of its victim order."""

    node: str
    phase: str
    ready: bool
    cost: int
    cost_owner: str
    same_node: int
    """How many pods of its group are on its node."""
    rank: float | None
    """Of a CloneSet's pod: its rank by topology."""
    ready_seconds: float | None
    restarts: int
    age_seconds: float | None


class RankedPod(Model, omit_defaults=False):
    """A pod in the order in which pods are deleted."""

    position: int
    """1 goes first."""
    pod: str
    stock_position: int
    """Its position in the controller's own order at this moment."""
    domains: dict[str, str]
    criteria: Criteria
    decided_by: str
    """What puts it before the last pod that stays."""
    stock_decided_by: str
    """What puts it before the next pod in the controller's own order."""
    strategies: tuple[StrategyValue, ...] = ()
    total: float | None = None
    """The sum of the weighted values; none where a strategy says nothing, or there are none."""


class ControllerRanks(Model, omit_defaults=False):
    """The pods of one controller, first one to go first."""

    name: str
    pods: tuple[RankedPod, ...]
    topology_keys: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class WorkloadRanks(Model, omit_defaults=False):
    """The pods of a workload, controller by controller."""

    kind: str
    namespace: str
    name: str
    policy: AppliedPolicy
    controllers: tuple[ControllerRanks, ...]
    gaps: tuple[Gap, ...] = ()


def rank_workload(cluster: Cluster, workload: Workload, settings: Settings) -> WorkloadRanks:
    """The pods of a workload in deletion order. Raises InvalidError for one without pods."""
    applied, _, policy = policy_of(cluster, workload, settings)
    metadata = workload.metadata
    ranked = tuple(_ranked(cluster, each, policy) for each in _plans(cluster, workload, settings))
    if not ranked:
        raise InvalidError(display(workload), "has no pods to rank")
    return WorkloadRanks(
        kind=kind_of(workload),
        namespace=metadata.namespace,
        name=metadata.name,
        policy=applied,
        controllers=ranked,
        gaps=cluster.gaps,
    )


def _plans(cluster: Cluster, workload: Workload, settings: Settings) -> Iterator[ControllerPlan]:
    """The plan of each controller that leaves one pod: its victims are the whole order."""
    for each in cluster.controllers_of(workload):
        active = sum(pod.active for pod in cluster.pods_of(each.metadata.uid))
        if active:
            yield from controller_plans(cluster, each, min(1, active - 1), settings).plans


def _ranked(cluster: Cluster, made: ControllerPlan, policy: Policy) -> ControllerRanks:
    snapshot = cluster.snapshot
    with snapshot.with_assumed(gone=made.assumed):
        current = RankedWorkload.owned_by(snapshot, made.size.uid, related=made.size.siblings)
        assert made.ranked is not None  # noqa: S101 - every plan has its workload
        workload = replace(made.ranked, rows=current.rows, related=current.related)
        stock = stock_order(workload, snapshot, cluster.time)
        keys = tuple(each.topology_key for each in made.constraints)
        return ControllerRanks(
            name=made.size.name,
            pods=tuple(_pods(cluster, made, workload, stock, policy, keys)),
            topology_keys=keys,
            notes=tuple(map(str, made.plan.obstacles)),
        )


def _pods(
    cluster: Cluster,
    made: ControllerPlan,
    workload: RankedWorkload,
    stock: Order,
    policy: Policy,
    keys: tuple[str, ...],
) -> Iterator[RankedPod]:
    snapshot = cluster.snapshot
    index = snapshot.pods.rows.index
    reasons = {victim.key: victim.because for victim in made.plan.victims}
    order = [*reasons, *(key for row in stock.rows.tolist() if (key := _key(cluster, row)) not in reasons)]
    places = {_key(cluster, row): at for at, row in enumerate(stock.rows.tolist())}
    combined = policy.rank(snapshot, workload.rows, cluster.time) if policy.combination.strategies else None
    crowding = _crowding(cluster, workload, stock)
    for position, key in enumerate(order, start=1):
        at, row = places[key], index[key]
        parts = () if combined is None else combined.explain(row)
        values = [part.weighted for part in parts]
        yield RankedPod(
            position=position,
            pod=key.partition("/")[2],
            stock_position=at + 1,
            domains=_domains(cluster, key, keys),
            criteria=_criteria(cluster, row, int(crowding[at]), _rank(workload, stock, at), workload),
            decided_by=reasons.get(key, "it stays longest"),
            stock_decided_by=_decided(stock, at),
            strategies=tuple(map(StrategyValue.of, parts)),
            total=sum(value for value in values if value is not None) if values and None not in values else None,
        )


def _key(cluster: Cluster, row: int) -> str:
    return cluster.snapshot.pods.rows.names[row] or ""


def _domains(cluster: Cluster, key: str, keys: tuple[str, ...]) -> dict[str, str]:
    pod = cluster.snapshot.pod(key)
    return {} if pod is None else nodes.domains(cluster, pod, keys)


def _crowding(cluster: Cluster, workload: RankedWorkload, stock: Order) -> SmallColumn:
    """How many pods of its group are on each pod's node, in the controller's order."""
    pods = cluster.snapshot.pods
    return same_node_counts(pods, pods.node[stock.rows], workload.related)


def _rank(workload: RankedWorkload, stock: Order, at: int) -> float | None:
    return float(stock.ranks[at]) if workload.kind == "CloneSet" else None


def _decided(stock: Order, at: int) -> str:
    if at + 1 >= len(stock):
        return "it goes last"
    return stock.deciding(int(stock.rows[at]), int(stock.rows[at + 1])).sentence


def _criteria(cluster: Cluster, row: int, crowding: int, rank: float | None, workload: RankedWorkload) -> Criteria:
    pods = cluster.snapshot.pods
    pod = pods.objects[row]
    assert pod is not None  # noqa: S101 - the row was looked up by the pod's name
    key = _key(cluster, row)
    owner = cost_owner(pod.metadata.annotations) if DELETION_COST in pod.metadata.annotations else CostOwner.NONE
    return Criteria(
        node=pod.spec.node_name,
        phase=pod.status.phase or "Pending",
        ready=pod.ready,
        cost=workload.base_costs.get(key, int(pods.column("cost")[row])),
        cost_owner=owner.value,
        same_node=crowding,
        rank=rank,
        ready_seconds=_age(cluster, int(pods.column("ready_since")[row])),
        restarts=int(pods.column("restarts")[row]),
        age_seconds=_age(cluster, int(pods.column("created")[row])),
    )


def _age(cluster: Cluster, since: int) -> float | None:
    return None if since == NEVER else round((cluster.time - since) / SECOND, 3)
