"""CloneSets over the wire: the proposal's example and stories, and the cost proposal's workflow and test plan.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.e2e.processes import CONTROLLERS, Trimtab, configuration, running
from tests.lab.clonesets import CloneSetSandbox, cloneset_sandbox, template
from trimtab.api.cloneset import SPECIFIED_DELETE
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.errors import Invalid
from trimtab.kube.sessions import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

HELD: dict[str, Any] = {
    "updateStrategy": {"paused": True, "maxUnavailable": "100%"},
    "scaleStrategy": {"maxUnavailable": 0},
}
"""The pods of examples are created by the test and adopted. No others are created, and none is replaced for being of no
revision of the CloneSet's own."""
YOUNGEST_FIRST = ["c-2", "d-1", "e-1", "a-1", "c-1", "d-0", "e-0", "a-0", "b-0", "c-0"]
"""The proposal's pods (a letter is a node), with ages that give the two inner orders which it prints."""

AZS = {"az-1": "a1 a2", "az-2": "b1 b2", "az-3": "c1 c2"}
TWELVE = tuple(f"p{number}" for number in range(1, 13))
RANKS = {name: number % 4 + 1 for number, name in enumerate(TWELVE)}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


@asynccontextmanager
async def running_clonesets(client: Client) -> AsyncIterator[tuple[CloneSetSandbox, Trimtab]]:
    """A namespace whose CloneSets a process of Trimtab reconciles.

    Tests of settings that no configuration has, and those that write ranks themselves, have a controller of their own.
    """
    async with (
        cloneset_sandbox(client, manager="trimtab") as made,
        running(client, configuration(made.name), [CONTROLLERS]) as trimtab,
    ):
        yield made, trimtab


async def example(made: CloneSetSandbox, **spec: Any) -> None:
    """The cluster of the topology proposal's example."""
    await made.nodes({"x": "a b c", "y": "d e"})
    await made.create(10, **HELD, **spec)
    for age, name in enumerate(YOUNGEST_FIRST):
        await made.place(name, name[0], since=f"2026-01-01T00:{30 - age:02d}:00Z")
    await made.reported(lambda cloneset: cloneset.status.available_replicas == 10)


async def twelve(made: CloneSetSandbox) -> None:
    """The cluster of the cost proposal's example: P1 to P4 in the first zone, and so on."""
    await made.nodes(AZS)
    await made.create(12, **HELD)
    nodes = [name for names in AZS.values() for name in names.split()]
    for number, name in enumerate(TWELVE):
        await made.place(name, nodes[number // 4 * 2 + number % 2], since=f"2026-01-01T00:{number:02d}:00Z")
    await made.reported(lambda cloneset: cloneset.status.available_replicas == 12)


def skew(names: set[str]) -> int:
    """By how many pods the fullest of the three zones exceeds the emptiest."""
    zones = [TWELVE.index(name) // 4 for name in names]
    sizes = [zones.count(zone) for zone in range(3)]
    return max(sizes) - min(sizes)


# The topology proposal.


async def test_the_example_goes_in_the_printed_inner_orders(client: Client) -> None:
    """Scaled down one by one: c-2, a-1, c-1, a-0, b-0, c-0 in the one zone, d-1, e-1, d-0, e-0 in the other."""
    async with running_clonesets(client) as (made, _):
        await example(made, template=template(spread=ZONE))
        for size in range(9, -1, -1):
            await made.scale(size)
            await made.until(size)
        assert [name for name in made.gone if name[0] in "abc"] == ["c-2", "a-1", "c-1", "a-0", "b-0", "c-0"]
        assert [name for name in made.gone if name[0] in "de"] == ["d-1", "e-1", "d-0", "e-0"]
        assert made.gone[:2] == ["c-2", "a-1"], "six against four: the fuller zone gives first"


async def test_the_example_goes_in_the_same_way_at_once(client: Client) -> None:
    """One request for six fewer takes the first six of that sequence: the zones are left level."""
    async with running_clonesets(client) as (made, _):
        await example(made, template=template(spread=ZONE))
        await made.scale(4)
        left = await made.until(4)
        assert sorted(name for name in left if name[0] in "abc") == ["b-0", "c-0"]
        assert sorted(name for name in left if name[0] in "de") == ["d-0", "e-0"]


async def test_pods_that_share_a_node_go_first(client: Client) -> None:
    """Story 1: without constraints, every node is left with one pod before any is left with none."""
    async with cloneset_sandbox(client) as made:
        await example(made)
        await made.scale(5)
        assert sorted(name[0] for name in await made.until(5)) == ["a", "b", "c", "d", "e"]


async def test_pods_go_by_the_clusters_default_constraints(client: Client) -> None:
    """Story 2, for a template that states none."""
    rule = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway")
    async with cloneset_sandbox(client, default_constraints=(rule,)) as made:
        await example(made)
        await made.scale(2)
        assert {name[0] in "abc" for name in await made.until(2)} == {True, False}


# What a workload does.


async def test_growing_rolling_out_and_shrinking(client: Client) -> None:
    """Pods are made, replaced within bounds, and deleted; status and scale say so."""
    async with cloneset_sandbox(client) as made:
        await made.nodes({"x": "a b"})
        await made.create(4, updateStrategy={"maxUnavailable": 2})
        await made.until(4)
        await made.run_pods("a", "b")
        first = await made.reported(lambda cloneset: cloneset.status.available_replicas == 4)
        scale = await client.scale(type(first), "web", namespace=made.name)
        assert (scale.status.replicas, scale.status.selector) == (4, "app=web")
        change = {"spec": {"template": template("example.com/app:2", app="web")}}
        await client.patch(type(first), "web", change, namespace=made.name)
        for updated in (2, 4):
            wanted = updated
            await made.reported(lambda cloneset: cloneset.status.updated_replicas == wanted)  # noqa: B023 - awaited here
            await made.until(4)
            await made.run_pods("a", "b")
        done = await made.reported(lambda cloneset: cloneset.status.updated_available_replicas == 4)
        assert done.status.update_revision != first.status.update_revision
        marked = min(made.names)
        await client.patch(Pod, marked, {"metadata": {"labels": {SPECIFIED_DELETE: "true"}}}, namespace=made.name)
        await made.scale(3)
        assert marked not in await made.until(3)
        await made.reported(lambda cloneset: cloneset.status.replicas == 3)


async def refusal(made: CloneSetSandbox, spec: dict[str, Any]) -> str:
    """What is reported about an invalid CloneSet."""
    try:
        await made.create(2, **spec)
    except Invalid as error:
        return error.message
    refused = await made.condition("InvalidSpec")
    assert (await made.event("InvalidSpec")).message == refused.message
    return refused.message


async def test_what_is_not_supported_is_refused(client: Client) -> None:
    """By the webhook, where there is one; else a condition and an event say so, and nothing is made."""
    fields = ("spec.updateStrategy.type", "spec.updateStrategy.partition", "spec.lifecycle")
    async with cloneset_sandbox(client) as made:
        spec: dict[str, Any] = {
            "updateStrategy": {"type": "InPlaceOnly", "partition": 1},
            "lifecycle": {"preDelete": {}},
        }
        report = await refusal(made, spec)
        assert all(field in report for field in fields)
        assert made.names == set()


async def test_overlapping_clonesets_report_it(client: Client) -> None:
    """Both say so, and each keeps its own number."""
    async with cloneset_sandbox(client) as made:
        await made.create(2)
        await made.until(2)
        await made.create(1, "copy", selector={"matchLabels": {"app": "web"}}, template=template(app="web", tier="b"))
        await made.condition("SelectorOverlap", "copy")
        await made.condition("SelectorOverlap", "web", name="copy")
        await made.until(3)
        await made.reported(lambda cloneset: cloneset.status.replicas == 1, "copy")
        await made.scale(1)
        await made.until(2)


async def test_a_killed_controller_goes_on(client: Client) -> None:
    """Killed while it grows and shrinks, it leaves exactly what is wanted."""
    async with running_clonesets(client) as (made, trimtab):
        await made.create(30)
        await made.until(30)
        for size in (60, 25, 40):
            await made.scale(size)
            await trimtab.kill(CONTROLLERS)
            await trimtab.start(CONTROLLERS)
        await made.until(40)
        await made.reported(lambda cloneset: cloneset.status.replicas == 40)


# The cost proposal.


@pytest.mark.parametrize("carrier", ["AlphaAnnotation", "PodGroupCost"])
async def test_the_workflow_of_twelve_pods_in_three_zones(client: Client, carrier: str) -> None:
    """One of P4, P8 and P12 goes, then another of them: no rank is written anew, and the skew stays at 1."""
    async with cloneset_sandbox(client, pod_cost=True) as made:
        await twelve(made)
        await made.govern(carrier=carrier, strategies=[{"name": "Balance"}])
        await (made.annotate(RANKS) if carrier == "AlphaAnnotation" else made.cost(RANKS))
        for size in (11, 10):
            await made.scale(size)
            left = await made.until(size)
            assert set(TWELVE) - left < {"p4", "p8", "p12"}
            assert skew(left) == 1


async def test_scaling_down_respects_ranks(client: Client) -> None:
    """First item of the test plan."""
    ranks = {name: (number * 7) % 12 for number, name in enumerate(TWELVE)}
    async with cloneset_sandbox(client, pod_cost=True) as made:
        await twelve(made)
        await made.annotate(ranks)
        for size in (11, 9, 6, 5, 1):
            await made.scale(size)
            left = await made.until(size)
            assert left == set(sorted(TWELVE, key=lambda name: ranks[name])[:size])


async def test_ranks_are_ignored_if_one_is_missing(client: Client) -> None:
    """Second item: the scale-down is held up, and after the policy's timeout the original order decides."""
    async with cloneset_sandbox(client, pod_cost=True) as made:
        await twelve(made)
        await made.govern(
            carrier="AlphaAnnotation", strategies=[{"name": "Balance"}], whenUnranked={"timeoutSeconds": 3}
        )
        await made.annotate({name: 12 - number for number, name in enumerate(TWELVE[:11])})
        await made.scale(9)
        await made.condition("WaitingForRanks", "p12")
        assert len(made.names) == 12
        assert await made.until(9) == set(TWELVE) - {"p12", "p11", "p8"}
        report = await made.event("RanksIgnored")
        assert report.message == "Scaled down in the original order: 1 of 12 pods have no rank: p12 after 3 s"


async def test_a_strategy_that_needs_recomputation(client: Client) -> None:
    """Third item: not by two, but by one; not by one more until ranks are recomputed. Quick requests wait in line."""
    async with cloneset_sandbox(client, pod_cost=True) as made:
        await twelve(made)
        await made.govern(
            carrier="PodGroupCost", strategies=[{"name": "AntiAffinity"}], whenUnranked={"timeoutSeconds": 3600}
        )
        await made.cost({name: number for number, name in enumerate(TWELVE)})
        for size in (11, 10, 9):
            await made.scale(size)
        left = set(TWELVE) - {"p12"}
        for turn in ("p1", "p7"):
            await made.condition("WaitingForRanks", "not been recomputed")
            assert made.names == left
            await made.cost({name: int(name == turn) for name in left})
            left -= {turn}
            await made.until(len(left))
            assert made.names == left
        await made.reported(lambda cloneset: cloneset.status.replicas == 9 and cloneset.status.rank_wait is None)
        assert made.gone == ["p12", "p1", "p7"]
