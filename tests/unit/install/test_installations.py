"""Several installations in one cluster: they share no object, and a removal leaves the others as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.install.test_removal import a_cluster, a_namespace, left, put
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, NAMESPACE_LABEL, SCALE_PLAN, PlanAnnotation
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.install import installations, manifests, removal
from trimtab.install.installations import Installation
from trimtab.install.options import DEFAULT_CONFIGURATION, INSTANCE, Options
from trimtab.kube.client import Client
from trimtab.kube.resources import untyped

PLAN = PlanAnnotation(
    plan="p", workload="Deployment/web", uid="u", generation=1, to=2, share=2, side="victims", cost=-5, at=0
)


def installation(namespace: str, *managed: str) -> Options:
    """An installation that manages some namespaces."""
    return Options(namespace=namespace, configuration={**DEFAULT_CONFIGURATION, "namespaces": list(managed)})


RED, BLUE = installation("red", "shop"), installation("blue", "bank")


def identities(options: Options) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of every object."""
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in manifests.everything(options)
    }


def test_installations_share_no_object() -> None:
    """Not even where both manage the same namespace, or where one name is the beginning of another."""
    made = [
        identities(options)
        for options in (Options(), RED, BLUE, installation("red-x", "shop"), installation("group", "shop"))
    ]
    for at, one in enumerate(made):
        for other in made[at + 1 :]:
            assert not one & other


def test_a_cluster_scoped_object_carries_its_installation() -> None:
    """In its name and in a label; the usual namespace keeps the short names, so that nothing is left by an upgrade."""
    for each in manifests.everything(RED):
        if "namespace" not in each["metadata"] and each["kind"] != "Namespace":
            assert each["metadata"]["name"].endswith(".red")
        assert each["metadata"]["labels"][INSTANCE] == "red"
    names = {name for kind, _, name in identities(Options()) if kind.startswith("Cluster")}
    assert "trimtab-webhooks" in names
    assert not any("." in name for name in names)


def test_roles_and_policies_are_bound_by_the_names_they_have() -> None:
    """A binding names what is installed."""
    made = manifests.everything(RED)
    present = {(each["kind"], each["metadata"]["name"]) for each in made}
    references = [(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in made if "roleRef" in each] + [
        ("ValidatingAdmissionPolicy", each["spec"]["policyName"])
        for each in made
        if each["kind"] == "ValidatingAdmissionPolicyBinding"
    ]
    assert len(references) > 10
    assert set(references) <= present


def test_costs_are_protected_where_the_installation_manages_them() -> None:
    """Another installation writes the costs of its own namespaces."""
    selectors = [
        each["spec"]["matchResources"]["namespaceSelector"]
        for each in manifests.everything(RED)
        if each["kind"] == "ValidatingAdmissionPolicyBinding" and "costs" in each["metadata"]["name"]
    ]
    wanted = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]}
    assert [each["matchExpressions"] for each in selectors] == [[wanted], [wanted]]


async def test_removal_leaves_another_installation_as_it_is(tmp_path: Path) -> None:
    """All of its objects, and what it wrote to pods and namespaces."""
    async with a_cluster(tmp_path) as client:
        await put(client, a_namespace("shop"), a_namespace("bank"))
        for options in (RED, BLUE):
            await put(client, *manifests.everything(options))
        for namespace in ("shop", "bank"):
            await _written(client, namespace)
        before = await left(client, manifests.everything(BLUE))
        lines: list[str] = []
        assert await removal.remove(client, await removal.installed(client, "red"), lines.append) == []
        assert await left(client, manifests.everything(RED)) == []
        assert await left(client, manifests.everything(BLUE)) == before
        assert await _remains(client, "shop") == (False, False)
        assert await _remains(client, "bank") == (True, True)
        assert "kept: what is written in bank, which blue manages" in lines


async def _written(client: Client, namespace: str) -> None:
    """A pod with a cost of a plan, and the label of UnitedTopologies on its namespace."""
    annotations = {DELETION_COST: "-5", SCALE_PLAN: codec.encode(PLAN).decode()}
    pod = {
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]},
    }
    await client.create(Pod, pod, namespace=namespace)
    await client.patch(Namespace, namespace, {"metadata": {"labels": {NAMESPACE_LABEL: "enabled"}}})


async def _remains(client: Client, namespace: str) -> tuple[bool, bool]:
    """Whether the cost and the label are still there."""
    pod = await client.get(Pod, "web", namespace=namespace)
    labels = (await client.get(Namespace, namespace)).metadata.labels
    return SCALE_PLAN in pod.metadata.annotations, NAMESPACE_LABEL in labels


async def test_an_object_of_another_installation_is_kept_whatever_its_name(tmp_path: Path) -> None:
    """As when someone named two webhook configurations alike."""
    role = next(each for each in manifests.everything(RED) if each["kind"] == "ClusterRole")
    theirs = {**role, "metadata": {**role["metadata"], "labels": {**role["metadata"]["labels"], INSTANCE: "blue"}}}
    async with a_cluster(tmp_path) as client:
        await put(client, theirs)
        lines: list[str] = []
        await removal.remove(client, RED, lines.append, cleanups={})
        assert await left(client, [theirs]) == [f"ClusterRole {role['metadata']['name']}"]
        assert f"kept: ClusterRole {role['metadata']['name']} belongs to the installation in blue" in lines


async def test_permissions_in_dropped_namespaces_are_removed(tmp_path: Path) -> None:
    """Alone on request, and with everything else; those of other installations stay."""
    before, now = installation("red", "shop", "bank"), installation("red", "shop")
    async with a_cluster(tmp_path) as client:
        await put(client, a_namespace("shop"), a_namespace("bank"))
        await put(client, *manifests.everything(before), *_bindings(BLUE))
        dropped = [each["metadata"] for each in await installations.dropped_bindings(client, now)]
        assert {(each["namespace"], each["name"]) for each in dropped} == {
            ("bank", f"trimtab-{component}-writing.red") for component in now.components
        }
        assert await removal.remove_dropped_bindings(client, now, lambda _: None) == []
        assert len(await left(client, _bindings(before))) == len(_bindings(now))
        assert await installations.dropped_bindings(client, now) == []
        await put(client, *[each for each in _bindings(before) if each["metadata"]["namespace"] == "bank"])
        await removal.remove(client, now, lambda _: None, cleanups={})
        assert await left(client, _bindings(before)) == []
        assert len(await left(client, _bindings(BLUE))) == len(_bindings(BLUE))


def _bindings(options: Options) -> list[JSON]:
    """The bindings in the namespaces that an installation manages."""
    return [
        each
        for each in manifests.everything(options)
        if each["kind"] == "RoleBinding" and each["metadata"]["namespace"] != options.namespace
    ]


async def test_other_installations_are_found_by_their_configuration(tmp_path: Path) -> None:
    """One that cannot be read is taken to manage everything."""
    async with a_cluster(tmp_path) as client:
        for options in (RED, BLUE):
            await put(client, *[e for e in manifests.everything(options) if e["kind"] in ("Namespace", "ConfigMap")])
        assert await installations.others(client, "red") == [Installation("blue", ("bank",))]
        patch = {"data": {"trimtab.yaml": "namespaces: 7"}}
        await client.patch(untyped("v1", "ConfigMap", "configmaps"), "trimtab-configuration", patch, namespace="blue")
        assert await installations.others(client, "red") == [Installation("blue")]
        assert not installations.scope(await installations.others(client, "red"))("shop")


@pytest.mark.parametrize(
    ("own", "other", "want"),
    [
        pytest.param((), (), "all namespaces", id="both manage all"),
        pytest.param((), ("bank",), "bank", id="one manages all"),
        pytest.param(("shop", "bank"), (), "shop, bank", id="the other manages all"),
        pytest.param(("shop", "bank"), ("bank",), "bank", id="one namespace in both"),
        pytest.param(("shop",), ("bank",), "", id="different namespaces"),
    ],
)
def test_installations_that_manage_the_same_namespace_are_noted(
    own: tuple[str, ...], other: tuple[str, ...], want: str
) -> None:
    """Both would hold the same requests."""
    notes = list(installations.overlaps(own, [Installation("blue", other)]))
    assert bool(notes) == bool(want)
    assert all(f"manages {want} too" in note for note in notes)


@pytest.mark.parametrize(
    ("other", "want"),
    [
        pytest.param([Installation("blue")], False, id="the other manages all"),
        pytest.param([Installation("blue", ("bank",))], True, id="the other manages another one"),
        pytest.param([Installation("blue", ("bank", "shop"))], False, id="the other manages it too"),
        pytest.param([], True, id="there is no other"),
    ],
)
def test_a_removal_reverts_only_what_no_other_installation_manages(other: list[Installation], want: bool) -> None:
    """Who wrote a cost cannot be told where two manage a namespace."""
    assert installations.scope(other)("shop") == want
