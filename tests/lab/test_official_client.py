"""The official Python client for Kubernetes.

It blocks, so it runs in a thread while the server runs in the test's event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import kubernetes
import pytest
import yaml
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock import leaselock

from tests.lab.test_kubectl import ROOT
from tests.lab.wire import CRDS, PODS, Wire, deployment, pod
from trimtab_lab.apiserver.wire.server import Server

T = TypeVar("T")

# Only parts of the client are typed; it is used here without types.
client: Any = kubernetes.client
config: Any = kubernetes.config
dynamic: Any = kubernetes.dynamic
watch: Any = kubernetes.watch
elections: Any = leaderelection
options_of: Any = electionconfig
locks: Any = leaselock


@pytest.fixture
def api(server: Server) -> Iterator[Any]:
    """The client, configured by the kubeconfig that the server wrote."""
    with config.new_client_from_config(str(server.kubeconfig)) as created:
        yield created


async def aside(work: Callable[[], T]) -> T:
    """Run blocking work in a thread; its result."""
    return await asyncio.wait_for(asyncio.to_thread(work), 60)


async def test_objects_are_created_read_changed_and_deleted(api: Any) -> None:
    """With the client's own models."""
    apps = client.AppsV1Api(api)

    def work() -> None:
        created = apps.create_namespaced_deployment("default", deployment())
        assert created.metadata.generation == 1
        assert created.spec.strategy.rolling_update.max_surge == "25%"
        created.spec.replicas = 5
        assert apps.replace_namespaced_deployment("web", "default", created).metadata.generation == 2
        patched = apps.patch_namespaced_deployment("web", "default", {"metadata": {"labels": {"tier": "front"}}})
        assert patched.metadata.labels == {"tier": "front"}
        scale = apps.read_namespaced_deployment_scale("web", "default")
        assert (scale.spec.replicas, scale.status.selector) == (5, "app=web")
        scale.spec.replicas = 2
        assert apps.replace_namespaced_deployment_scale("web", "default", scale).spec.replicas == 2
        listed = apps.list_deployment_for_all_namespaces(label_selector="tier=front")
        assert [item.metadata.name for item in listed.items] == ["web"]
        assert (
            api.sanitize_for_serialization(apps.delete_namespaced_deployment("web", "default"))["status"] == "Success"
        )
        with pytest.raises(client.ApiException) as refused:
            apps.read_namespaced_deployment("web", "default")
        assert refused.value.status == 404

    await aside(work)


async def test_a_stale_update_is_a_conflict(api: Any) -> None:
    """Nothing is written."""
    core = client.CoreV1Api(api)

    def work() -> None:
        first = core.create_namespaced_config_map("default", {"metadata": {"name": "settings"}, "data": {"a": "1"}})
        core.patch_namespaced_config_map("settings", "default", {"data": {"a": "2"}})
        first.data = {"a": "3"}
        with pytest.raises(client.ApiException) as refused:
            core.replace_namespaced_config_map("settings", "default", first)
        assert (refused.value.status, refused.value.reason) == (409, "Conflict")
        assert core.read_namespaced_config_map("settings", "default").data == {"a": "2"}

    await aside(work)


async def test_a_watch_is_resumed_where_it_ended(api: Any) -> None:
    """Every event is received once."""
    core = client.CoreV1Api(api)

    def seen(version: str) -> list[tuple[str, str]]:
        events = watch.Watch().stream(
            core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=1
        )
        return [(event["type"], event["object"].metadata.name) for event in events]

    def work() -> None:
        start = core.list_namespaced_config_map("default").metadata.resource_version
        core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
        created = core.create_namespaced_config_map("default", {"metadata": {"name": "b"}})
        assert seen(start) == [("ADDED", "a"), ("ADDED", "b")]
        core.patch_namespaced_config_map("a", "default", {"data": {"x": "y"}})
        core.delete_namespaced_config_map("b", "default")
        assert seen(created.metadata.resource_version) == [("MODIFIED", "a"), ("DELETED", "b")]

    await aside(work)


async def test_a_watch_from_a_compacted_version_is_expired(api: Any, server: Server) -> None:
    """410, after which a client lists again."""
    core = client.CoreV1Api(api)
    await aside(lambda: core.create_namespaced_config_map("default", {"metadata": {"name": "a"}}))
    server.cluster.store.compact()

    def work() -> None:
        stream = watch.Watch().stream(
            core.list_namespaced_config_map, "default", resource_version="1", timeout_seconds=5
        )
        with pytest.raises(client.ApiException) as refused:
            list(stream)
        assert refused.value.status == 410

    await aside(work)


async def test_pages_are_consistent(api: Any) -> None:
    """All pages have the version of the first one."""
    core = client.CoreV1Api(api)

    def work() -> None:
        for name in "abcde":
            core.create_namespaced_config_map("default", {"metadata": {"name": name, "labels": {"page": "yes"}}})
        page = core.list_namespaced_config_map("default", label_selector="page=yes", limit=2)
        names = [item.metadata.name for item in page.items]
        core.create_namespaced_config_map("default", {"metadata": {"name": "bb", "labels": {"page": "yes"}}})
        core.delete_namespaced_config_map("e", "default")
        token = page.to_dict()["metadata"]["_continue"]
        while token:
            page = core.list_namespaced_config_map("default", label_selector="page=yes", limit=2, _continue=token)
            names += [item.metadata.name for item in page.items]
            token = page.to_dict()["metadata"]["_continue"]
        assert names == list("abcde")

    await aside(work)


async def test_a_custom_kind_is_used_by_the_dynamic_client(api: Any, server: Server, wire: Wire) -> None:
    """The dynamic client finds the kind by discovery."""
    manifest = yaml.safe_load((ROOT / "deploy" / "crds" / "clonesets.yaml").read_text())
    await wire.create(CRDS, manifest)
    await server.settled()

    def work() -> None:
        resource = dynamic.DynamicClient(api).resources.get(api_version="apps.kruise.io/v1alpha1", kind="CloneSet")
        body = {**deployment(), "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
        created = resource.create(body=body, namespace="default")
        assert created.spec.replicas == 3
        where = {"name": "web", "namespace": "default", "content_type": "application/merge-patch+json"}
        changed = resource.patch(body={"spec": {"replicas": 4}}, **where)
        assert changed.metadata.generation == 2
        resource.status.patch(body={"status": {"replicas": 4}}, **where)
        assert resource.get(name="web", namespace="default").status.replicas == 4
        assert resource.delete(name="web", namespace="default").status == "Success"

    await aside(work)


async def test_a_pod_is_bound_and_evicted(api: Any, wire: Wire) -> None:
    """A pod is bound; an eviction that its budget does not allow fails with 429."""
    core = client.CoreV1Api(api)
    policy = client.PolicyV1Api(api)
    await wire.create("/api/v1/nodes", {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}}})
    await wire.create(PODS, pod() | {"metadata": {"name": "web", "labels": {"app": "web"}}})

    def work() -> Any:
        target = client.V1ObjectReference(kind="Node", name="n1")
        binding = client.V1Binding(metadata=client.V1ObjectMeta(name="web"), target=target)
        core.create_namespaced_pod_binding("web", "default", binding, _preload_content=False)
        bound = core.read_namespaced_pod("web", "default")
        assert (bound.spec.node_name, bound.metadata.labels["topology.kubernetes.io/zone"]) == ("n1", "z1")
        assert [(c.type, c.status) for c in bound.status.conditions] == [("PodScheduled", "True")]
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        core.patch_namespaced_pod_status("web", "default", {"status": ready})
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        policy.create_namespaced_pod_disruption_budget("default", {"metadata": {"name": "web"}, "spec": spec})
        counted = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        policy.patch_namespaced_pod_disruption_budget_status("web", "default", {"status": counted})
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="web"))
        with pytest.raises(client.ApiException) as refused:
            core.create_namespaced_pod_eviction("web", "default", eviction)
        assert refused.value.status == 429
        policy.delete_namespaced_pod_disruption_budget("web", "default")
        core.create_namespaced_pod_eviction("web", "default", eviction)
        return core.read_namespaced_pod("web", "default")

    evicted = await aside(work)
    assert evicted.metadata.deletion_grace_period_seconds == 30
    assert "DisruptionTarget" in [condition.type for condition in evicted.status.conditions]


class Candidate:
    """A candidate for leader election, which stops on demand."""

    def __init__(self, name: str) -> None:
        self.leads = threading.Event()
        self.stop = threading.Event()
        self.stopped = threading.Event()
        options = options_of.Config(locks.LeaseLock("crown", "default", name), 4, 3, 1, self._lead, self.stopped.set)
        # The client requires integer seconds; the lab does not.
        options.lease_duration, options.renew_deadline, options.retry_period = 1, 0.5, 0.05
        self._election = elections.LeaderElection(options)
        self._thread = threading.Thread(target=self._election.run, daemon=True)

    def start(self) -> None:
        """Start to compete."""
        self._thread.start()

    def end(self) -> None:
        """Stop leading, and wait until that is done."""
        self.stop.set()
        self._thread.join(30)

    def _lead(self) -> None:
        self.leads.set()
        self.stop.wait()
        raise RuntimeError("told to stop")


@pytest.mark.slow
async def test_one_candidate_leads_at_a_time(api: Any, wire: Wire) -> None:
    """When the leader stops renewing, the other candidate takes over."""
    client.Configuration.set_default(api.configuration)
    first, second = Candidate("first"), Candidate("second")
    try:
        first.start()
        assert await aside(lambda: first.leads.wait(30))
        second.start()
        assert not second.leads.is_set()
        await aside(first.end)
        assert await aside(lambda: second.leads.wait(30))
        lease = await wire.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/crown")
        assert lease["spec"]["holderIdentity"] == "second"
    finally:
        client.Configuration.set_default(None)
        await aside(second.end)
