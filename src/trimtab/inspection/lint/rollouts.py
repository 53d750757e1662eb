"""The rule about rollouts that cannot begin: found by placing the pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from trimtab.api import percent
from trimtab.api.apps import Deployment, DeploymentStrategy
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.inspection.lint.findings import Problem
from trimtab.inspection.lint.spreading import HARD, TEMPLATE_HASH
from trimtab.inspection.lint.world import TemplatedWorkload, World
from trimtab.placement.engine import place_many
from trimtab.placement.profiles import Profile, default_profile
from trimtab.snapshot import Snapshot

_MOST = 500
"""Larger Deployments are not tried: their surge is many pods, and a rollout that needs one of them to fit finds one."""
_QUARTER = "25%"


def deadlocked_surges(world: World) -> Iterator[Problem]:
    """Deployments whose new pods fit nowhere while all old ones are there, and may not go before new ones are ready."""
    if not world.has_nodes:
        return
    profile = default_profile()
    for workload in world.workloads:
        unavailable, surge = allowances(workload)
        if unavailable or not 0 < workload.replicas <= _MOST or not _is_constrained(workload):
            continue
        snapshot = _without(world, workload)
        try:
            is_stuck = _is_stuck(workload, snapshot, profile)
        except InvalidError:
            continue
        if is_stuck:
            yield Problem(
                workload.ref,
                f"a rollout cannot begin: maxUnavailable is 0, and with {workload.replicas} old pods in place none of "
                f"{surge} new ones fits its hard constraints on the {len(snapshot.nodes)} nodes there are",
            )


def allowances(workload: TemplatedWorkload) -> tuple[int, int]:
    """How many pods may be unavailable, and how many more there may be, during a rollout; (1, 0) without one."""
    strategy = workload.strategy
    if strategy is None or (strategy.type or "RollingUpdate") != "RollingUpdate":
        return 1, 0
    unavailable, surge = _written(strategy)
    try:
        down = percent.scaled(unavailable, workload.replicas, round_up=False)
        up = percent.scaled(surge, workload.replicas, round_up=True)
    except InvalidError:
        return 1, 0
    return (1, 0) if down == up == 0 else (down, up)


def _written(strategy: DeploymentStrategy) -> tuple[int | str, int | str]:
    rolling = strategy.rolling_update
    if rolling is None:
        return _QUARTER, _QUARTER
    unavailable = _QUARTER if rolling.max_unavailable is None else rolling.max_unavailable
    return unavailable, _QUARTER if rolling.max_surge is None else rolling.max_surge


def _is_constrained(workload: TemplatedWorkload) -> bool:
    spec = workload.template.spec
    apart = spec.affinity.pod_anti_affinity if spec.affinity else None
    is_spread = any(each.when_unsatisfiable == HARD for each in spec.topology_spread_constraints)
    return is_spread or bool(apart and apart.required_during_scheduling_ignored_during_execution)


def _without(world: World, workload: TemplatedWorkload) -> Snapshot:
    """The cluster without the workload's own pods."""
    snapshot = world.cluster.snapshot.copy()
    for pod in _own_pods(world, workload):
        snapshot.drop(Pod, pod.metadata.namespace, pod.metadata.name)
    return snapshot


def _own_pods(world: World, workload: TemplatedWorkload) -> Iterator[Pod]:
    deployment = world.cluster.find(Deployment, workload.ref.namespace, workload.ref.name)
    if deployment is not None:
        for each in world.cluster.sets_of(deployment):
            yield from world.cluster.pods_of(each.metadata.uid)


def _is_stuck(workload: TemplatedWorkload, snapshot: Snapshot, profile: Profile) -> bool:
    """Whether all old pods fit, no new one does, and without hard constraints one would."""
    old = [workload.pod(f"old-{number}", **{TEMPLATE_HASH: "old"}) for number in range(workload.replicas)]
    new = workload.pod("new", **{TEMPLATE_HASH: "new"})
    placed = _placed([*old, new], snapshot, profile)
    if not all(placed[:-1]) or placed[-1]:
        return False
    return _placed([_unconstrained(pod) for pod in (*old, new)], snapshot, profile)[-1]


def _placed(pods: Sequence[Pod], snapshot: Snapshot, profile: Profile) -> list[bool]:
    rng = Random(0)  # noqa: S311 - breaks ties, the same way each time
    return [each.placed for each in place_many(pods, snapshot, profile, rng)]


def _unconstrained(pod: Pod) -> Pod:
    soft = tuple(each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable != HARD)
    affinity = pod.spec.affinity and msgspec.structs.replace(pod.spec.affinity, pod_anti_affinity=None)
    spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=soft, affinity=affinity)
    return msgspec.structs.replace(pod, spec=spec)
