"""The composition root: what it makes of a configuration, and what it serves."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
import urllib.request
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from prometheus_client import CollectorRegistry

from tests.lab.rollouts import WORKLOADS, Rollout
from tests.unit.kube.fakes import FakeServer
from tests.unit.kube.strange_objects import CASES
from trimtab import app
from trimtab.admission.certificate_authority import make_authority, sign
from trimtab.admission.certificates import CONFIGURATIONS
from trimtab.admission.server import AdmissionServer
from trimtab.api import configuration
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.api.leases import Lease
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.app import admission, control, process, scheduling
from trimtab.app.dependencies import Dependencies
from trimtab.install import local, reviews
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.clocks import cancel
from trimtab.kube.components import ComponentGroup
from trimtab.kube.config import discover
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session
from trimtab.ranking.victims import Options
from trimtab.scaledown.intent.reviews import SENDING
from trimtab.testing.clocks import VirtualClock
from trimtab_lab import provisioning
from trimtab_lab.apiserver.wire.server import Server

SCHEDULER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def test_the_scheduler_looks_after_the_namespaces_that_are_named() -> None:
    """And keeps its lease where Trimtab keeps its own, unless its own configuration says where."""
    configured = configuration.read({"namespaces": ["shop"], "namespace": "trimtab-system"})
    settings = scheduling.settings(configured)
    assert settings.namespaces == {"shop"}
    assert settings.election is not None
    assert settings.election.namespace == "trimtab-system"
    elsewhere = {**SCHEDULER, "leaderElection": {"resourceNamespace": "leases"}}
    election = scheduling.settings(configuration.read({"scheduler": elsewhere})).election
    assert election is not None
    assert election.namespace == "leases"


def given_to(part: str, module: Any, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> tuple[Any, dict[str, Any]]:
    """What a component with this configuration is made of: the arguments of one of its parts."""
    make, found = getattr(module, part), []

    def recorded(*given: Any, **named: Any) -> Any:
        found.append((given, named))
        return make(*given, **named)

    monkeypatch.setattr(module, part, recorded)
    configured = whole(**fields, leaderElection={"enabled": False})
    clock = VirtualClock()
    module.component(Dependencies(Client(FakeServer(clock), clock=clock), configured, CollectorRegistry()))
    (arguments,) = found
    return arguments


BOTH = pytest.mark.parametrize("module", [admission, control], ids=["webhooks", "controllers"])


@BOTH
async def test_pods_are_probed_in_the_configured_networks(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every component that probes."""
    _, named = given_to("sources_for", module, monkeypatch, scaleDown={"probeNetworks": ["10.1.0.0/16"]})
    assert named["networks"] == (ip_network("10.1.0.0/16"),)


@BOTH
async def test_pods_are_ranked_by_configured_sources_and_profiles(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every component that ranks pods."""
    scheduler = {**SCHEDULER, "profiles": [{"schedulerName": "own"}]}
    scale_down = {"sources": {"Prometheus": {"url": "http://prometheus:9090"}}}
    _, named = given_to("sources_for", module, monkeypatch, scheduler=scheduler, scaleDown=scale_down)
    assert set(named["sources"]) == {"Prometheus"}
    assert named["profile_of"]("own") is not None
    assert named["profile_of"]("other") is None


async def test_plans_are_made_for_controllers_as_they_are_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their feature gates, and with the rank of CloneSets."""
    gates = {"logarithmicScaleDown": False, "podDeletionCost": False}
    fields = {"cloneSet": {"rank": "proportional"}, "scaleDown": {"controllerGates": gates}}
    _, named = given_to("ScaleDownHolder", admission, monkeypatch, **fields)
    model = named["settings"].model
    assert (model.rank.scale, model.options) == ("proportional", Options(logarithmic=False, deletion_cost=False))


async def test_clonesets_are_ranked_as_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their controller."""
    (_, settings), _ = given_to("CloneSets", control, monkeypatch, cloneSet={"rank": "proportional"})
    assert settings.rank.scale == "proportional"


def test_a_mistake_in_the_settings_of_a_source_ends_the_start() -> None:
    """It is named from the top of the file."""
    with pytest.raises(InvalidError, match=r"^scaleDown\.sources\.Prometheus\.url"):
        app.check(configuration.read({"scaleDown": {"sources": {"Prometheus": {"url": "x"}}}}))


def test_a_mistake_in_the_schedulers_part_is_named_from_the_top() -> None:
    """As it stands in the one file."""
    with pytest.raises(InvalidError, match=r"^scheduler\.profiles\[0\]"):
        app.check(configuration.read({"scheduler": {**SCHEDULER, "profiles": [{"plugin": {}}]}}))


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param({}, [ZONE, HOSTNAME], id="Kubernetes' own, the nodes last"),
        pytest.param({"defaultingType": "Proposal"}, [ZONE, HOSTNAME], id="the proposal's, with the zone's new label"),
        pytest.param(
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"} for key in ("row", "rack")
                ],
            },
            ["row", "rack"],
            id="the operator's, in their order",
        ),
        pytest.param({"defaultingType": "List"}, [], id="none"),
    ],
)
def test_what_states_no_constraints_shrinks_by_those_that_place_its_pods(args: dict[str, Any], want: list[str]) -> None:
    """The scheduler's default constraints are those of scale-downs too."""
    profile = {"pluginConfig": [{"name": "PodTopologySpread", "args": args}]} if args else {}
    configured = configuration.read({"scheduler": {**SCHEDULER, "profiles": [profile]}})
    known = scheduling.leveling_constraints(scheduling.schedulers(configured))
    assert [each.topology_key for each in known("trimtab")] == want
    assert [each.topology_key for each in known("")] == [ZONE, HOSTNAME], "another scheduler places those pods"


@pytest.mark.parametrize(
    ("fields", "scale", "keys"),
    [
        pytest.param({}, "balanced", [], id="by their nodes alone"),
        pytest.param({"rankByDefaultConstraints": True}, "balanced", [ZONE, HOSTNAME], id="by default constraints"),
        pytest.param({"rank": "proportional"}, "proportional", [], id="in proportion"),
    ],
)
def test_clonesets_without_constraints_are_ranked_as_configured(
    fields: dict[str, Any], scale: str, keys: list[str]
) -> None:
    """Balanced and by their nodes, unless the configuration says otherwise."""
    configured = configuration.read({"cloneSet": fields})
    ranked = scheduling.rank_settings(configured, scheduling.schedulers(configured))
    assert (ranked.scale, [each.topology_key for each in ranked.defaults("trimtab")]) == (scale, keys)


def read(port: int, path: str, timeout: float = 5) -> tuple[int, str]:
    """What is served there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def whole(**more: Any) -> TrimtabConfiguration:
    """All components in one process that is alone."""
    return configuration.read(
        {
            "serving": {"port": 0},
            "webhooks": {"host": "127.0.0.1", "port": 0, "url": "https://127.0.0.1:9"},
            "scaleDown": {"defaultPolicies": [{"mode": "Enforce"}]},
            **more,
        }
    )


@pytest.mark.parametrize("elected", [pytest.param(True, id="under leader election"), pytest.param(False, id="alone")])
async def test_all_components_run_in_one_process(elected: bool, tmp_path: Path) -> None:
    """As well as in several; every one sees the cluster, and all end when they are configured to."""
    async with Server(tmp_path) as server:
        configured = whole(leaderElection={"enabled": elected})
        async with Client(Session(discover(server.kubeconfig))) as client:
            await provisioning.create_missing(client, local.manifests(configured))
        running = app.App(app.Settings(configured, kubeconfig=server.kubeconfig))
        task = asyncio.create_task(running.run())
        try:
            while running.port < 0:
                await asyncio.sleep(0)
            while (await asyncio.to_thread(read, running.port, "/readyz"))[0] != 200:
                assert not task.done()
            _, metrics = await asyncio.to_thread(read, running.port, "/metrics")
            for name in ("scheduler_pending_pods", "trimtab_webhook_reviews_total", "trimtab_scaledown_requests_total"):
                assert name in metrics
            (offset,) = [line for line in metrics.splitlines() if line.startswith("trimtab_clock_offset_seconds ")]
            assert abs(float(offset.split()[1])) < 2
        finally:
            await cancel(task)
        assert task.cancelled()


_SHARED = {"/pods", "/nodes", "/namespaces", "/services", "/replicationcontrollers"}
_SHARED |= {f"apps/{plural}" for plural in ("deployments", "replicasets", "statefulsets")}
_SHARED |= {"apps.kruise.io/clonesets", "apps.kruise.io/unitedtopologies"}
_SHARED |= {"trimtab.dev/scaledownpolicies", "trimtab.dev/podgroupcosts"}
_CONTROLLERS = {"apps/controllerrevisions", "apiextensions.k8s.io/customresourcedefinitions"}


@pytest.mark.parametrize(
    ("components", "namespaces", "want"),
    [
        pytest.param(["scheduler", "webhooks", "controllers"], [], _SHARED | _CONTROLLERS, id="all components"),
        pytest.param(
            ["scheduler", "webhooks", "controllers"],
            ["default", "kube-public"],
            _SHARED | _CONTROLLERS,
            id="all components, for some namespaces",
        ),
        pytest.param(["webhooks"], [], _SHARED, id="webhooks, without what only controllers need"),
    ],
)
async def test_a_process_watches_each_kind_once(
    components: list[str], namespaces: list[str], want: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many components read it; and it has analysed each but the smallest before."""
    analysed = set[str]()
    monkeypatch.setattr(
        process, "analyse", lambda kind: analysed.add(f"{Resource.of(kind).group}/{Resource.of(kind).plural}")
    )
    async with Server(tmp_path) as server:
        configured = whole(components=components, namespaces=namespaces, leaderElection={"enabled": False})
        async with Client(Session(discover(server.kubeconfig))) as client:
            await provisioning.create_missing(client, local.manifests(configured))
        task = asyncio.create_task(app.App(app.Settings(configured, kubeconfig=server.kubeconfig)).run())
        try:
            async with asyncio.timeout(60):
                while watched(server).keys() < want:
                    assert not task.done()
                    await asyncio.sleep(0)
            assert watched(server) == dict.fromkeys(want, 1)
            assert want - analysed <= _CONTROLLERS
        finally:
            await cancel(task)


async def test_every_kind_that_is_watched_has_strange_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that the configuration names."""
    opened, open_one = set[type[Any]](), Caches.open

    def opening(self: Caches[Any], kind: Any, *given: Any, **named: Any) -> Any:
        made = open_one(self, kind, *given, **named)
        opened.add(made.resource.model)
        return made

    monkeypatch.setattr(Caches, "open", opening)
    components = ["scheduler", "webhooks", "controllers", "dashboard"]
    alone: Any = {"workloads": WORKLOADS, "leaderElection": {"enabled": False}, "dashboard": {"port": 0}}
    async with Server(tmp_path) as server:
        configured = whole(components=components, **alone)
        async with Client(Session(discover(server.kubeconfig))) as client:
            await provisioning.create_missing(client, local.manifests(configured))
        task = asyncio.create_task(app.App(app.Settings(configured, kubeconfig=server.kubeconfig)).run())
        try:
            async with asyncio.timeout(60):
                while watched(server).keys() < _SHARED | _CONTROLLERS:
                    assert not task.done()
                    await asyncio.sleep(0)
        finally:
            await cancel(task)
    assert {Pod, Rollout} < opened
    assert opened <= {case.model for case in CASES}


def watched(server: Server) -> dict[str, int]:
    """The number of watches by kind, where there are any."""
    names = [each.name for each in server.cluster.store.collections()]
    counts = {name: len(server.cluster.broadcaster.watching(name)) for name in names}
    return {name: count for name, count in counts.items() if count}


async def test_replicas_of_the_webhooks_serve_with_one_certificate(tmp_path: Path) -> None:
    """The leader creates it, the others read it; all of them answer."""
    async with Server(tmp_path) as server, Client(Session(discover(server.kubeconfig))) as client:
        replicas = [app.App(app.Settings(whole(components=["webhooks"]), server.kubeconfig)) for _ in range(2)]
        await provisioning.create_missing(client, local.manifests(replicas[0].settings.configuration))
        tasks = [asyncio.create_task(each.run()) for each in replicas]
        try:
            shown = [await asyncio.to_thread(ssl.get_server_certificate, await listening(each)) for each in replicas]
        finally:
            await cancel(*tasks)
        assert shown[0] == shown[1]


async def test_webhooks_are_ready_only_while_api_servers_trust_their_certificate(tmp_path: Path) -> None:
    """The replica calls itself with the CA bundle of the webhook configurations; here an administrator's."""
    now = datetime.now(UTC)
    authority, other = make_authority(now), make_authority(now + timedelta(seconds=1))
    pair = sign(authority, ["127.0.0.1"], now)
    files = {"certificateFile": str(tmp_path / "tls.crt"), "keyFile": str(tmp_path / "tls.key")}
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    webhooks = {"host": "127.0.0.1", "port": 0, "url": "https://127.0.0.1:9"}
    configured = whole(components=["webhooks"], webhooks={**webhooks, "certificates": {"source": "Files", **files}})
    async with Server(tmp_path / "lab") as server, Client(Session(discover(server.kubeconfig))) as client:
        await provisioning.create_missing(client, local.manifests(configured))
        await trust(client, other.certificate)
        running = app.App(app.Settings(configured, kubeconfig=server.kubeconfig))
        task = asyncio.create_task(running.run())
        try:
            while running.port < 0:
                await asyncio.sleep(0)
            while "is not trusted" not in (found := await asyncio.to_thread(read, running.port, "/readyz"))[1]:
                assert found[0] == 503
            await trust(client, authority.certificate)
            while (await asyncio.to_thread(read, running.port, "/readyz"))[0] != 200:
                assert not task.done()
        finally:
            await cancel(task)


async def trust(client: Client, ca_bundle: bytes) -> None:
    """Set the CA bundle of all webhooks."""
    text = base64.b64encode(ca_bundle).decode()
    for resource in CONFIGURATIONS.values():
        count = len((await client.get(resource, "trimtab"))["webhooks"])
        patch = [{"op": "add", "path": f"/webhooks/{at}/clientConfig/caBundle", "value": text} for at in range(count)]
        await client.patch(resource, "trimtab", patch, how=PatchKind.JSON)


async def listening(running: app.App) -> tuple[str, int]:
    """Where the webhooks of a process are served, once they are."""
    while "webhooks" not in running.components:
        await asyncio.sleep(0)
    together = running.components["webhooks"]
    assert isinstance(together, ComponentGroup)
    webhooks = together.parts["server"]
    assert isinstance(webhooks, AdmissionServer)
    while not webhooks.synced:
        await asyncio.sleep(0)
    return "127.0.0.1", webhooks.port


async def test_every_hook_has_a_webhook_configuration_and_the_reverse() -> None:
    """The webhook configurations of `trimtab install` match the hooks that are served, and their budgets."""
    configured = whole(leaderElection={"enabled": False})
    dependencies = Dependencies(
        Client(FakeServer(VirtualClock()), clock=VirtualClock()), configured, CollectorRegistry()
    )
    component = admission.component(dependencies)
    assert isinstance(component, ComponentGroup)
    webhooks = component.parts["server"]
    assert isinstance(webhooks, AdmissionServer)
    asked = {review.path: review.budget(configured) for review in (*reviews.REVIEWS, reviews.CLONESETS)}
    asked["/scale"] -= SENDING
    assert asked == {path: hook.budget for path, hook in webhooks.hooks.items()}


@pytest.mark.parametrize("subsets", [True, False], ids=["with subsets", "without"])
async def test_new_pods_have_one_hook_for_subsets_and_default_constraints(subsets: bool) -> None:
    """With the budget of the pod webhook."""
    section = {"delivery": "Admission", "rules": [{"constraints": []}]}
    configured = whole(
        leaderElection={"enabled": False}, defaultConstraints=section, featureGates={"PodWebhook": subsets}
    )
    client = Client(FakeServer(VirtualClock()), clock=VirtualClock())
    component = admission.component(Dependencies(client, configured, CollectorRegistry()))
    assert isinstance(component, ComponentGroup)
    webhooks = component.parts["server"]
    assert isinstance(webhooks, AdmissionServer)
    assert webhooks.hooks["/pods"].budget == 1.0
    assert ("/deletions" in webhooks.hooks) == subsets


def test_invalid_rules_of_default_constraints_are_named_from_the_top() -> None:
    """As they stand in the one file."""
    section = {"delivery": "Admission", "rules": [{"constraints": [{"maxSkew": 1}]}]}
    with pytest.raises(InvalidError, match=r"^defaultConstraints\.rules\[0\]"):
        app.check(configuration.read({"defaultConstraints": section}))
    with pytest.raises(InvalidError, match=r"^defaultConstraints\.rules: is required"):
        app.check(configuration.read({"defaultConstraints": {"delivery": "Admission"}}))


async def test_a_lease_is_renewed_while_the_port_for_probes_is_busy(tmp_path: Path) -> None:
    """A page is rendered without end: its event loop is not that of the leases."""
    begun, may_end = threading.Event(), threading.Event()

    def endless() -> bool:
        begun.set()
        return may_end.wait(60)

    async with Server(tmp_path) as server, Client(Session(discover(server.kubeconfig))) as client:
        election = {"leaseSeconds": 60, "renewSeconds": 30, "retrySeconds": 0.05}
        configured = whole(components=["controllers"], leaderElection=election)
        await provisioning.create_missing(client, local.manifests(configured))
        running = app.App(app.Settings(configured, kubeconfig=server.kubeconfig))
        running.documents["/endless"] = endless
        task = asyncio.create_task(running.run())
        try:
            while running.port < 0:
                await asyncio.sleep(0)
            answer = asyncio.create_task(asyncio.to_thread(read, running.port, "/endless", 60))
            assert await asyncio.to_thread(begun.wait, 30)
            renewals = set[str | None]()
            async with asyncio.timeout(30):
                while len(renewals) < 4:
                    assert not task.done()
                    renewals |= {each.spec.renew_time for each in (await client.list(Lease)).items}
            may_end.set()
            assert await answer == (200, "true")
        finally:
            may_end.set()
            await cancel(task)


async def test_health_says_what_is_missing_until_nothing_is(tmp_path: Path) -> None:
    """A process that has not seen the cluster is alive, and not ready."""
    async with Server(tmp_path) as server:
        configured = configuration.read(
            {"components": ["scheduler"], "serving": {"port": 0}, "namespace": "kube-system"}
        )
        running = app.App(app.Settings(configured, kubeconfig=server.kubeconfig))
        task = asyncio.create_task(running.run())
        try:
            while running.port < 0:
                await asyncio.sleep(0)
            assert await asyncio.to_thread(read, running.port, "/healthz") == (200, "ok\n")
            while (found := await asyncio.to_thread(read, running.port, "/readyz"))[0] != 200:
                assert "has not synced with the cluster yet" in found[1]
            status, metrics = await asyncio.to_thread(read, running.port, "/metrics")
            assert (status, "scheduler_pending_pods" in metrics) == (200, True)
        finally:
            await cancel(task)
