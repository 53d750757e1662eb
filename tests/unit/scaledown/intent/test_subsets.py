"""Scale-downs of workloads with subsets: in the order of the subsets, with or without a policy, whatever its mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from tests.unit.scaledown.policy_cluster import POLICIES, target
from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api.annotations import OPT_OUT, OPTED_OUT
from trimtab.api.apps import Deployment
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.scaledown.policy.defaults import LEVEL_EVERYONE, NO_DEFAULTS, DefaultPolicy, Defaults

OBSERVING = Defaults(policies=(DefaultPolicy("everyone", ScaleDownPolicySpec(mode="Observe")),))


class SubsetCluster(ScaleCluster):
    """A cluster in which pods on the nodes of the zones a and b are in the first subset, the rest in the second.

    That is not known before pods are matched.
    """

    def __init__(self, defaults: Defaults) -> None:
        super().__init__(defaults=defaults, tiers=self._tiers_of, match_pods=self._match_pods)
        self._matched: set[tuple[str, str, str]] = set()
        self.can_match = True

    def _tiers_of(self, kind: str, namespace: str, name: str, replicas: int) -> Mapping[str, int] | None:
        del replicas
        if name == "web" and (kind, namespace, name) not in self._matched:
            return {}
        pods = {pod.key: pod for pod in self.view.pods.store}
        return {key: int(pod.spec.node_name[0] in "ab") for key, pod in pods.items()} if name == "web" else None

    async def _match_pods(self, kind: str, namespace: str, name: str) -> None:
        if self.can_match:
            self._matched.add((kind, namespace, name))

    async def by_zone(self) -> dict[str, int]:
        """How many pods each zone has."""
        return dict(Counter(pod.spec.node_name[0] for pod in await self.pods()))


async def _cluster(defaults: Defaults) -> SubsetCluster:
    """Four pods on own nodes in two zones, and four on rented ones that came later, in two other zones."""
    made = SubsetCluster(defaults)
    await made.start()
    await made.add_zones(c=2, d=2)
    await made.deploy(4)
    await made.add_zones(a=2, b=2)
    await made.grow(8, "a-0", "b-0", "a-1", "b-1")
    return made


@pytest_asyncio.fixture(params=[NO_DEFAULTS, OBSERVING, LEVEL_EVERYONE], ids=["no policy", "Observe", "Enforce"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[SubsetCluster]:
    """The older pods are on rented nodes: the controller by itself deletes the younger ones on own nodes."""
    made = await _cluster(request.param)
    yield made
    await made.close()


async def test_the_last_subset_is_emptied_first(cluster: SubsetCluster) -> None:
    """Zones would be level with one pod each."""
    await cluster.scale(4)
    assert await cluster.by_zone() == {"a": 2, "b": 2}
    assert ("kept subsets in order: 4 of 4 pods go from those that are emptied first",) in cluster.answers


async def test_inside_a_subset_zones_stay_level(cluster: SubsetCluster) -> None:
    """Two of the four on rented nodes stay: one in each of their zones. And of own nodes, after them."""
    await cluster.scale(6)
    assert await cluster.by_zone() == {"a": 2, "b": 2, "c": 1, "d": 1}
    await cluster.clock.advance(30)
    await cluster.scale(2)
    assert await cluster.by_zone() == {"a": 1, "b": 1}


async def test_nothing_is_planned_while_the_order_of_subsets_is_unknown(
    cluster: SubsetCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A plan without it would be wrong; the request is admitted, and it is reported that nothing was planned."""
    cluster.can_match = False
    await cluster.scale(4)
    assert sum((await cluster.by_zone()).values()) == 4
    assert await cluster.costs() == []
    assert "did not plan this scale-down: Trimtab's caches are not up to date yet" in caplog.text


async def test_costs_are_written_on_the_scale_down_only(cluster: SubsetCluster) -> None:
    """BestEffort has no standing costs: none before, and none afterwards."""
    assert await cluster.costs() == []
    await cluster.scale(5)
    await cluster.clock.advance(30)
    await cluster.settle()
    assert await cluster.costs() == []
    assert await cluster.by_zone() in ({"a": 2, "b": 2, "c": 1}, {"a": 2, "b": 2, "d": 1})


async def test_a_workload_that_opts_out_is_left_alone() -> None:
    """The exemption is for all that Trimtab does when a workload shrinks."""
    made = await _cluster(NO_DEFAULTS)
    await made.patch(Deployment, "web", {"metadata": {"annotations": {OPT_OUT: OPTED_OUT}}})
    await made.scale(4)
    assert made.answers[-1] == ()
    assert await made.costs() == []
    await made.close()


async def test_a_workload_without_subsets_needs_a_policy() -> None:
    """As before."""
    made = SubsetCluster(NO_DEFAULTS)
    await made.start()
    await made.add_zones(a=2)
    await made.deploy(4, "other")
    await made.scale(2, "other")
    assert made.count("requests_total", outcome="no-policy") == 1
    await made.close()


async def test_a_policy_that_observes_is_not_in_the_way() -> None:
    """One of the workload's own: its strategies are not applied, its subsets are."""
    made = await _cluster(NO_DEFAULTS)
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy"}
    body = {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": target(), "mode": "Observe"}}
    await made.user.create(POLICIES, body, namespace="default")
    await made.settle()
    await made.scale(4)
    assert await made.by_zone() == {"a": 2, "b": 2}
    await made.close()
