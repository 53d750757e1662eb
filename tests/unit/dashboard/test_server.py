"""The dashboard over HTTP: it shows what the functions behind the commands return, and differences as they come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from aiohttp.web import StreamResponse

from tests.unit.dashboard.serving import SETTINGS, WEB, Dashboard, dashboard, rows, web
from tests.unit.inspection.clusters import three_zones
from trimtab.api import codec
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.dashboard import boards, handlers
from trimtab.dashboard.access import OpenAccess, TokenAccess, UnauthenticatedError
from trimtab.dashboard.handlers import read_assets
from trimtab.dashboard.rights import Rights
from trimtab.inspection.cluster import Gap
from trimtab.inspection.explanations import explain_pod
from trimtab.inspection.overviews import workload_overview
from trimtab.inspection.plans import plan_workload
from trimtab.inspection.ranks import rank_workload
from trimtab.inspection.targets import find_pod, find_workload

ASSETS = Path(__file__).parents[3] / "src" / "trimtab" / "dashboard" / "assets"


@pytest.mark.parametrize("replicas", range(8))
async def test_a_plan_is_that_of_the_command(replicas: int) -> None:
    """For every size, field by field what `trimtab plan -o json` prints."""
    cluster = web()
    async with dashboard(cluster) as served:
        found = await served.json(f"/api/plan?workload={WEB}&replicas={replicas}")
        workload = find_workload(cluster, "deploy/web", "default")
        assert found == codec.to_tree(plan_workload(cluster, workload, replicas, SETTINGS))


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        (f"workload={WEB}&replicas=8", 400, "is no scale-down"),
        (f"workload={WEB}&replicas=-1", 400, "is not a size"),
        (f"workload={WEB}&replicas=x", 400, "is not a size"),
        (f"workload={WEB}&replicas={'9' * 50}", 400, "is not a size"),
        (f"workload={WEB}", 400, "is not a size"),
        ("workload=default/Deployment/none&replicas=1", 404, "no such workload"),
        ("workload=default/Pod/web-1-00&replicas=1", 404, "no such workload"),
        ("workload=web&replicas=1", 404, "no such workload"),
        (f"workload={'w' * 600}&replicas=1", 400, "longer than"),
    ],
)
async def test_what_cannot_be_planned_is_refused_with_the_reason(query: str, status: int, text: str) -> None:
    """As JSON."""
    async with dashboard(web()) as served:
        answer = await served.get(f"/api/plan?{query}")
        assert answer.status == status
        assert text in (await answer.json())["error"]


async def test_ranks_and_explanations_are_those_of_the_commands() -> None:
    """With a sentence for the pod, as the command would say it."""
    cluster = web()
    async with dashboard(cluster) as served:
        workload = find_workload(cluster, "deploy/web", "default")
        assert await served.json(f"/api/rank?workload={WEB}") == codec.to_tree(
            rank_workload(cluster, workload, SETTINGS)
        )
        found = await served.json("/api/explain?pod=default/web-1-00")
        expected = explain_pod(cluster, find_pod(cluster, "web-1-00", "default"), SETTINGS)
        assert found == {
            "sentence": expected.sentence(),
            "placement": expected.placement_sentence(),
            "explanation": codec.to_tree(expected),
        }
        assert found["placement"].startswith("a1 scores ")
        assert "web-1-00 on a1 (z1) goes " in found["sentence"]
        assert (await served.get("/api/explain?pod=default/none")).status == 404


async def test_the_state_has_the_cluster_by_domain() -> None:
    """Nodes with their domain and pods, pods with their place, workloads with their levels."""
    cluster = web()
    async with dashboard(cluster) as served:
        state = await served.json(f"/api/state?workload={WEB}")
        assert rows(state, "nodes")["a1"] == {"domain": "z1", "pods": 2, "chosen": 2}
        workload = find_workload(cluster, "deploy/web", "default")
        overview = rows(state, "workloads")[WEB]["overview"]
        assert overview == codec.to_tree(workload_overview(cluster, workload, SETTINGS))
        (zones,) = overview["constraints"]
        assert (zones["pods"], zones["skew"]) == ([4, 3, 1], 3)
        ranked = rank_workload(cluster, workload, SETTINGS).controllers[0].pods
        expected = {f"default/{pod.pod}": pod.position for pod in ranked}
        assert {key: row["position"] for key, row in rows(state, "pods").items()} == expected
        status = rows(state, "status")["cluster"]
        assert (status["nodes"], status["pods"], status["workloads"], status["live"]) == (6, 8, 1, False)


async def test_nodes_can_be_grouped_by_another_key() -> None:
    """Racks, or single nodes: any label of nodes."""
    async with dashboard(web()) as served:
        state = await served.json("/api/state?key=kubernetes.io/hostname")
        assert rows(state, "nodes")["a1"]["domain"] == "a1"


async def test_labels_of_topology_are_offered_for_grouping() -> None:
    """Zones first; regions and racks where nodes have them; single nodes are no groups."""
    labels = {
        "topology.kubernetes.io/region": "r",
        "example.com/rack": "1",
        "kubernetes.io/hostname": "n",
        "disk": "ssd",
    }
    found = codec.convert({"metadata": {"name": "n", "uid": "n", "labels": labels}}, Node)
    async with dashboard(three_zones().put(found).build()) as served:
        keys = rows(await served.json("/api/state"), "status")["cluster"]["topologyKeys"]
        assert keys == ["topology.kubernetes.io/zone", "example.com/rack", "topology.kubernetes.io/region"]


async def test_what_could_not_be_read_is_named() -> None:
    """As the commands name it."""
    gap = Gap(resource="nodes", scope="cluster", reason="may not be listed", effect="domains are not known")
    cluster = three_zones().deployment("web", ["a1"]).build(gaps=(gap,))
    async with dashboard(cluster) as served:
        state = await served.json("/api/state")
        assert rows(state, "status")["cluster"]["gaps"] == [gap.sentence()]


async def test_the_first_event_is_the_whole_state() -> None:
    """Differences follow when something changes."""
    async with dashboard(web()) as served, served.events(f"?workload={WEB}") as events:
        name, state = await events.next()
        assert name == "state"
        assert state == await served.json(f"/api/state?workload={WEB}")


async def test_the_stream_ends_when_the_token_is_no_longer_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page connects again, and is told."""

    class Revocable(TokenAccess):
        """A token that can be revoked."""

        is_revoked = False

        async def rights(self, token: str) -> Rights:
            """Nothing once it is revoked."""
            if self.is_revoked:
                raise UnauthenticatedError("revoked")
            return await super().rights(token)

    monkeypatch.setattr(handlers, "KEEP_ALIVE", 0.01)
    access = Revocable("right")
    async with dashboard(web(), access=access) as served, served.events(Authorization="Bearer right") as events:
        await events.next()
        access.is_revoked = True
        await events.answer.content.read()
        assert events.answer.content.at_eof()


async def test_a_viewer_that_does_not_read_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It holds neither its place nor what waits to be read."""

    async def blocked(*_: object) -> None:
        """Buffers that are full, because nothing is read from them."""
        await asyncio.Event().wait()

    monkeypatch.setattr(handlers, "SLOWEST", 0.01)
    monkeypatch.setattr(StreamResponse, "write", blocked)
    async with dashboard(web()) as served, asyncio.timeout(30):
        for count in (1, 2):
            async with served.client.get("/api/events") as answer:
                with pytest.raises(aiohttp.ClientPayloadError):
                    await answer.content.read()
            assert served.server.boards.viewers == 0
            assert refused(served) == {"not-read": count}
    (line,) = [record.message for record in caplog.records if "cut off" in record.message]
    assert "did not read" in line
    assert "trimtab_dashboard_pages_refused_total" in line


@pytest.mark.parametrize(
    ("owner", "name", "reason"),
    [(handlers, "MOST_VIEWERS", "server-limit"), (OpenAccess, "most_streams", "caller-limit")],
)
async def test_pages_beyond_a_limit_are_counted_by_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, owner: object, name: str, reason: str
) -> None:
    """And logged once."""
    monkeypatch.setattr(owner, name, 1)
    async with dashboard(web()) as served, served.events() as events:
        await events.next()
        assert refused(served) == {}
        for _ in range(3):
            assert (await served.get("/api/events")).status == 503
        assert refused(served) == {reason: 3}
    assert len([record for record in caplog.records if "a page was refused" in record.message]) == 1


def refused(served: Dashboard) -> dict[str, float]:
    """The pages that were refused or cut off, by reason."""
    samples = [sample for metric in served.server.metrics.registry.collect() for sample in metric.samples]
    return {each.labels["reason"]: each.value for each in samples if each.name.endswith("refused_total")}


async def test_only_the_files_of_the_page_are_served() -> None:
    """A name is never a path."""
    async with dashboard(web()) as served:
        for name in read_assets():
            assert (await served.get(f"/assets/{name}")).status == 200
        for path in ("/assets/../server.py", "/assets/%2e%2e%2fserver.py", "/assets/none.js", "/assets/"):
            assert (await served.get(path)).status == 404


def test_the_page_loads_nothing_from_outside_and_has_nothing_inline() -> None:
    """No addresses, no inline scripts or styles, and text only ever as text."""
    page = (ASSETS / "index.html").read_text()
    assert "style=" not in page
    assert "<style" not in page
    assert page.count("<script") == page.count('<script type="module" src="assets/')
    for path in ASSETS.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, path.name
        assert "https://" not in text, path.name
        for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert sink not in text, (path.name, sink)


async def test_large_clusters_list_the_chosen_workload_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are counted on their nodes."""
    monkeypatch.setattr(boards, "LISTED", 9)
    cluster = three_zones().deployment("web", ["a1", "b1"]).deployment("api", ["a1"] * 8).build()
    async with dashboard(cluster) as served:
        state = await served.json(f"/api/state?workload={WEB}")
        assert set(rows(state, "pods")) == {"default/web-1-00", "default/web-1-01"}
        assert rows(state, "nodes")["a1"] == {"domain": "z1", "pods": 9, "chosen": 1}
        assert rows(state, "status")["cluster"]["aggregated"] is True
        assert len(cluster.all(Pod)) == 10
