"""Object lifecycles: versions, generations, finalizers, grace periods, owners, namespaces, definitions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.lab.wire import (
    CONFIG_MAPS,
    CORE,
    CRDS,
    DEPLOYMENTS,
    JSON_PATCH,
    PODS,
    REPLICA_SETS,
    Tree,
    Wire,
    config_map,
    deployment,
    owned_by,
    pod,
)
from tools.webhooks import WebhookServer
from trimtab_lab.apiserver.wire.server import Server

THINGS = "/apis/example.com/v1/namespaces/default/things"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def definition(**version: Any) -> Tree:
    """A custom kind that accepts any field."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    one = {"name": "v1", "served": True, "storage": True, "schema": schema, **version}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [one]}
    return {"metadata": {"name": "things.example.com"}, "spec": spec}


def thing(name: str, **more: Any) -> Tree:
    """An object of that kind."""
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, **more}


# --- versions and generations ----------------------------------------------------------------------------------------


async def test_one_version_counts_all_changes(wire: Wire) -> None:
    """Each change of any kind takes the next version; a list has the present one."""
    first = await wire.create(CONFIG_MAPS, config_map("a"))
    second = await wire.create(PODS, pod())
    listed = await wire.get(CONFIG_MAPS)
    versions = [int(tree["metadata"]["resourceVersion"]) for tree in (first, second, listed)]
    assert versions == [versions[0], versions[0] + 1, versions[0] + 1]


async def test_the_generation_counts_changes_of_the_desired_state(wire: Wire) -> None:
    """Changes of the spec, and for a Deployment of the annotations; not of labels and status."""
    path = f"{DEPLOYMENTS}/web"
    await wire.create(DEPLOYMENTS, deployment())
    generations = [
        (await wire.patch(path, {"metadata": {"labels": {"a": "b"}}}))["metadata"]["generation"],
        (await wire.patch(f"{path}/status", {"status": {"replicas": 3}}))["metadata"]["generation"],
        (await wire.patch(path, {"spec": {"replicas": 4}}))["metadata"]["generation"],
        (await wire.patch(path, {"metadata": {"annotations": {"a": "b"}}}))["metadata"]["generation"],
    ]
    assert generations == [1, 1, 2, 3]


async def test_the_status_is_a_subresource(wire: Wire) -> None:
    """An update ignores the status, and an update of the status ignores the spec."""
    await wire.create(DEPLOYMENTS, deployment() | {"status": {"replicas": 9}})
    path = f"{DEPLOYMENTS}/web"
    changed = await wire.patch(path, {"spec": {"replicas": 4}, "status": {"replicas": 9}})
    assert changed["status"] == {}
    changed = await wire.patch(f"{path}/status", {"spec": {"replicas": 5}, "status": {"replicas": 4}})
    assert (changed["spec"]["replicas"], changed["status"]) == (4, {"replicas": 4})


async def test_a_dry_run_creates_nothing(wire: Wire) -> None:
    """A dry run has the usual response, and changes nothing; an existing name is a conflict."""
    created = await wire.create(f"{PODS}?dryRun=All", pod() | {"metadata": {"generateName": "web-"}})
    assert created["metadata"]["name"].startswith("web-")
    assert "resourceVersion" not in created["metadata"]
    assert await wire.names(PODS) == []
    await wire.create(PODS, pod())
    assert (await wire.call("POST", f"{PODS}?dryRun=All", pod())).status == 409
    changed = await wire.patch(f"{PODS}/web?dryRun=All", {"metadata": {"labels": {"a": "b"}}})
    assert changed["metadata"]["labels"] == {"a": "b"}
    assert (await wire.call("DELETE", f"{PODS}/web?dryRun=All")).status == 200
    assert "labels" not in (await wire.get(f"{PODS}/web"))["metadata"]


async def test_leases_are_created_by_updates(wire: Wire) -> None:
    """A PUT creates objects of some kinds, not of most."""
    lease = {"metadata": {"name": "node-1"}, "spec": {"holderIdentity": "node-1", "leaseDurationSeconds": 40}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/node-1"
    assert (await wire.call("PUT", path, lease)).status == 201
    assert (await wire.call("PUT", path, lease)).status == 422
    assert (await wire.call("PUT", f"{CONFIG_MAPS}/a", config_map("a"))).status == 404


# --- deletion --------------------------------------------------------------------------------------------------------


async def test_a_finalizer_delays_the_deletion(wire: Wire) -> None:
    """The object gets a deletionTimestamp, no finalizer can be added, and it is removed with the last one."""
    held = config_map("a")
    held["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    await wire.create(CONFIG_MAPS, held)
    marked = await wire.call("DELETE", f"{CONFIG_MAPS}/a")
    assert "deletionTimestamp" in marked.tree["metadata"]
    more = {"metadata": {"finalizers": ["example.com/one", "example.com/new"]}}
    assert (await wire.call("PATCH", f"{CONFIG_MAPS}/a", more, content="application/merge-patch+json")).status == 422
    again = await wire.call("POST", CONFIG_MAPS, config_map("a"))
    assert again.tree["message"] == 'object is being deleted: configmaps "a" already exists'
    await wire.patch(f"{CONFIG_MAPS}/a", [{"op": "remove", "path": "/metadata/finalizers/0"}], JSON_PATCH)
    assert (await wire.call("GET", f"{CONFIG_MAPS}/a")).status == 200
    await wire.patch(f"{CONFIG_MAPS}/a", [{"op": "remove", "path": "/metadata/finalizers/0"}], JSON_PATCH)
    assert (await wire.call("GET", f"{CONFIG_MAPS}/a")).status == 404


async def test_a_pod_on_a_node_is_deleted_gracefully(wire: Wire) -> None:
    """With its own or the requested grace period, which can be shortened but not extended; zero removes the pod."""
    await wire.create(PODS, pod(nodeName="n1", terminationGracePeriodSeconds=20))

    async def grace(query: str) -> Any:
        return (await wire.call("DELETE", f"{PODS}/web{query}")).tree["metadata"]["deletionGracePeriodSeconds"]

    assert [await grace(""), await grace("?gracePeriodSeconds=60"), await grace("?gracePeriodSeconds=5")] == [20, 20, 5]
    assert (await wire.call("GET", f"{PODS}/web")).status == 200
    await wire.call("DELETE", f"{PODS}/web?gracePeriodSeconds=0")
    assert (await wire.call("GET", f"{PODS}/web")).status == 404


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        pytest.param({}, "", id="it was never placed"),
        pytest.param({"nodeName": "n1"}, "Succeeded", id="it has ended well"),
        pytest.param({"nodeName": "n1"}, "Failed", id="it has failed"),
    ],
)
async def test_a_pod_that_does_not_run_is_removed_at_once(wire: Wire, spec: Tree, phase: str) -> None:
    """No kubelet would remove it. Watchers see the deletionTimestamp first, then the deletion."""
    created = await wire.create(PODS, pod(**spec))
    version = created["metadata"]["resourceVersion"]
    if phase:
        version = (await wire.patch(f"{PODS}/web/status", {"status": {"phase": phase}}))["metadata"]["resourceVersion"]
    await wire.call("DELETE", f"{PODS}/web")
    async with wire.watch(f"{PODS}?watch=1&resourceVersion={version}") as stream:
        assert await stream.events(2) == [("MODIFIED", "web"), ("DELETED", "web")]


async def test_a_selection_is_deleted(wire: Wire) -> None:
    """The response lists the deleted objects."""
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front")):
        await wire.create(CONFIG_MAPS, config_map(name, tier=tier))
    reply = await wire.call("DELETE", f"{CONFIG_MAPS}?labelSelector=tier%3Dfront")
    assert [item["metadata"]["name"] for item in reply.tree["items"]] == ["a", "c"]
    assert await wire.names(CONFIG_MAPS) == ["b", "kube-root-ca.crt"]


# --- owners ----------------------------------------------------------------------------------------------------------


async def _family(wire: Wire, *, block: bool = True) -> None:
    """A Deployment, its ReplicaSet and two pods."""
    parent = await wire.create(DEPLOYMENTS, deployment())
    child = {**deployment("web-1"), "kind": "ReplicaSet"}
    owner = await wire.create(REPLICA_SETS, owned_by(parent, child, block=block))
    for name in ("one", "two"):
        await wire.create(PODS, owned_by(owner, pod(name), block=block))


@pytest.mark.parametrize("block", [pytest.param(True, id="blocking"), pytest.param(False, id="not blocking")])
@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_dependents_are_deleted_with_their_owner(wire: Wire, server: Server, policy: str, *, block: bool) -> None:
    """Dependents of dependents too, with every propagation policy."""
    await _family(wire, block=block)
    await wire.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": policy})
    await server.settled()
    assert [await wire.names(path) for path in (DEPLOYMENTS, REPLICA_SETS, PODS)] == [[], [], []]


async def test_in_the_foreground_the_owner_is_removed_last(wire: Wire, server: Server) -> None:
    """It waits for blocking dependents, here a pod with a grace period."""
    parent = await wire.create(DEPLOYMENTS, deployment())
    await wire.create(PODS, owned_by(parent, pod(nodeName="n1")))
    reply = await wire.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Foreground"})
    assert reply.tree["metadata"]["finalizers"] == ["foregroundDeletion"]
    await server.settled()
    assert "deletionTimestamp" in (await wire.get(f"{PODS}/web"))["metadata"]
    assert (await wire.call("GET", f"{DEPLOYMENTS}/web")).status == 200
    await wire.call("DELETE", f"{PODS}/web?gracePeriodSeconds=0")
    await server.settled()
    assert (await wire.call("GET", f"{DEPLOYMENTS}/web")).status == 404


async def test_orphans_lose_their_owner_reference(wire: Wire, server: Server) -> None:
    """They stay."""
    await _family(wire)
    await wire.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Orphan"})
    await server.settled()
    assert await wire.names(DEPLOYMENTS) == []
    assert "ownerReferences" not in (await wire.get(f"{REPLICA_SETS}/web-1"))["metadata"]
    assert await wire.names(PODS) == ["one", "two"]


async def test_an_object_with_another_owner_stays(wire: Wire, server: Server) -> None:
    """The reference to the deleted owner is removed."""
    one = await wire.create(CONFIG_MAPS, config_map("one") | {"apiVersion": "v1", "kind": "ConfigMap"})
    two = await wire.create(CONFIG_MAPS, config_map("two"))
    child = owned_by(one, config_map("child"))
    child["metadata"]["ownerReferences"][0]["controller"] = False
    child["metadata"]["ownerReferences"] += owned_by(two, child)["metadata"]["ownerReferences"]
    await wire.create(CONFIG_MAPS, child)
    await wire.call("DELETE", f"{CONFIG_MAPS}/one")
    await server.settled()
    owners = (await wire.get(f"{CONFIG_MAPS}/child"))["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["two"]


async def test_an_object_whose_owner_never_existed_is_deleted(wire: Wire, server: Server) -> None:
    """It is like one whose owner was deleted."""
    parent = await wire.create(CONFIG_MAPS, config_map("parent"))
    await wire.call("DELETE", f"{CONFIG_MAPS}/parent")
    await wire.create(CONFIG_MAPS, owned_by(parent, config_map("child")))
    await server.settled()
    assert (await wire.call("GET", f"{CONFIG_MAPS}/child")).status == 404


async def test_an_object_with_an_owner_of_an_unknown_kind_stays(wire: Wire, server: Server) -> None:
    """It is not known whether that owner exists."""
    owner = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "north", "uid": "u-1"}}
    await wire.create(CONFIG_MAPS, owned_by(owner, config_map("child")))
    await server.settled()
    assert (await wire.call("GET", f"{CONFIG_MAPS}/child")).status == 200


# --- namespaces ------------------------------------------------------------------------------------------------------


async def test_the_lifecycle_of_a_namespace(wire: Wire, server: Server) -> None:
    """A new one has what pods need; a deleted one accepts no objects, and is removed when it is empty."""
    inside = "/api/v1/namespaces/shop"
    await wire.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    await server.settled()
    assert await wire.names(f"{inside}/serviceaccounts") == ["default"]
    assert await wire.names(f"{inside}/configmaps") == ["kube-root-ca.crt"]
    await wire.create(f"{inside}/pods", pod(nodeName="n1"))
    reply = await wire.call("DELETE", inside)
    assert reply.tree["status"]["phase"] == "Terminating"
    await server.settled()
    refused = await wire.call("POST", f"{inside}/configmaps", config_map("late"))
    assert (refused.status, refused.causes) == (403, [("metadata.namespace", "NamespaceTerminating")])
    waiting = {c["type"]: c["status"] for c in (await wire.get(inside))["status"]["conditions"]}
    assert waiting["NamespaceContentRemaining"] == "True"
    await wire.call("DELETE", f"{inside}/pods/web?gracePeriodSeconds=0")
    await server.settled()
    assert (await wire.call("GET", inside)).status == 404
    assert await wire.names("/api/v1/serviceaccounts") == ["default"] * 4


async def test_nothing_is_created_where_there_is_no_namespace(wire: Wire) -> None:
    """The error names the namespace; lists are empty."""
    reply = await wire.call("POST", "/api/v1/namespaces/nowhere/pods", pod())
    assert (reply.status, reply.tree["message"]) == (404, 'namespaces "nowhere" not found')
    assert await wire.names("/api/v1/namespaces/nowhere/pods") == []


# --- what depends on other objects -----------------------------------------------------------------------------------


async def test_a_pod_has_the_priority_of_its_class(wire: Wire) -> None:
    """A class by name, the default one, or none; an unknown class is an error, and so is a second default."""
    assert (await wire.create(PODS, pod("a")))["spec"]["priority"] == 0
    await wire.create(PRIORITIES, {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"})
    named = (await wire.create(PODS, pod("b", priorityClassName="high")))["spec"]
    assert (named["priority"], named["preemptionPolicy"]) == (100, "Never")
    await wire.create(PRIORITIES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    usual = (await wire.create(PODS, pod("c")))["spec"]
    assert (usual["priority"], usual["priorityClassName"]) == (7, "usual")
    assert (await wire.call("POST", PODS, pod("d", priorityClassName="none"))).status == 403
    assert (await wire.call("POST", PODS, pod("e", priority=3))).status == 403
    second = {"metadata": {"name": "other"}, "value": 8, "globalDefault": True}
    assert (await wire.call("POST", PRIORITIES, second)).status == 403


async def test_services_get_unique_addresses(wire: Wire) -> None:
    """An allocated address is an error, a released one is not."""
    services = f"{CORE}/services"
    ports = {"ports": [{"port": 80}]}
    created = [
        await wire.create(services, {"metadata": {"name": n}, "spec": {"type": "NodePort", **ports}}) for n in "ab"
    ]
    assert len({service["spec"]["clusterIP"] for service in created}) == 2
    assert len({service["spec"]["ports"][0]["nodePort"] for service in created}) == 2
    same = {"metadata": {"name": "c"}, "spec": {"clusterIP": created[0]["spec"]["clusterIP"], **ports}}
    assert (await wire.call("POST", services, same)).status == 422
    await wire.call("DELETE", f"{services}/a")
    await wire.create(services, same)
    headless = await wire.create(services, {"metadata": {"name": "d"}, "spec": {"clusterIP": "None", **ports}})
    assert headless["spec"]["clusterIPs"] == ["None"]


async def test_a_pod_is_bound_once(wire: Wire) -> None:
    """It gets the node, the condition and the topology labels; a second binding is a conflict. The deprecated path
    works too."""
    labels = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "other": "x"}
    await wire.create("/api/v1/nodes", {"metadata": {"name": "n1", "labels": labels}})
    await wire.create(PODS, pod())
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
    assert (await wire.call("POST", f"{CORE}/bindings", binding)).status == 201
    bound = await wire.get(f"{PODS}/web")
    assert bound["metadata"]["labels"] == {k: labels[k] for k in sorted(labels) if k != "other"}
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    assert (await wire.call("POST", f"{PODS}/web/binding", binding)).status == 409


async def test_keys_of_labels_are_merged_into_selectors(wire: Wire) -> None:
    """`matchLabelKeys` are merged into the selector with the pod's labels, so that schedulers need not know them."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["hash"],
    }
    tree = pod(topologySpreadConstraints=[constraint])
    tree["metadata"]["labels"] = {"app": "web", "hash": "7"}
    created = (await wire.create(PODS, tree))["spec"]["topologySpreadConstraints"][0]
    assert created["labelSelector"]["matchExpressions"] == [{"key": "hash", "operator": "In", "values": ["7"]}]


# --- definitions -----------------------------------------------------------------------------------------------------


async def test_the_lifecycle_of_a_definition(wire: Wire, server: Server) -> None:
    """Its objects can be created at once; when it is deleted, its objects and its path are removed."""
    await wire.create(CRDS, definition())
    await wire.create(THINGS, thing("a", spec={"whatever": [1, {"x": None}]}))
    await server.settled()
    states = {c["type"]: c["status"] for c in (await wire.get(f"{CRDS}/things.example.com"))["status"]["conditions"]}
    assert states == {"NamesAccepted": "True", "Established": "True"}
    await wire.call("DELETE", f"{CRDS}/things.example.com")
    await server.settled()
    assert (await wire.call("GET", THINGS)).status == 404
    assert await wire.names(CRDS) == []


async def test_a_finalizer_delays_the_deletion_of_a_definition(wire: Wire, server: Server) -> None:
    """Until the finalizer is removed."""
    await wire.create(CRDS, definition())
    held = thing("a")
    held["metadata"]["finalizers"] = ["example.com/wait"]
    await wire.create(THINGS, held)
    await wire.call("DELETE", f"{CRDS}/things.example.com")
    await server.settled()
    assert await wire.names(CRDS) == ["things.example.com"]
    await wire.patch(f"{THINGS}/a", {"metadata": {"finalizers": None}})
    await server.settled()
    assert await wire.names(CRDS) == []


async def test_conflicting_names_are_not_accepted(wire: Wire, server: Server) -> None:
    """Names of another definition, or of built-in kinds; the older ones are still served."""
    await wire.create(CRDS, definition())
    await wire.create(THINGS, thing("a"))
    other = definition()
    other["metadata"]["name"] = "stuff.example.com"
    other["spec"]["names"] = {"plural": "stuff", "kind": "Thing"}
    await wire.create(CRDS, other)
    await server.settled()
    states = {c["type"]: c["status"] for c in (await wire.get(f"{CRDS}/stuff.example.com"))["status"]["conditions"]}
    assert states == {"NamesAccepted": "False", "Established": "False"}
    assert await wire.names(THINGS) == ["a"]


async def test_versions_of_a_custom_kind_are_one_object(wire: Wire) -> None:
    """An object that is written in one version can be read in another; a deprecated version warns."""
    crd = definition()
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v2", "storage": False, "deprecated": True})
    await wire.create(CRDS, crd)
    await wire.create(THINGS, thing("a", spec={"x": 1}))
    reply = await wire.call("GET", THINGS.replace("/v1/", "/v2/") + "/a")
    assert (reply.tree["apiVersion"], reply.tree["spec"]) == ("example.com/v2", {"x": 1})
    assert reply.warnings == ['299 - "example.com/v2 Thing is deprecated"']


# --- webhooks --------------------------------------------------------------------------------------------------------


async def test_writes_during_a_webhook_call_are_not_lost(wire: Wire, server: Server) -> None:
    """A conflicting patch is applied again to the present state."""
    async with WebhookServer() as webhooks:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]}
        hook = {
            "name": "allow.example.com",
            "clientConfig": {"url": f"{webhooks.url}/allow", "caBundle": webhooks.ca},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        await wire.create(CONFIG_MAPS, config_map("a"))
        await wire.create(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {"metadata": {"name": "hooks"}, "webhooks": [hook]},
        )
        asked = len(webhooks.reviews)
        changes = [wire.patch(f"{CONFIG_MAPS}/a", {"data": {f"k{n}": "v"}}) for n in range(4)]
        await asyncio.gather(*changes)
        assert len(webhooks.reviews) - asked > 4
    assert server.cluster.store.collection("/configmaps").entries["default/a"].tree()["data"] == {
        f"k{n}": "v" for n in range(4)
    }
