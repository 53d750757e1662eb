"""How fast pods are put in the order in which they go."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from bench.figures import Figure, Limit, against_calibration
from trimtab.api.annotations import DELETION_COST
from trimtab.api.core import Service, ServiceSpec
from trimtab.api.meta import ObjectMeta
from trimtab.api.nodes import HOSTNAME, ZONE, Node
from trimtab.api.pods import ContainerStatus, Pod, PodCondition, PodSpec, PodStatus
from trimtab.api.scaledown import StrategySpec
from trimtab.api.times import to_ns
from trimtab.placement.profiles import default_profile
from trimtab.ranking import Constraint, Workload, plan
from trimtab.ranking.contenders import Contenders
from trimtab.ranking.plan import Policy
from trimtab.ranking.rankers import SpreadConstraintsRanker
from trimtab.ranking.victims import order_contenders, replicaset_order
from trimtab.scaledown.sources.scores import NodeScores
from trimtab.snapshot import Snapshot

PODS = 10_000
RECOMPUTED, REMOVED = 1_000, 100
PODS_A_NODE = 5
ZONES = 3
DAYS = 3
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def order_replicaset_10k() -> Figure:
    """10,000 pods of a ReplicaSet, from the snapshot's columns."""
    return _replicaset(PODS, Limit(1), repeat=5)


def order_replicaset_100k() -> Figure:
    """Ten times as many."""
    return _replicaset(10 * PODS, Limit(15 * order_replicaset_10k().ratio, "15 × order-replicaset-10k"), repeat=1)


def order_cloneset_10k() -> Figure:
    """10,000 pods of a CloneSet that is spread over zones and hosts, ranks included."""
    view = crowd(PODS)
    rows = np.arange(PODS)
    ranker = SpreadConstraintsRanker((Constraint(ZONE), Constraint(HOSTNAME)))

    def work() -> None:
        contenders = Contenders(view.pods, rows)
        order_contenders(contenders, ranker.ranks(contenders, view.nodes), view.pods.ready[rows])

    return against_calibration(work, limit=Limit(2), repeat=5)


def plan_10k() -> Figure:
    """The plan for 6,000 of 10,000 pods over zones and hosts, with the reason for every victim."""
    view = crowd(PODS)
    workload = Workload.of_all(view, constraints=[Constraint(ZONE), Constraint(HOSTNAME)])
    return against_calibration(lambda: plan(workload, view, replicas=6_000, now=to_ns(NOW)), limit=Limit(10))


def recomputed_1k() -> Figure:
    """100 of 1,000 pods by `Scheduled`, whose ranks are computed again after each removal, by the default profile and
    its default constraints: a Service selects the pods."""
    view = crowd(RECOMPUTED)
    metadata = ObjectMeta(name="web", namespace="default")
    view.put(Service(metadata=metadata, spec=ServiceSpec(selector={"app": "web"})))
    workload = Workload.of_all(view, constraints=[Constraint(ZONE), Constraint(HOSTNAME)])
    profile = default_profile()
    policy = replace(Policy.of([StrategySpec(name="Scheduled")]), scores=NodeScores(lambda _: profile))

    def work() -> None:
        plan(workload, view, policy, replicas=RECOMPUTED - REMOVED, now=to_ns(NOW))

    return against_calibration(work, limit=Limit(100), turns=3)


def _replicaset(size: int, limit: Limit, *, repeat: int) -> Figure:
    view = crowd(size)
    rows, now = np.arange(size), to_ns(NOW)
    return against_calibration(lambda: replicaset_order(view.pods, rows, rows, now), limit=limit, repeat=repeat)


def crowd(size: int) -> Snapshot:
    """Pods of one workload on a fifth as many nodes in three zones, ready at some time of the last days; one in twenty
    has a deletion cost, one in ten was restarted, one in fifty is not ready and one in a hundred has no node."""
    rng = random.Random(size)
    view = Snapshot()
    hosts = [f"node-{number:05d}" for number in range(size // PODS_A_NODE)]
    for number, name in enumerate(hosts):
        labels = {HOSTNAME: name, ZONE: f"zone-{number % ZONES}"}
        view.put(Node(metadata=ObjectMeta(name=name, labels=labels)))
    for number in range(size):
        view.put(_pod(rng, number, rng.choice(hosts)))
    return view


def _pod(rng: random.Random, number: int, host: str) -> Pod:
    created = NOW - timedelta(seconds=rng.randrange(60, DAYS * 86_400))
    assigned = rng.random() > 0.01
    cost = {DELETION_COST: str(rng.randrange(-100, 100))} if rng.random() < 0.05 else {}
    restarts = rng.randrange(1, 6) if rng.random() < 0.1 else 0
    ready = PodCondition(
        type="Ready",
        status="True" if assigned and rng.random() > 0.02 else "False",
        last_transition_time=created + timedelta(seconds=rng.randrange(2, 40)),
    )
    return Pod(
        metadata=ObjectMeta(
            name=f"web-{number:06d}",
            namespace="default",
            uid=_uid(rng),
            creation_timestamp=created,
            labels={"app": "web"},
            annotations=cost,
        ),
        spec=PodSpec(node_name=host if assigned else ""),
        status=PodStatus(
            phase="Running" if assigned else "Pending",
            conditions=(ready,),
            container_statuses=(ContainerStatus(name="main", restart_count=restarts),),
        ),
    )


def _uid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
