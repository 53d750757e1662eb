"""CloneSets that a process of Trimtab reconciles: the proposal's example and stories, and the cost proposal's workflow
and test plan.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.e2e.processes import CONTROLLERS, WEBHOOKS, Trimtab, configuration, running
from tests.lab.clonesets import (
    CLONESETS,
    THREE_ZONES,
    CloneSetSandbox,
    cloneset_sandbox,
    manifest,
    ranks_are_followed,
    recomputed_ranks_are_waited_for,
    template,
    zone_sizes,
)
from trimtab.api.annotations import ALPHA_COST, RANK, STATED_COST
from trimtab.api.cloneset import SPECIFIED_DELETE
from trimtab.api.documents import JSON
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
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

TWELVE = tuple(f"p{number}" for number in range(1, 13))
BY_RANK = {"featureGates": {"CloneSetPodCost": True}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


@asynccontextmanager
async def running_clonesets(
    client: Client, *components: str, **fields: Any
) -> AsyncIterator[tuple[CloneSetSandbox, Trimtab]]:
    """A namespace whose CloneSets a process of Trimtab reconciles, with these fields in its configuration."""
    async with (
        cloneset_sandbox(client, manager="trimtab") as made,
        running(client, configuration(made.name, **fields), [CONTROLLERS, *components]) as trimtab,
    ):
        yield made, trimtab


def default_constraints(*constraints: JSON) -> JSON:
    """The field of a configuration that gives these default constraints to the scheduler that the pods name."""
    arguments = {"defaultingType": "List", "defaultConstraints": list(constraints)}
    profile = {
        "schedulerName": "nobody",
        "pluginConfig": [{"name": "PodTopologySpread", "args": arguments}],
    }
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {"scheduler": {**kind, "profiles": [profile]}}


async def example(made: CloneSetSandbox, **spec: Any) -> None:
    """The cluster of the topology proposal's example."""
    await made.nodes({"x": "a b c", "y": "d e"})
    await made.create(10, **HELD, **spec)
    for age, name in enumerate(YOUNGEST_FIRST):
        await made.place(name, name[0], since=f"2026-01-01T00:{30 - age:02d}:00Z")
    await made.reported(lambda cloneset: cloneset.status.available_replicas == 10)


async def twelve(made: CloneSetSandbox) -> None:
    """The cluster of the cost proposal's example: P1 to P4 in the first zone, and so on."""
    await made.nodes(THREE_ZONES)
    await made.create(12, **HELD)
    nodes = [name for names in THREE_ZONES.values() for name in names.split()]
    for number, name in enumerate(TWELVE):
        await made.place(name, nodes[number // 4 * 2 + number % 2], since=f"2026-01-01T00:{number:02d}:00Z")
    await made.reported(lambda cloneset: cloneset.status.available_replicas == 12)


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
    async with running_clonesets(client) as (made, _):
        await example(made)
        await made.scale(5)
        assert sorted(name[0] for name in await made.until(5)) == ["a", "b", "c", "d", "e"]


async def test_without_constraints_only_the_node_counts(client: Client) -> None:
    """A pod that shares its node goes before one that is alone on its own, although that one's zone is fuller."""
    async with running_clonesets(client) as (made, _):
        await made.nodes({"x": "a b c e f", "y": "d"})
        await made.create(7, **HELD)
        for age, name in enumerate(("a-0", "b-0", "c-0", "e-0", "f-0", "d-0", "d-1")):
            await made.place(name, name[0], since=f"2026-01-01T00:{30 - age:02d}:00Z")
        await made.reported(lambda cloneset: cloneset.status.available_replicas == 7)
        await made.scale(6)
        assert await made.until(6) == {"a-0", "b-0", "c-0", "e-0", "f-0", "d-1"}


PRINTED = ["d-1", "c-2", "e-1", "a-1", "c-1", "d-0", "a-0", "b-0", "e-0", "c-0"]
"""The final sequence of the proposal's example."""


async def test_proportional_ranks_give_the_printed_sequence(client: Client) -> None:
    """Ten CloneSets of the example, each scaled down once, to another size: the first pods of the sequence go."""
    async with running_clonesets(client, cloneSet={"rank": "proportional"}) as (made, _):
        await made.nodes({"x": "a b c", "y": "d e"})
        sizes = {f"web-{size}": size for size in range(10)}
        for web in sizes:
            await made.create(10, web, **HELD, template=template(spread=ZONE, app=web))
            for age, name in enumerate(YOUNGEST_FIRST):
                await made.place(f"{web}-{name}", name[0], since=f"2026-01-01T00:{30 - age:02d}:00Z", app=web)
            await made.reported(lambda cloneset: cloneset.status.available_replicas == 10, web)
        for web, size in sizes.items():
            await made.scale(size, web)
        left = await made.until(sum(sizes.values()))
        for web, size in sizes.items():
            assert left & {f"{web}-{name}" for name in PRINTED} == {f"{web}-{name}" for name in PRINTED[10 - size :]}


async def test_the_annotation_of_a_cloneset_chooses_its_rank(client: Client) -> None:
    """The smaller zone gives as well, where the configured rank would spare it."""
    async with running_clonesets(client) as (made, _):
        await example(made, template=template(spread=ZONE))
        change = {"metadata": {"annotations": {RANK: "proportional"}}}
        await client.patch(CLONESETS, "web", change, namespace=made.name)
        await made.reported(lambda cloneset: cloneset.metadata.annotations.get(RANK) == "proportional")
        await made.scale(8)
        assert await made.until(8) == set(PRINTED[2:])


async def test_pods_go_by_the_clusters_default_constraints(client: Client) -> None:
    """Story 2, for a template that states none, where the configuration says so."""
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    opted_in = {"cloneSet": {"rankByDefaultConstraints": True}}
    async with running_clonesets(client, **opted_in, **default_constraints(rule)) as (made, _):
        await example(made)
        await made.scale(2)
        assert {name[0] in "abc" for name in await made.until(2)} == {True, False}


# What a workload does.


async def test_growing_rolling_out_and_shrinking(client: Client) -> None:
    """Pods are made, replaced within bounds, and deleted; status and scale say so."""
    async with running_clonesets(client) as (made, _):
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


ENFORCED = {"scaleDown": {"defaultPolicies": [{"name": "level", "mode": "Enforce"}]}}


async def test_a_scale_down_of_two_revisions_is_planned(client: Client) -> None:
    """Old pods go first; those of the fuller zone, which the CloneSet alone would choose from all zones alike."""
    async with running_clonesets(client, WEBHOOKS, **ENFORCED) as (made, trimtab):
        await made.nodes({"x": "a", "y": "b", "z": "c"})
        await made.create(9, updateStrategy={"maxUnavailable": "100%"}, template=template(spread=ZONE, app="web"))
        old = await made.until(9)
        await made.run_pods("a", "b", "c")
        await made.reported(lambda cloneset: cloneset.status.available_replicas == 9)
        newer = template("example.com/app:2", spread=ZONE, app="web")
        change = {"spec": {"template": newer, "updateStrategy": {"paused": True}}}
        await client.patch(CLONESETS, "web", change, namespace=made.name)
        await made.scale(12)
        new = await made.until(12) - old
        await made.run_pods("a")
        await made.reported(lambda cloneset: cloneset.status.updated_available_replicas == 3)
        assert zone_sizes(made) == [6, 3, 3]
        await made.scale(9)
        left = await made.until(9)
        assert zone_sizes(made) == [3, 3, 3]
        assert new < left
        assert await trimtab.sample("trimtab_scaledown_requests_total", outcome="planned") == 1


UNSUPPORTED: dict[str, Any] = {
    "updateStrategy": {"type": "InPlaceOnly", "partition": 1},
    "lifecycle": {"preDelete": {}},
}
UNSUPPORTED_FIELDS = ("spec.updateStrategy.type", "spec.updateStrategy.partition", "spec.lifecycle")


async def test_what_is_not_supported_is_refused_by_the_webhook(client: Client) -> None:
    """With the fields."""
    async with running_clonesets(client, WEBHOOKS) as (made, _):
        report = await asyncio.wait_for(refusal(made), 30)
        assert all(field in report for field in UNSUPPORTED_FIELDS)


async def refusal(made: CloneSetSandbox) -> str:
    """The message of the webhook, once the API server calls it."""
    body = manifest(2, by="trimtab", **UNSUPPORTED)
    while True:
        try:
            await made.client.create(CLONESETS, body, namespace=made.name, dry_run=True)
        except Invalid as error:
            return error.message
        await asyncio.sleep(0.1)


async def test_what_is_not_supported_is_reported_without_a_webhook(client: Client) -> None:
    """In a condition and an event, and nothing is made."""
    async with running_clonesets(client) as (made, _):
        await made.create(2, **UNSUPPORTED)
        refused = await made.condition("InvalidSpec")
        assert (await made.event("InvalidSpec")).message == refused.message
        assert all(field in refused.message for field in UNSUPPORTED_FIELDS)
        assert made.names == set()


async def test_overlapping_clonesets_report_it(client: Client) -> None:
    """Both say so, and each keeps its own number."""
    async with running_clonesets(client) as (made, _):
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


@pytest.mark.parametrize("story", [ranks_are_followed, recomputed_ranks_are_waited_for], ids=lambda each: each.__name__)
async def test_a_cloneset_follows_a_policy(client: Client, story: Callable[[CloneSetSandbox], Awaitable[None]]) -> None:
    """The workflow, and the third item of the test plan, with the ranks that the policy's controller writes."""
    async with running_clonesets(client, **BY_RANK) as (made, _):
        await story(made)


async def test_scaling_down_respects_ranks(client: Client) -> None:
    """First item of the test plan, with ranks of a component that is not Trimtab's."""
    ranks = {name: (number * 7) % 12 for number, name in enumerate(TWELVE)}
    async with running_clonesets(client, **BY_RANK) as (made, _):
        await twelve(made)
        await made.annotate(ALPHA_COST, ranks)
        for size in (11, 9, 6, 5, 1):
            await made.scale(size)
            left = await made.until(size)
            assert left == set(sorted(TWELVE, key=lambda name: ranks[name])[:size])


async def test_ranks_are_ignored_if_one_is_missing(client: Client) -> None:
    """Second item: the scale-down is held up, and after the policy's timeout the original order decides."""
    async with running_clonesets(client, **BY_RANK) as (made, _):
        await twelve(made)
        await made.govern(
            carrier="AlphaAnnotation",
            delivery="Continuous",
            strategies=[{"name": "Stated"}],
            whenUnranked={"timeoutSeconds": 3},
        )
        await made.annotate(STATED_COST, {name: number for number, name in enumerate(TWELVE[:11])})
        await made.annotated(ALPHA_COST, 11)
        await made.scale(9)
        await made.condition("WaitingForRanks", "p12")
        assert len(made.names) == 12
        assert await made.until(9) == set(TWELVE) - {"p8", "p11", "p12"}, "the youngest that share a node"
        report = await made.event("RanksIgnored")
        assert report.message == "Scaled down in the original order: 1 of 12 pods have no rank: p12 after 3 s"
