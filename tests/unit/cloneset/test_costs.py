"""The cost proposal's test plan and workflow example, against the lab's API server in virtual time.

Twelve pods on three zones of two nodes each: P1 to P4 in AZ1, P5 to P8 in AZ2, P9 to P12 in AZ3; the first of each zone
has rank 1, the second 2, and so on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.unit.cloneset.clusters import CloneSetCluster, manifest
from tests.unit.cloneset.test_controller import condition, is_deletion
from trimtab.api import codec
from trimtab.api.annotations import ALPHA_COST, DELETION_COST, RANKED_AMONG, fingerprint
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.cloneset.settings import Settings
from trimtab.kube.transport import Request
from trimtab.ranking.costs import Carrier
from trimtab.scaledown.pod_costs import PolicyCost, apply_policy_patch
from trimtab_lab.apiserver.kinds.errors import StatusError, status_error

ZONES = {"AZ1": ("a1", "a2"), "AZ2": ("b1", "b2"), "AZ3": ("c1", "c2")}
PODS = tuple(f"p{number}" for number in range(1, 13))
ORIGINAL = ("p12", "p11", "p8", "p7", "p4", "p3")
"""The order without ranks: of the two pods on each node the younger one, the youngest first."""
RANKS = {name: number % 4 + 1 for number, name in enumerate(PODS)}


def zone_of(name: str) -> str:
    """The zone of a pod."""
    return list(ZONES)[PODS.index(name) // 4]


def skew(names: set[str]) -> int:
    """By how many pods the fullest zone exceeds the emptiest."""
    sizes = [sum(zone_of(name) == zone for name in names) for zone in ZONES]
    return max(sizes) - min(sizes)


def policy(carrier: str = "AlphaAnnotation", strategy: str = "Balance", **when: object) -> ScaleDownPolicySpec:
    """A policy that promises ranks."""
    tree = {"carrier": carrier, "strategies": [{"name": strategy}], "whenUnranked": when}
    return codec.convert(tree, ScaleDownPolicySpec)


async def annotate(world: CloneSetCluster, ranks: dict[str, int], **more: str) -> None:
    """Write ranks into pods, one by one, as a ranking component does."""
    for name, rank in ranks.items():
        patch = {"metadata": {"annotations": {ALPHA_COST: str(rank), **more}}}
        await world.user.patch(Pod, name, patch, namespace="default")
    await world.settle()


async def twelve(world: CloneSetCluster) -> None:
    """The example's pods. The oldest would be the last without ranks."""
    for zone, nodes in ZONES.items():
        await world.add_nodes(*nodes, zone=zone)
    for number, name in enumerate(PODS):
        node = ZONES[zone_of(name)][number % 2]
        await world.place(name, node, since=f"2025-12-31T23:{number:02d}:00Z")
    await world.create(CloneSet, manifest(12, updateStrategy={"paused": True, "maxUnavailable": "100%"}))
    assert (await world.cloneset()).status.available_replicas == 12


@pytest_asyncio.fixture
async def world() -> AsyncIterator[CloneSetCluster]:
    """The example's cluster, with the feature gate on."""
    cluster = CloneSetCluster(Settings(pod_cost=True))
    await cluster.start()
    await twelve(cluster)
    yield cluster
    await cluster.close()


@pytest.mark.parametrize("carrier", ["AlphaAnnotation", "PodGroupCost"])
async def test_the_workflow_example(world: CloneSetCluster, carrier: str) -> None:
    """One of P4, P8, P12 goes, then another of them, without any rank being written anew: the skew stays at 1."""
    world.policies["web"] = policy(carrier)
    await (annotate(world, RANKS) if carrier == "AlphaAnnotation" else world.cost(RANKS))
    await world.resize(11)
    (first,) = set(PODS) - await world.names()
    assert first in {"p4", "p8", "p12"}
    assert skew(await world.names()) == 1
    await world.resize(10)
    (second,) = set(PODS) - await world.names() - {first}
    assert second in {"p4", "p8", "p12"}
    assert skew(await world.names()) == 1


async def test_scaling_down_respects_ranks(world: CloneSetCluster) -> None:
    """First item of the plan: from twelve to one, every pod that goes has the highest rank of those that are there."""
    ranks = {name: (number * 7) % 12 for number, name in enumerate(PODS)}
    await annotate(world, ranks)
    gone = []
    for size in range(11, 0, -1):
        before = await world.names()
        await world.resize(size)
        gone += sorted(before - await world.names())
    assert gone == sorted(PODS, key=lambda name: -ranks[name])[:11]


async def test_a_rival_of_the_policys_object_is_not_obeyed(world: CloneSetCluster) -> None:
    """Reversed costs under a name that comes first: the policy's own decide."""
    world.policies["web"] = policy("PodGroupCost")
    ranks = {name: number for number, name in enumerate(PODS)}
    await world.cost(ranks)
    await world.cost({name: -rank for name, rank in ranks.items()}, name="aaa")
    await world.resize(10)
    assert await world.names() == set(PODS[:10])


async def test_a_rival_does_not_stand_in_for_the_policys_object(world: CloneSetCluster) -> None:
    """The scale-down waits for the policy's, and then uses the original order."""
    world.policies["web"] = policy("PodGroupCost", timeoutSeconds=20)
    await world.cost({name: number for number, name in enumerate(PODS)}, name="aaa")
    await world.resize(10)
    assert await world.names() == set(PODS)
    await world.advance(25)
    assert await world.names() == set(PODS) - set(ORIGINAL[:2])


async def test_of_two_external_objects_none_counts(world: CloneSetCluster) -> None:
    """They are named in an event, and the original order decides; when one is left, it counts."""
    ranks = {name: number for number, name in enumerate(PODS)}
    await world.cost({name: -rank for name, rank in ranks.items()}, name="aaa")
    await world.cost(ranks, name="bbb")
    await world.resize(11)
    assert await world.names() == set(PODS) - set(ORIGINAL[:1])
    (message,) = await world.event_messages("RanksIgnored")
    assert message.endswith("none of PodGroupCosts aaa, bbb counts")
    await world.user.delete(PodGroupCost, "bbb", namespace="default")
    await world.resize(10)
    assert "p1" not in await world.names()


async def test_several_go_at_once_by_rank(world: CloneSetCluster) -> None:
    """Nothing is to be recomputed, so the seven of the highest ranks go together."""
    ranks = {name: (number * 5) % 12 for number, name in enumerate(PODS)}
    await world.cost(ranks)
    await world.resize(5)
    assert await world.names() == set(sorted(PODS, key=lambda name: ranks[name])[:5])


async def test_one_unranked_is_waited_for_and_then_ranks_are_ignored(world: CloneSetCluster) -> None:
    """Second item: nothing goes for the policy's timeout; then the original order decides, and an event says so."""
    world.policies["web"] = policy(timeoutSeconds=20)
    wrong = {name: 12 - number for number, name in enumerate(PODS[:11])}
    await annotate(world, wrong)
    await world.resize(9)
    assert len(await world.pods()) == 12
    waiting = await condition(world, "WaitingForRanks")
    assert waiting is not None
    assert "p12" in waiting.message
    await world.advance(19)
    assert len(await world.pods()) == 12
    await world.advance(2)
    assert await world.names() == set(PODS) - set(ORIGINAL[:3])
    (message,) = await world.event_messages("RanksIgnored")
    assert message == "Scaled down in the original order: 1 of 12 pods have no rank: p12 after 20 s"
    assert await condition(world, "WaitingForRanks") is None
    assert (await world.cloneset()).status.rank_wait is None


async def test_the_missing_rank_comes_in_time(world: CloneSetCluster) -> None:
    """The scale-down goes on at once, by rank."""
    world.policies["web"] = policy(timeoutSeconds=20)
    ranks = {name: 12 - number for number, name in enumerate(PODS)}
    await annotate(world, {name: rank for name, rank in ranks.items() if name != "p5"})
    await world.resize(10)
    await world.advance(10)
    assert len(await world.pods()) == 12
    await annotate(world, {"p5": ranks["p5"]})
    assert await world.names() == set(PODS[2:])
    assert await world.event_messages("RanksIgnored") == []


async def test_a_wait_survives_a_crash(world: CloneSetCluster) -> None:
    """It began when it began: a new process neither waits anew nor gives up at once."""
    world.policies["web"] = policy(timeoutSeconds=20)
    await world.resize(9)
    await world.advance(12)
    await world.kill()
    await world.start()
    await world.advance(6)
    assert len(await world.pods()) == 12
    await world.advance(3)
    assert len(await world.pods()) == 9


async def test_a_wait_continues_while_specified_pods_are_deleted(world: CloneSetCluster) -> None:
    """They ask for no rank; the surplus that does goes when its own time is up. The condition stays."""
    world.policies["web"] = policy(timeoutSeconds=20)
    await world.resize(8)
    await world.advance(15)
    before = await condition(world, "WaitingForRanks")
    world.wire.hold("pods")
    await world.patch(CloneSet, "web", {"spec": {"scaleStrategy": {"podsToDelete": ["p1"]}}})
    assert await world.names() == set(PODS) - {"p1"}
    assert await condition(world, "WaitingForRanks") == before
    world.wire.resume()
    await world.advance(6)
    assert len(await world.pods()) == 8


async def test_a_wait_that_is_over_does_not_begin_anew(world: CloneSetCluster) -> None:
    """One of those that go in the original order is refused: the next attempt does not wait for ranks again."""
    world.policies["web"] = policy(timeoutSeconds=20)
    attempts: list[Request] = []

    def once(request: Request) -> StatusError | None:
        if not is_deletion(request):
            return None
        attempts.append(request)
        return status_error(403, "not now") if len(attempts) == 1 else None

    world.wire.refuse = once
    await world.resize(9)
    await world.advance(22)
    assert len(await world.pods()) == 9
    assert (await world.cloneset()).status.rank_wait is None


async def test_falling_back_at_once(world: CloneSetCluster) -> None:
    """If the policy says so, or there is none."""
    world.policies["web"] = policy(action="Fallback")
    await world.resize(9)
    assert await world.names() == set(PODS) - set(ORIGINAL[:3])
    del world.policies["web"]
    await annotate(world, {"p1": 5})
    await world.resize(8)
    assert await world.names() == set(PODS) - set(ORIGINAL[:4])
    assert len(await world.event_messages("RanksIgnored")) == 2


async def test_without_ranks_and_policy_the_original_order_is_used(world: CloneSetCluster) -> None:
    """The gate alone changes nothing, and says nothing."""
    await world.resize(9)
    assert await world.names() == set(PODS) - set(ORIGINAL[:3])
    assert await world.event_messages("RanksIgnored") == []


async def test_ranks_are_ignored_with_the_gate_off() -> None:
    """Alpha: disabled by default."""
    world = CloneSetCluster()
    await world.start()
    await twelve(world)
    world.policies["web"] = policy(timeoutSeconds=20)
    await annotate(world, {name: 12 - number for number, name in enumerate(PODS)})
    await world.resize(9)
    assert await world.names() == set(PODS) - set(ORIGINAL[:3])
    await world.close()


async def test_deletion_costs_are_the_orders_own(world: CloneSetCluster) -> None:
    """A policy that writes pod-deletion-cost is not waited for: no cost counts as 0, and the lower goes first."""
    world.policies["web"] = policy("Annotation")
    patch = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
    await world.patch(Pod, "p3", patch)
    await world.resize(10)
    assert await world.names() == set(PODS) - {"p3", "p12"}


async def test_after_the_timeout_costs_that_are_still_there_do_not_count(world: CloneSetCluster) -> None:
    """Those of a policy whose controller has stopped; those of another writer stay part of the original order."""
    when = {"action": "Wait", "timeoutSeconds": 20}
    tree = {"delivery": "Continuous", "strategies": [{"name": "Balance"}], "whenUnranked": when}
    world.policies["web"] = codec.convert(tree, ScaleDownPolicySpec)
    for pod in await world.pods():
        if pod.metadata.name in {"p2", "p5", "p6"}:
            patch = apply_policy_patch(PolicyCost(pod, "ScaleDownPolicy default/web", Carrier.ANNOTATION, -5))
            assert patch is not None
            await world.patch(Pod, pod.metadata.name, patch)
    await world.patch(Pod, "p1", {"metadata": {"annotations": {DELETION_COST: "-1"}}})
    await world.resize(9)
    assert len(await world.names()) == 12
    await world.advance(22)
    assert await world.names() == set(PODS) - {"p1", *ORIGINAL[:2]}


class Ranker:
    """A ranking component whose strategy is recomputed after each removal: the next in turn ranks highest."""

    def __init__(self, world: CloneSetCluster) -> None:
        self.world = world

    async def rank(self) -> str:
        """Rank the existing pods; the next victim."""
        names = sorted(await self.world.names())
        turn = names[sum(map(ord, "".join(names))) % len(names)]
        await self.world.cost({name: int(name == turn) for name in names})
        return turn


async def test_recomputed_ranks_let_one_go_at_a_time(world: CloneSetCluster) -> None:
    """Third item: not by two, and not by one either until the ranks are those of the pods that are left."""
    world.policies["web"] = policy("PodGroupCost", "AntiAffinity", timeoutSeconds=3600)
    ranker = Ranker(world)
    turn = await ranker.rank()
    await world.resize(8)
    for left in range(11, 7, -1):
        before = await world.names()
        assert len(before) == left, "one goes, although more are too many"
        assert turn not in before
        await world.advance(60)
        assert await world.names() == before, "none goes until the ranks are recomputed"
        turn = await ranker.rank()
    await world.advance(60)
    assert len(await world.names()) == 8
    assert await world.event_messages("RanksIgnored") == []


async def test_quick_successive_requests_are_served_in_order(world: CloneSetCluster) -> None:
    """Three requests before anything is recomputed: one pod goes for the first, the next ones wait their turn."""
    world.policies["web"] = policy("PodGroupCost", "AntiAffinity", timeoutSeconds=3600)
    ranker = Ranker(world)
    turns = [await ranker.rank()]
    for size in (11, 10, 9):
        await world.user.resize(CloneSet, "web", size, namespace="default")
    await world.settle()
    gone = set(PODS) - await world.names()
    assert gone == set(turns)
    for _ in range(2):
        turns.append(await ranker.rank())
        await world.settle()
        gone = set(PODS) - await world.names()
        assert gone == set(turns)
    await ranker.rank()
    assert len(await world.pods()) == 9, "as many as the last request asks for"


async def test_a_larger_size_in_between_takes_no_more(world: CloneSetCluster) -> None:
    """The requests are levels: what is not needed any more is not done."""
    world.policies["web"] = policy("PodGroupCost", "AntiAffinity", timeoutSeconds=3600)
    ranker = Ranker(world)
    await ranker.rank()
    await world.resize(8)
    await world.resize(11)
    await ranker.rank()
    await world.advance(60)
    assert len(await world.pods()) == 11
    assert (await world.cloneset()).status.rank_wait is None


async def test_a_ranking_component_that_stopped(world: CloneSetCluster) -> None:
    """Each removal begins a wait of its own; when that is over, the original order ends the scale-down."""
    world.policies["web"] = policy("PodGroupCost", "AntiAffinity", timeoutSeconds=30)
    ranker = Ranker(world)
    await ranker.rank()
    await world.resize(9)
    await world.advance(25)
    assert len(await world.pods()) == 11
    await ranker.rank()
    assert len(await world.pods()) == 10
    await world.advance(25)
    assert len(await world.pods()) == 10, "the wait began with the last removal"
    await world.advance(10)
    assert len(await world.pods()) == 9
    (message,) = await world.event_messages("RanksIgnored")
    assert "have not been recomputed since the last removal after 30 s" in message


async def test_recomputation_is_seen_in_annotations_too(world: CloneSetCluster) -> None:
    """Pods name those that they were ranked among."""
    world.policies["web"] = policy("AlphaAnnotation", "AntiAffinity", timeoutSeconds=3600)
    ranks = {name: number for number, name in enumerate(PODS)}
    await annotate(world, ranks, **{RANKED_AMONG: fingerprint(PODS)})
    await world.resize(10)
    assert await world.names() == set(PODS[:11])
    left = PODS[:11]
    await annotate(world, {name: -number for number, name in enumerate(left)}, **{RANKED_AMONG: fingerprint(left)})
    assert await world.names() == set(left) - {"p1"}


async def test_a_recomputing_controller_that_was_killed_takes_no_second_pod(world: CloneSetCluster) -> None:
    """Whether ranks hold is seen from the ranks, not remembered."""
    world.policies["web"] = policy("PodGroupCost", "AntiAffinity", timeoutSeconds=3600)
    ranker = Ranker(world)
    await ranker.rank()
    await world.resize(9)
    assert len(await world.pods()) == 11
    await world.kill()
    await world.start()
    await world.advance(60)
    assert len(await world.pods()) == 11
    await ranker.rank()
    assert len(await world.pods()) == 10


async def test_an_invalid_policy_is_ignored(world: CloneSetCluster) -> None:
    """It says itself what is wrong with it; the scale-down goes on."""
    world.policies["web"] = policy("PodGroupCost", "NoSuchStrategy")
    await world.resize(9)
    assert await world.names() == set(PODS) - set(ORIGINAL[:3])
