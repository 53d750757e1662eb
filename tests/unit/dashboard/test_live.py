"""A followed cluster: what changes in it is sent as a difference, and decisions are noted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.unit.dashboard.serving import SETTINGS, WEB, Dashboard, Events, dashboard
from tests.unit.inspection.test_observing import DEPLOYMENT, NODE, POD, SET, owned, populate
from tests.unit.kube.fakes import FakeServer
from trimtab.api import codec
from trimtab.api.annotations import SUBSET, TOPOLOGY
from trimtab.api.documents import JSON
from trimtab.dashboard.boards import View
from trimtab.dashboard.differences import applied
from trimtab.dashboard.rights import EVERYTHING, Rights
from trimtab.dashboard.sources import LiveSource
from trimtab.inspection import reading
from trimtab.inspection.cluster import Cluster
from trimtab.inspection.following import ClusterFollower
from trimtab.inspection.plans import plan_workload
from trimtab.inspection.targets import find_workload
from trimtab.kube.client import Client
from trimtab.kube.clocks import SystemClock
from trimtab.testing.builders import node


@dataclass
class Page:
    """What a page shows: the state, with every difference applied."""

    events: Events
    state: dict[str, Any]

    async def until(self, condition: Any) -> None:
        """Take differences until something is shown."""
        async with asyncio.timeout(30):
            while not condition(self.state):
                name, change = await self.events.next()
                assert name == "change"
                self.state = applied(self.state, change)


@dataclass
class Stage:
    """A fake API server, and a page on it."""

    server: FakeServer
    source: LiveSource
    served: Dashboard
    page: Page

    def pod(self, name: str, **changes: Any) -> None:
        """Put a pod of the ReplicaSet web-1."""
        owner = next(each for each in self.server.objects("replicasets"))
        metadata = {**owned(name, owner, "ReplicaSet"), **changes.pop("metadata", {})}
        spec: JSON = {"nodeName": changes.pop("on", "")}
        if group := changes.pop("group", ""):
            spec["schedulingGroup"] = {"podGroupName": group}
        self.server.put(*POD, {"metadata": metadata, "spec": spec, "status": changes.pop("status", {})})


@asynccontextmanager
async def watched(query: str = f"?workload={WEB}") -> AsyncIterator[Stage]:
    """A page on a followed cluster that has synced."""
    server = FakeServer(SystemClock())
    populate(server)
    client = Client(server)
    _, kinds, gaps = await reading.readable(client, namespace="default", kinds=reading.ALL)
    source = LiveSource(ClusterFollower(client, kinds=kinds, gaps=gaps, origin="a fake"), SETTINGS)
    async with dashboard(source) as served:
        await source.wait_ready()
        async with served.events(query) as events:
            _, state = await events.next()
            page = Page(events, state)
            await page.until(lambda state: len(state["pods"]) == 6 and state["workloads"])
            yield Stage(server, source, served, page)


async def test_a_pod_that_is_created_placed_and_deleted_is_shown() -> None:
    """Each change comes as a difference, with the place of the pod in the order of deletion."""
    async with watched() as stage:
        stage.pod("web-9")
        await stage.page.until(lambda state: state["pods"].get("default/web-9", {}).get("state") == "pending")
        stage.pod("web-9", on="c")
        await stage.page.until(lambda state: state["pods"]["default/web-9"].get("node") == "c")
        await stage.page.until(lambda state: state["nodes"]["c"]["pods"] == 2)
        await stage.page.until(lambda state: state["pods"]["default/web-9"].get("of") == 7)
        stage.server.drop(*POD, "default/web-9")
        await stage.page.until(lambda state: "default/web-9" not in state["pods"])


async def test_the_differences_lead_to_the_state() -> None:
    """After many changes the page shows what the server shows to a new one."""
    async with watched() as stage:
        for number in range(20):
            stage.pod(f"more-{number}", on="abc"[number % 3])
        for number in range(0, 20, 2):
            stage.server.drop(*POD, f"default/more-{number}")
        stage.server.put(*NODE, codec.to_tree(node("d", zone="z4").build()))
        await stage.page.until(lambda state: len(state["pods"]) == 16 and "d" in state["nodes"])
        expected = await stage.served.json(f"/api/state?workload={WEB}")

        def shown(state: JSON) -> JSON:
            return {name: rows for name, rows in state.items() if name != "decisions"}

        await stage.page.until(lambda state: shown(state) == shown(expected))


async def test_a_plan_of_a_followed_cluster_is_that_of_one_that_was_read() -> None:
    """The followed view gives the decisions that `trimtab plan` would."""
    async with watched() as stage:
        stage.pod("web-9", on="c")
        stage.server.drop(*POD, "default/web-0")
        await stage.page.until(lambda state: "default/web-9" in state["pods"] and "default/web-0" not in state["pods"])
        client = Client(stage.server)
        cluster: Cluster = await reading.read(client, namespace="default")
        for replicas in range(6):
            workload = find_workload(cluster, "deploy/web", "default")
            expected = codec.to_tree(plan_workload(cluster, workload, replicas, SETTINGS))
            found = await stage.served.json(f"/api/plan?workload={WEB}&replicas={replicas}")
            assert found == expected


async def test_no_policy_applies_to_a_followed_scheduling_group() -> None:
    """From the moment that one pod is put into it."""
    async with watched() as stage:
        before = await stage.served.json(f"/api/plan?workload={WEB}&replicas=3")
        stage.pod("web-9", on="c", group="g")
        await stage.page.until(lambda state: "default/web-9" in state["pods"])
        after = await stage.served.json(f"/api/plan?workload={WEB}&replicas=3")
        assert "scheduling group" in after["policy"]["reason"]
        assert before["policy"].get("reason") != after["policy"]["reason"]


async def test_a_heartbeat_of_a_node_is_no_change() -> None:
    """Five thousand nodes send one every few seconds."""
    async with watched() as stage:
        (tree,) = (each for each in stage.server.objects("nodes") if each["metadata"]["name"] == "a")
        part = await stage.source.parts.of(EVERYTHING)
        before = part.now()
        beating = {**tree, "status": {**tree["status"], "conditions": tree["status"].get("conditions", [])}}
        found = codec.convert(beating, type(before.snapshot.node("a")))
        assert part.note(before.snapshot.node("a"), found) is False
        cordoned = codec.convert({**tree, "spec": {**tree.get("spec", {}), "unschedulable": True}}, type(found))
        assert part.note(before.snapshot.node("a"), cordoned) is True


async def test_placements_and_allocations_are_noted() -> None:
    """Those of pods that the first list had were decided earlier."""
    async with watched() as stage:
        assert stage.page.state["decisions"] == {}
        annotations = {TOPOLOGY: "zones", SUBSET: "spot"}
        stage.pod("web-9", metadata={"annotations": annotations})
        stage.pod("web-9", on="c", metadata={"annotations": annotations})
        await stage.page.until(lambda state: len(state["decisions"]) == 2)
        found = sorted((row["sort"], row["subject"], row["sentence"]) for row in stage.page.state["decisions"].values())
        assert found == [
            ("allocation", "Pod/web-9", "allocated to subset spot of UnitedTopology zones"),
            ("placement", "Pod/web-9", "placed on c"),
        ]


async def test_scale_downs_are_observed() -> None:
    """With what was left, and what Trimtab would have left; the table has the last one of each workload."""
    async with watched() as stage:
        for kind, name in ((DEPLOYMENT, "web"), (SET, "web-1")):
            tree = next(each for each in stage.server.objects(kind[1]) if each["metadata"]["name"] == name)
            stage.server.put(*kind, {**tree, "spec": {**tree["spec"], "replicas": 3}})
        for number in (3, 4, 5):
            stage.server.drop(*POD, f"default/web-{number}")
        await stage.page.until(lambda state: state["decisions"])
        (row,) = stage.page.state["decisions"].values()
        assert (row["sort"], row["subject"], row["result"]) == ("scale-down", "Deployment/web", "missed")
        assert row["sentence"].startswith("6 → 3: left 3/0/0 ")
        await stage.page.until(lambda state: state["workloads"][WEB]["lastScaleDown"] == row["sentence"])
        decisions, rights = stage.source.decisions, Rights(cluster=frozenset({"pods", "deployments"}))
        cluster = (await stage.source.parts.of(rights)).now()
        (seen,) = decisions.rows(cluster, rights).values()
        assert (seen.sentence, seen.distributions) == ("6 → 3: missed", ()), "domains are labels of nodes"
        assert decisions.last_scale_downs(cluster, rights)["default", "Deployment/web"] == seen


async def test_without_viewers_nothing_is_computed() -> None:
    """Boards go with their last viewer."""
    async with watched() as stage:
        assert stage.served.server.boards.viewers == 1
        async with stage.served.server.boards.joined(View(workload=WEB)) as board:
            assert board.viewers == 2
    assert stage.served.server.boards.viewers == 0


async def test_only_reading_requests_are_sent() -> None:
    """List and watch rights are enough."""
    async with watched() as stage:
        assert {request.method for request in stage.server.requests} == {"GET"}
