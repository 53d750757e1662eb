"""What the components ask of an API server, and what `trimtab install` lets them: the same, both ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.scenarios.calls import Call
from tests.scenarios.product import COMPONENTS, configured, product
from trimtab.api.annotations import NAMESPACE_LABEL, POLICY_COST
from trimtab.api.apps import ControllerRevision, Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.documents import JSON
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.install import access
from trimtab.install.options import Options, account
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session
from trimtab_lab.apiserver.wire.server import Server
from trimtab_lab.nodes import settings, shapes
from trimtab_lab.nodes.service import Nodes
from trimtab_lab.workloads.service import Workloads

pytestmark = pytest.mark.slow

NAMESPACE = "shop"
PATIENCE = 60.0
NODES = 6
PODS = NODES + 1
"""One node has two pods of each workload."""

RARE: dict[str, dict[tuple[str, str, str], str]] = {
    "scheduler": {
        ("", "pods", "get"): "a binding whose outcome is not known is looked up",
        ("", "events", "patch"): "an event that is repeated is counted up",
    },
    "webhooks": {
        ("metrics.k8s.io", "pods", "list"): "usage is sampled now and then, where a policy looks at it",
        ("", "nodes", "get"): "a pod in a full subset is looked up with its node",
        ("", "pods", "get"): "a pod that changed while its cost was written is read again",
        ("", "pods", "create"): "patches of subsets are tried by dry runs, where the target exists already",
        ("", "secrets", "patch"): "certificates are renewed after months",
        ("", "events", "create"): "told of pods that were let through without a place",
        ("", "events", "patch"): "an event that is repeated is counted up",
        ("apps", "replicasets", "get"): "the ReplicaSet of a pod that the watch has not shown yet",
        ("apps.kruise.io", "unitedtopologies", "get"): "a status that somebody else has written meanwhile",
    },
    "controllers": {
        ("metrics.k8s.io", "pods", "list"): "usage is sampled now and then, where a policy looks at it",
        ("", "pods", "get"): "a pod that changed while its cost was written is read again",
        ("", "pods/eviction", "create"): "a pod returns to an earlier subset after a settling time",
        ("", "events", "list"): "an autoscaler that brings a node is waited for",
        ("", "events", "create"): "told of what is out of the ordinary",
        ("", "events", "patch"): "an event that is repeated is counted up",
        ("apps", "controllerrevisions", "get"): "a revision that another process has made meanwhile",
        ("apps", "controllerrevisions", "patch"): "a revision that is wanted again is renumbered",
        ("apps.kruise.io", "clonesets", "get"): "an orphan is adopted only after a live look",
        ("apps.kruise.io", "clonesets/finalizers", "update"): "asked for by OwnerReferencesPermissionEnforcement",
        ("apps.kruise.io", "unitedtopologies", "get"): "a status that somebody else has written meanwhile",
    },
}
"""What a quiet quarter of a minute does not need, and why it is needed."""


def workload(name: str, replicas: int, **more: Any) -> JSON:
    """A workload of any kind."""
    labels = {"app": name}
    pod = {"containers": [{"name": "web", "image": "example.com/web:1"}]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, **more}
    return {"metadata": {"name": name}, "spec": {**spec, "template": {"metadata": {"labels": labels}, "spec": pod}}}


def policy(name: str, kind: str, target: str, **more: Any) -> JSON:
    """A policy for one workload."""
    version = "apps.kruise.io/v1alpha1" if kind == "CloneSet" else "apps/v1"
    reference = {"apiVersion": version, "kind": kind, "name": target}
    return {"metadata": {"name": name}, "spec": {"targetRef": reference, **more}}


async def until(holds: partial[Coroutine[Any, Any, bool]]) -> None:
    """Wait for a condition; the error names it."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not await holds():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"never: {holds.func.__name__}{holds.args[1:]}") from None


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncIterator[tuple[Client, Path]]:
    """API server, controllers and nodes; no Trimtab."""
    shape = shapes.read({"zones": [{"name": f"zone-{letter}", "nodes": NODES // 3} for letter in "abc"]})
    async with Server(folder) as server, Client(Session(discover(server.kubeconfig))) as client:
        nodes = Nodes(client, client.clock, shape, 0, settings=settings.LAB)
        tasks = [asyncio.create_task(each) for each in (Workloads(client).run(), nodes.run())]
        try:
            yield client, server.kubeconfig
        finally:
            await cancel(*tasks)


async def create(client: Client, kind: type[Any], tree: JSON) -> None:
    """Create an object as it would be applied."""
    resource = Resource.of(kind)
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **tree}
    await client.create(kind, whole, namespace=NAMESPACE)


async def pods(client: Client, app: str) -> list[Pod]:
    """The pods of an app that are to stay."""
    found = (await client.list(Pod, namespace=NAMESPACE, label_selector=f"app={app}")).items
    return [pod for pod in found if not pod.terminating]


async def running(client: Client, app: str, number: int) -> bool:
    """Whether so many pods of an app are there, and ready."""
    found = await pods(client, app)
    return len(found) == number and all(pod.ready for pod in found)


WORKLOADS: dict[str, type[Any]] = {
    "web": Deployment,
    "busy": Deployment,
    "divided": Deployment,
    "set": ReplicaSet,
    "old": ReplicationController,
    "clones": CloneSet,
}


async def a_day(client: Client) -> None:
    """Exercise everything that Trimtab does, once."""
    await client.create(Namespace, {"metadata": {"name": NAMESPACE}})
    await begin(client)
    for name in WORKLOADS:
        await until(partial(running, client, name, PODS))
    await until(partial(has_costs, client))
    await taint_a_node(client)
    for name, kind in WORKLOADS.items():
        await client.resize(kind, name, PODS - 1, namespace=NAMESPACE)
        await until(partial(running, client, name, PODS - 1))
    await until(partial(has_told, client))
    first, *_ = await pods(client, "divided")
    await client.delete(Pod, first.metadata.name, namespace=NAMESPACE)
    await until(partial(running, client, "divided", PODS - 1))
    change = {"spec": {"template": {"metadata": {"annotations": {"example.com/version": "2"}}}}}
    await client.patch(CloneSet, "clones", change, namespace=NAMESPACE)
    await until(partial(is_renewed, client))
    for name in ("web", "busy", "clones"):
        await client.delete(ScaleDownPolicy, name, namespace=NAMESPACE)
    await until(partial(is_swept, client))


async def taint_a_node(client: Client) -> None:
    """Taint a node that has one pod of `web`. Kubernetes would take one from the node that has two."""
    nodes = [pod.spec.node_name for pod in await pods(client, "web")]
    taints = [{"key": "example.com/leaving", "effect": "PreferNoSchedule"}]
    alone = next(node for node in nodes if nodes.count(node) == 1)
    await client.patch(Node, alone, {"spec": {"taints": taints}})


async def begin(client: Client) -> None:
    """Policies, a UnitedTopology, workloads, and a pod that fits nowhere."""
    youngest = [{"name": "Youngest"}]
    by_group = policy(
        "clones", "CloneSet", "clones", delivery="Continuous", carrier="PodGroupCost", strategies=youngest
    )
    for each in (
        policy("web", "Deployment", "web", strategies=[{"name": "PreferNoSchedule"}]),
        policy("busy", "Deployment", "busy", delivery="Continuous"),
        policy("idle", "ReplicaSet", "set", strategies=[{"name": "Idle"}]),
        by_group,
    ):
        await create(client, ScaleDownPolicy, each)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "divided"}
    subsets = [
        {"name": "a", "maxReplicas": 1, "nodeSelectorTerm": zone("zone-a")},
        {"name": "b", "nodeSelectorTerm": zone("zone-b")},
    ]
    topology = {"metadata": {"name": "divided"}, "spec": {"targetRef": target, "subsets": subsets}}
    await create(client, UnitedTopology, topology)
    await until(partial(is_labelled, client))
    for name, kind in WORKLOADS.items():
        tree = workload(name, PODS)
        if kind is ReplicationController:
            tree["spec"]["selector"] = {"app": name}
        if kind is CloneSet:
            tree["spec"]["revisionHistoryLimit"] = 0
        await create(client, kind, tree)
    huge = {"containers": [{"name": "web", "image": "x", "resources": {"requests": {"cpu": "9999"}}}]}
    await create(client, Pod, {"metadata": {"name": "huge"}, "spec": huge})


async def is_labelled(client: Client) -> bool:
    """Whether the namespace is labelled as having a UnitedTopology."""
    return NAMESPACE_LABEL in (await client.get(Namespace, NAMESPACE)).metadata.labels


def zone(name: str) -> JSON:
    """Nodes of one zone."""
    return {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [name]}]}


async def has_costs(client: Client) -> bool:
    """Whether policies that keep costs current have written them."""
    groups = (await client.list(PodGroupCost, namespace=NAMESPACE)).items
    return bool(groups) and any(POLICY_COST in pod.metadata.annotations for pod in await pods(client, "busy"))


async def has_told(client: Client) -> bool:
    """Whether the policy's status has its last plan."""
    return (await client.get(ScaleDownPolicy, "web", namespace=NAMESPACE)).status.last_plan is not None


async def is_renewed(client: Client) -> bool:
    """Whether all pods are of the new revision, and there is one revision left."""
    revisions = (await client.list(ControllerRevision, namespace=NAMESPACE)).items
    found = await pods(client, "clones")
    return len(revisions) == 1 and all("example.com/version" in pod.metadata.annotations for pod in found)


async def is_swept(client: Client) -> bool:
    """Whether nothing of the deleted policies is left."""
    groups = (await client.list(PodGroupCost, namespace=NAMESPACE)).items
    return not groups and not any(POLICY_COST in pod.metadata.annotations for pod in await pods(client, "busy"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def heard(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, set[Call]]]:
    """The calls of each component."""
    told = configured(namespace="trimtab-system", featureGates={"CloneSetPodCost": True})
    async with a_cluster(tmp_path_factory.mktemp("lab")) as (client, kubeconfig):
        await client.create(Namespace, {"metadata": {"name": "trimtab-system"}})
        async with product(client, kubeconfig, told) as running:
            await a_day(client)
        yield {name: listening.calls for name, listening in running.heard.items()}


def rules(component: str) -> tuple[list[JSON], list[JSON]]:
    """What a component may do in the cluster, and in its own namespace."""
    name = account(component)
    found = {
        each["kind"]: each["rules"]
        for each in access.manifests(Options())
        if each["metadata"]["name"] == name and "rules" in each
    }
    return found["ClusterRole"], found["Role"]


def rules_within(component: str) -> tuple[list[JSON], list[JSON]]:
    """What a component may do in the cluster, and in the one namespace that it is limited to."""
    made = list(access.manifests(Options(configuration={"namespaces": [NAMESPACE]})))
    roles = {each["metadata"]["name"]: each["rules"] for each in made if each["kind"] == "ClusterRole"}
    bound: dict[str, list[JSON]] = {"": [], NAMESPACE: []}
    for each in made:
        where = each["metadata"].get("namespace", "")
        if "subjects" in each and where in bound and each["subjects"][0]["name"] == account(component):
            bound[where] += roles[each["roleRef"]["name"]]
    return bound[""], bound[NAMESPACE]


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_asks_for_nothing_that_it_is_not_let(component: str, heard: dict[str, set[Call]]) -> None:
    """Every call is covered by its roles: those of the cluster, or, in Trimtab's own namespace, those of that."""
    cluster, own = rules(component)
    refused = [
        str(call)
        for call in sorted(heard[component])
        if not call.is_allowed(cluster) and not (call.namespace == "trimtab-system" and call.is_allowed(own))
    ]
    assert refused == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_that_looks_after_some_namespaces_may_write_in_those_alone(
    component: str, heard: dict[str, set[Call]]
) -> None:
    """What it asks is still covered, and outside of them, and of Trimtab's own, it may only read."""
    cluster, there = rules_within(component)
    _, own = rules(component)
    refused = [
        str(call)
        for call in sorted(heard[component])
        if not call.is_allowed(cluster)
        and not (call.namespace == NAMESPACE and call.is_allowed(there))
        and not (call.namespace == "trimtab-system" and call.is_allowed(own))
    ]
    assert refused == []
    writing = [rule for rule in cluster if set(rule["verbs"]) - {"get", "list", "watch"}]
    assert {name for rule in writing for name in rule.get("resourceNames", ["*"])} <= {NAMESPACE, "trimtab"}


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_let_nothing_that_it_does_not_ask_for(component: str, heard: dict[str, set[Call]]) -> None:
    """Every permission was used, or is listed with the rare case that needs it. What is watched is listed in pages too,
    where an API server or a proxy does not stream lists."""
    asked = {(call.group, call.resource, call.verb) for call in heard[component]}
    asked |= {(group, resource, "list") for group, resource, verb in asked if verb == "watch"}
    granted = {
        (group, resource, verb)
        for rule in [rule for part in rules(component) for rule in part]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted - asked - set(RARE[component]) == set()


def test_rare_cases_are_still_granted() -> None:
    """A case that goes takes its line with it."""
    for component, cases in RARE.items():
        for group, resource, verb in cases:
            cluster, own = rules(component)
            name = "trimtab-webhook-certificates"
            assert Call(verb, group, resource, name=name).is_allowed([*cluster, *own]), (
                f"{component}: {verb} {resource}"
            )
