"""Workloads and UnitedTopologies at a glance: by the functions that plans and the controller are made with."""

from __future__ import annotations

from typing import Any

from tests.unit.inspection.clusters import HARD, SOFT, ZONE, three_zones
from trimtab.api import codec
from trimtab.api.annotations import SUBSET, TOPOLOGY
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.inspection.cluster import Cluster
from trimtab.inspection.explanations import explain_pod
from trimtab.inspection.overviews import TopologyOverview, topology_members, topology_overview, workload_overview
from trimtab.inspection.plans import plan_workload
from trimtab.inspection.settings import Settings
from trimtab.inspection.targets import find_pod, find_workload

SETTINGS = Settings()
ON = ["a1", "a1", "a2", "b1", "b2", "c1"]


def topology(**changes: Any) -> UnitedTopology:
    """Two subsets of the Deployment web: at most two pods, then any number."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    subsets = [{"name": "own", "minReplicas": 1, "maxReplicas": 2}, {"name": "spot"}]
    tree = {
        "metadata": {"name": "pools", "namespace": "default", "uid": "pools"},
        "spec": {"targetRef": target, "subsets": subsets},
        **changes,
    }
    return codec.convert(tree, UnitedTopology)


def allocated(*subsets: str) -> Cluster:
    """A Deployment whose pods are in these subsets."""
    annotations = {at: {TOPOLOGY: "pools", SUBSET: name} for at, name in enumerate(subsets)}
    return three_zones().deployment("web", ON[: len(subsets)], annotations=annotations).build()


def overview(cluster: Cluster, of: UnitedTopology) -> TopologyOverview:
    """A UnitedTopology at a glance, in one go."""
    members = [member for part in topology_members(lambda: cluster, of) for member in part]
    return topology_overview(cluster, of, members)


def test_levels_are_those_that_a_plan_starts_from() -> None:
    """Skew and pods by domain are what `trimtab plan` shows as before."""
    for constraint in (HARD, SOFT):
        cluster = three_zones().deployment("web", ON, constraints=[constraint]).build()
        workload = find_workload(cluster, "deploy/web", "default")
        seen = workload_overview(cluster, workload, SETTINGS)
        (planned,) = plan_workload(cluster, workload, 3, SETTINGS).controllers[0].constraints
        (found,) = seen.constraints
        assert (found.topology_key, found.hard, found.max_skew) == (ZONE, planned.hard, planned.max_skew)
        assert (found.domains, found.pods, found.skew) == (planned.domains, planned.before, planned.skew_before)
        assert (seen.replicas, seen.pods, seen.ready, seen.rolling_out) == (6, 6, 6, False)
        assert seen.policy == plan_workload(cluster, workload, 3, SETTINGS).policy


def test_default_constraints_count_where_a_template_has_none() -> None:
    """Zones and nodes, as for plans."""
    cluster = three_zones().deployment("web", ON).build()
    seen = workload_overview(cluster, find_workload(cluster, "deploy/web", "default"), SETTINGS)
    assert [each.topology_key for each in seen.constraints] == [ZONE, "kubernetes.io/hostname"]


def test_a_workload_without_pods_has_an_overview() -> None:
    """It is level, whatever its constraints."""
    cluster = three_zones().deployment("web", []).build()
    seen = workload_overview(cluster, find_workload(cluster, "deploy/web", "default"), SETTINGS)
    assert (seen.pods, [each.skew for each in seen.constraints]) == (0, [0, 0])


def test_subsets_have_their_pods_limits_and_levels() -> None:
    """Pods above a maximum are Redundant; those without one BestEffort."""
    status = {
        "subsetStatuses": [{"name": "own"}, {"name": "spot", "creating": {"x": "2026-03-01T12:00:00Z"}}],
        "shortages": [{"name": "spot", "until": "2026-03-01T12:05:00Z", "times": 1}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "Counted"}],
    }
    seen = overview(allocated("own", "own", "own", "spot", "spot"), topology(status=status))
    own, spot = seen.subsets
    assert (own.pods, own.minimum, own.limit, own.levels) == (3, 1, 2, {"Guaranteed": 2, "Redundant": 1})
    assert (spot.pods, spot.minimum, spot.limit, spot.levels) == (2, 0, None, {"BestEffort": 2})
    assert (own.reserved, spot.reserved) == (0, 1)
    assert (own.skipped_until, spot.skipped_until) == ("", "2026-03-01T12:05:00Z")
    assert (seen.replicas, seen.target, seen.ready, seen.outside) == (5, "Deployment/web", "True: Counted", 0)


def test_a_topology_without_its_workload_is_shown() -> None:
    """With no size, and empty subsets."""
    seen = overview(three_zones().build(), topology())
    assert (seen.replicas, [subset.pods for subset in seen.subsets]) == (None, [0, 0])


def test_a_pod_is_explained_in_a_sentence() -> None:
    """Where it is, when it goes and why; without an order, why there is none."""
    cluster = three_zones().deployment("web", ON, constraints=[SOFT]).build()
    found = explain_pod(cluster, find_pod(cluster, "web-1-00", "default"), SETTINGS)
    assert found.order is not None
    assert found.sentence() == (
        f"web-1-00 on a1 (z1) goes {found.order.position} of 6: {found.order.goes_before_because}; "
        f"by the controller alone, {found.order.stock_position}"
    )
    alone = three_zones().replicaset("one", ["a1"]).build()
    only = explain_pod(alone, find_pod(alone, "one-00", "default"), SETTINGS)
    assert only.sentence() == "one-00 on a1 (z1) goes 1 of 1: all pods go; by the controller alone, 1"
