"""How objects come, change and go: versions, generations, finalizers, grace, owners, namespaces, definitions."""

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
    """A custom kind that keeps whatever it is given."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    one = {"name": "v1", "served": True, "storage": True, "schema": schema, **version}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [one]}
    return {"metadata": {"name": "things.example.com"}, "spec": spec}


def thing(name: str, **more: Any) -> Tree:
    """An object of it."""
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, **more}


# --- versions and generations ----------------------------------------------------------------------------------------


async def test_one_version_counts_all_changes(wire: Wire) -> None:
    """Whatever the kind, each change takes the next version; a list tells the present one."""
    first = await wire.create(CONFIG_MAPS, config_map("a"))
    second = await wire.create(PODS, pod())
    listed = await wire.get(CONFIG_MAPS)
    versions = [int(tree["metadata"]["resourceVersion"]) for tree in (first, second, listed)]
    assert versions == [versions[0], versions[0] + 1, versions[0] + 1]


async def test_the_generation_counts_what_is_asked_for(wire: Wire) -> None:
    """Labels and status do not count; the spec does, and of a deployment the annotations too."""
    path = f"{DEPLOYMENTS}/web"
    await wire.create(DEPLOYMENTS, deployment())
    generations = [
        (await wire.patch(path, {"metadata": {"labels": {"a": "b"}}}))["metadata"]["generation"],
        (await wire.patch(f"{path}/status", {"status": {"replicas": 3}}))["metadata"]["generation"],
        (await wire.patch(path, {"spec": {"replicas": 4}}))["metadata"]["generation"],
        (await wire.patch(path, {"metadata": {"annotations": {"a": "b"}}}))["metadata"]["generation"],
    ]
    assert generations == [1, 1, 2, 3]


async def test_the_status_has_a_path_of_its_own(wire: Wire) -> None:
    """What an update says about the status is ignored, and what an update of the status says about the spec."""
    await wire.create(DEPLOYMENTS, deployment() | {"status": {"replicas": 9}})
    path = f"{DEPLOYMENTS}/web"
    changed = await wire.patch(path, {"spec": {"replicas": 4}, "status": {"replicas": 9}})
    assert changed["status"] == {}
    changed = await wire.patch(f"{path}/status", {"spec": {"replicas": 5}, "status": {"replicas": 4}})
    assert (changed["spec"]["replicas"], changed["status"]) == (4, {"replicas": 4})


async def test_what_is_created_as_a_rehearsal_is_not_there(wire: Wire) -> None:
    """A dry run answers as if, and changes nothing; a name that is taken is refused as ever."""
    made = await wire.create(f"{PODS}?dryRun=All", pod() | {"metadata": {"generateName": "web-"}})
    assert made["metadata"]["name"].startswith("web-")
    assert "resourceVersion" not in made["metadata"]
    assert await wire.names(PODS) == []
    await wire.create(PODS, pod())
    assert (await wire.call("POST", f"{PODS}?dryRun=All", pod())).status == 409
    changed = await wire.patch(f"{PODS}/web?dryRun=All", {"metadata": {"labels": {"a": "b"}}})
    assert changed["metadata"]["labels"] == {"a": "b"}
    assert (await wire.call("DELETE", f"{PODS}/web?dryRun=All")).status == 200
    assert "labels" not in (await wire.get(f"{PODS}/web"))["metadata"]


async def test_leases_are_created_by_updates(wire: Wire) -> None:
    """Some kinds are created where a PUT finds none, most are not."""
    lease = {"metadata": {"name": "node-1"}, "spec": {"holderIdentity": "node-1", "leaseDurationSeconds": 40}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/node-1"
    assert (await wire.call("PUT", path, lease)).status == 201
    assert (await wire.call("PUT", path, lease)).status == 422
    assert (await wire.call("PUT", f"{CONFIG_MAPS}/a", config_map("a"))).status == 404


# --- deletion --------------------------------------------------------------------------------------------------------


async def test_a_finalizer_holds_an_object_up(wire: Wire) -> None:
    """It is marked, no finalizer can be added, and it goes with the last one."""
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


async def test_a_pod_on_a_node_goes_gracefully(wire: Wire) -> None:
    """Its grace is its own or the one asked for, can be shortened and not prolonged, and ends with a zero."""
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
async def test_a_pod_that_does_not_run_goes_at_once(wire: Wire, spec: Tree, phase: str) -> None:
    """Nobody would end it. Watchers see the mark, and then the end."""
    made = await wire.create(PODS, pod(**spec))
    version = made["metadata"]["resourceVersion"]
    if phase:
        version = (await wire.patch(f"{PODS}/web/status", {"status": {"phase": phase}}))["metadata"]["resourceVersion"]
    await wire.call("DELETE", f"{PODS}/web")
    async with wire.watch(f"{PODS}?watch=1&resourceVersion={version}") as stream:
        assert await stream.events(2) == [("MODIFIED", "web"), ("DELETED", "web")]


async def test_all_of_a_selection_are_deleted(wire: Wire) -> None:
    """The answer lists what they were."""
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
async def test_a_family_goes_with_its_head(wire: Wire, server: Server, policy: str, *, block: bool) -> None:
    """Dependents of dependents too, whichever order was asked for."""
    await _family(wire, block=block)
    await wire.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": policy})
    await server.settled()
    assert [await wire.names(path) for path in (DEPLOYMENTS, REPLICA_SETS, PODS)] == [[], [], []]


async def test_in_the_foreground_the_head_goes_last(wire: Wire, server: Server) -> None:
    """It waits for dependents that block it, here a pod that takes its time."""
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


async def test_orphans_forget_their_owner(wire: Wire, server: Server) -> None:
    """They stay, and nobody owns them."""
    await _family(wire)
    await wire.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Orphan"})
    await server.settled()
    assert await wire.names(DEPLOYMENTS) == []
    assert "ownerReferences" not in (await wire.get(f"{REPLICA_SETS}/web-1"))["metadata"]
    assert await wire.names(PODS) == ["one", "two"]


async def test_who_has_another_owner_stays(wire: Wire, server: Server) -> None:
    """The owner that is gone is forgotten."""
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


async def test_who_is_born_without_its_owner_goes(wire: Wire, server: Server) -> None:
    """An owner that never was is an owner that is gone."""
    parent = await wire.create(CONFIG_MAPS, config_map("parent"))
    await wire.call("DELETE", f"{CONFIG_MAPS}/parent")
    await wire.create(CONFIG_MAPS, owned_by(parent, config_map("child")))
    await server.settled()
    assert (await wire.call("GET", f"{CONFIG_MAPS}/child")).status == 404


async def test_who_is_owned_by_a_kind_that_nobody_serves_stays(wire: Wire, server: Server) -> None:
    """Whether that owner is there cannot be known."""
    owner = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "north", "uid": "u-1"}}
    await wire.create(CONFIG_MAPS, owned_by(owner, config_map("child")))
    await server.settled()
    assert (await wire.call("GET", f"{CONFIG_MAPS}/child")).status == 200


# --- namespaces ------------------------------------------------------------------------------------------------------


async def test_a_namespace_is_furnished_and_emptied(wire: Wire, server: Server) -> None:
    """A new one has what pods need; one that is deleted takes no more, and goes when it is empty."""
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
    """The refusal names the namespace; lists there are empty."""
    reply = await wire.call("POST", "/api/v1/namespaces/nowhere/pods", pod())
    assert (reply.status, reply.tree["message"]) == (404, 'namespaces "nowhere" not found')
    assert await wire.names("/api/v1/namespaces/nowhere/pods") == []


# --- what depends on other objects -----------------------------------------------------------------------------------


async def test_a_pod_has_the_priority_of_its_class(wire: Wire) -> None:
    """A class by name, the default one, or none; a class that is not there is refused, and so is a second default."""
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


async def test_services_get_addresses_that_are_free_again_later(wire: Wire) -> None:
    """No two have the same; one that is taken is refused, one that was given back is not."""
    services = f"{CORE}/services"
    ports = {"ports": [{"port": 80}]}
    made = [await wire.create(services, {"metadata": {"name": n}, "spec": {"type": "NodePort", **ports}}) for n in "ab"]
    assert len({service["spec"]["clusterIP"] for service in made}) == 2
    assert len({service["spec"]["ports"][0]["nodePort"] for service in made}) == 2
    same = {"metadata": {"name": "c"}, "spec": {"clusterIP": made[0]["spec"]["clusterIP"], **ports}}
    assert (await wire.call("POST", services, same)).status == 422
    await wire.call("DELETE", f"{services}/a")
    await wire.create(services, same)
    headless = await wire.create(services, {"metadata": {"name": "d"}, "spec": {"clusterIP": "None", **ports}})
    assert headless["spec"]["clusterIPs"] == ["None"]


async def test_a_pod_is_bound_once(wire: Wire) -> None:
    """It gets the node, the condition and the topology; then nobody else can have it. The old path does the same."""
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
    """`matchLabelKeys` are written out for the pod that has them, so that schedulers need not know them."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["hash"],
    }
    tree = pod(topologySpreadConstraints=[constraint])
    tree["metadata"]["labels"] = {"app": "web", "hash": "7"}
    made = (await wire.create(PODS, tree))["spec"]["topologySpreadConstraints"][0]
    assert made["labelSelector"]["matchExpressions"] == [{"key": "hash", "operator": "In", "values": ["7"]}]


# --- definitions -----------------------------------------------------------------------------------------------------


async def test_a_definition_takes_effect_at_once_and_goes_with_its_objects(wire: Wire, server: Server) -> None:
    """Its objects can be created right away; when it is deleted they go, and the path with them."""
    await wire.create(CRDS, definition())
    await wire.create(THINGS, thing("a", spec={"whatever": [1, {"x": None}]}))
    await server.settled()
    states = {c["type"]: c["status"] for c in (await wire.get(f"{CRDS}/things.example.com"))["status"]["conditions"]}
    assert states == {"NamesAccepted": "True", "Established": "True"}
    await wire.call("DELETE", f"{CRDS}/things.example.com")
    await server.settled()
    assert (await wire.call("GET", THINGS)).status == 404
    assert await wire.names(CRDS) == []


async def test_an_object_with_a_finalizer_holds_its_definition_up(wire: Wire, server: Server) -> None:
    """Until somebody takes the finalizer away."""
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


async def test_names_that_are_taken_are_not_accepted(wire: Wire, server: Server) -> None:
    """By another definition, or by built-in kinds; what was there first is served on."""
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
    """What is written in one version is read in another; a deprecated one warns."""
    crd = definition()
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v2", "storage": False, "deprecated": True})
    await wire.create(CRDS, crd)
    await wire.create(THINGS, thing("a", spec={"x": 1}))
    reply = await wire.call("GET", THINGS.replace("/v1/", "/v2/") + "/a")
    assert (reply.tree["apiVersion"], reply.tree["spec"]) == ("example.com/v2", {"x": 1})
    assert reply.warnings == ['299 - "example.com/v2 Thing is deprecated"']


# --- webhooks --------------------------------------------------------------------------------------------------------


async def test_while_a_webhook_is_asked_others_may_write(wire: Wire, server: Server) -> None:
    """A change that was overtaken is made again on what is there now: nothing that was written is lost."""
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
