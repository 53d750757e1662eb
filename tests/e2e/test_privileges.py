"""Who may write patches of subsets, and what the controllers may not do, on an API server that evaluates policies."""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.test_install import connected, resource
from trimtab.api import crds
from trimtab.api.annotations import NAMESPACE_LABEL, NAMESPACE_LABEL_VALUE
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.install import privileges
from trimtab.install.options import Options, account
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.errors import AlreadyExists, Forbidden, NotFound
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.sessions import Session

pytestmark = pytest.mark.e2e

OPTIONS = Options()
CONTROLLERS = f"system:serviceaccount:{OPTIONS.namespace}:{account('controllers')}"
ROLES = untyped("rbac.authorization.k8s.io/v1", "Role", "roles")
BINDINGS = untyped("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
CONTAINERS = [{"name": "main", "image": "example.com/web:1"}]


@asynccontextmanager
async def acting_as(kubeconfig: Path, user: str, *, group: str = "") -> AsyncIterator[Client]:
    """A client of another user, with no more groups than said."""
    headers = {"Impersonate-User": (user,), **({"Impersonate-Group": (group,)} if group else {})}
    async with Client(Session(replace(discover(kubeconfig), impersonate=headers))) as client:
        yield client


@asynccontextmanager
async def governed(client: Client, policy_name: str, name: str) -> AsyncIterator[None]:
    """A namespace, and one of the policies under a name of its own, for this namespace alone."""
    found = [copy.deepcopy(each) for each in privileges.manifests(OPTIONS) if each["metadata"]["name"] == policy_name]
    policy, binding = found
    policy["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = name
    selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    binding["spec"]["matchResources"] = {"namespaceSelector": selector}
    await client.create(Namespace, {"metadata": {"name": name, "labels": {"tier": "web"}}})
    try:
        for each in found:
            await client.create(resource(each), each)
        yield
    finally:
        for each in (binding, policy):
            await client.delete(resource(each), name)
        await client.delete(Namespace, name)


async def until_refused(attempt: Callable[[], Awaitable[object]], words: str) -> None:
    """An API server takes a moment to take up a policy."""
    async with asyncio.timeout(30):
        while True:
            try:
                await attempt()
            except Forbidden as error:
                if words in str(error):
                    return
            await asyncio.sleep(0.2)


async def define(client: Client) -> None:
    """The kind UnitedTopology, served."""
    for manifest in crds.manifests():
        if manifest["metadata"]["name"].startswith("unitedtopologies."):
            with suppress(AlreadyExists):
                await client.create(Resource.of(CustomResourceDefinition).raw, manifest)
    async with asyncio.timeout(30):
        while True:
            try:
                await client.list(UnitedTopology, namespace="default")
            except NotFound:
                await asyncio.sleep(0.2)
            else:
                return


def topology(name: str, *, patch: bool = True) -> JSON:
    """A UnitedTopology whose subset has a patch, or none."""
    change = {"spec": {"containers": [{"name": "main", "image": "example.com/other:1"}]}}
    subset = {"name": "a", **({"patch": change} if patch else {})}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    tree = {"metadata": {"name": name}, "spec": {"targetRef": target, "subsets": [subset]}}
    return {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedTopology", **tree}


async def grant(client: Client, namespace: str, user: str, name: str, rule: JSON) -> None:
    """Allow a user something in a namespace."""
    api = "rbac.authorization.k8s.io"
    await client.create(ROLES, {"metadata": {"name": name}, "rules": [rule]}, namespace=namespace)
    reference = {"apiGroup": api, "kind": "Role", "name": name}
    subjects = [{"apiGroup": api, "kind": "User", "name": user}]
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    await client.create(BINDINGS, binding, namespace=namespace)


async def test_whoever_writes_a_patch_must_be_allowed_to_create_pods(control_plane: Path) -> None:
    """Without a webhook of Trimtab anywhere. What has no patch, or leaves the spec as it is, needs nothing."""
    name = f"patches-{secrets.token_hex(4)}"
    everything = {"apiGroups": ["apps.kruise.io"], "resources": ["unitedtopologies"], "verbs": ["*"]}
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
    async with connected(control_plane) as admin:
        await define(admin)
        async with governed(admin, privileges.PATCHES, name), acting_as(control_plane, "ann") as ann:
            await grant(admin, name, "ann", "topologies", everything)
            await until_refused(
                lambda: ann.create(UnitedTopology, topology("tried"), namespace=name, dry_run=True),
                "must be allowed to create pods here",
            )
            await ann.create(UnitedTopology, topology("plain", patch=False), namespace=name)
            with pytest.raises(Forbidden, match="must be allowed to create pods here"):
                await ann.patch(UnitedTopology, "plain", {"spec": topology("plain")["spec"]}, namespace=name)
            await admin.create(UnitedTopology, topology("known"), namespace=name)
            await ann.patch(UnitedTopology, "known", {"metadata": {"labels": {"seen": "yes"}}}, namespace=name)
            await grant(admin, name, "ann", "pods", pods)
            async with asyncio.timeout(30):
                while True:
                    try:
                        await ann.create(UnitedTopology, topology("allowed"), namespace=name)
                    except Forbidden:
                        await asyncio.sleep(0.2)
                    else:
                        break


async def test_the_controllers_handle_no_pods_where_nothing_of_theirs_is(control_plane: Path) -> None:
    """Although RBAC would let them: here they are administrators."""
    name = f"exempt-{secrets.token_hex(4)}"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS, "automountServiceAccountToken": False}}
    async with (
        connected(control_plane) as admin,
        governed(admin, privileges.PODS, name),
        acting_as(control_plane, CONTROLLERS, group="system:masters") as controllers,
    ):
        await until_refused(
            lambda: controllers.create(Pod, pod, namespace=name, dry_run=True), "neither create, delete nor evict pods"
        )
        async with asyncio.timeout(30):
            while True:
                try:
                    await admin.create(Pod, pod, namespace=name)
                except Forbidden:  # the namespace has no service account yet
                    await asyncio.sleep(0.2)
                else:
                    break
        with pytest.raises(Forbidden, match="neither create, delete nor evict pods"):
            await controllers.delete(Pod, "p", namespace=name)
        with pytest.raises(Forbidden, match="neither create, delete nor evict pods"):
            await controllers.evict("p", namespace=name)
        await controllers.patch(Pod, "p", {"metadata": {"labels": {"seen": "yes"}}}, namespace=name)
        await admin.delete(Pod, "p", namespace=name)


async def test_the_controllers_change_one_label_of_a_namespace(control_plane: Path) -> None:
    """And neither its pod security, nor an annotation, nor anything else."""
    name = f"labels-{secrets.token_hex(4)}"
    enforce = {"pod-security.kubernetes.io/enforce": "privileged"}
    async with (
        connected(control_plane) as admin,
        governed(admin, privileges.NAMESPACES, name),
        acting_as(control_plane, CONTROLLERS, group="system:masters") as controllers,
    ):
        words = "change no more of a namespace than the label"
        await until_refused(
            lambda: controllers.patch(Namespace, name, {"metadata": {"annotations": {"tried": secrets.token_hex(4)}}}),
            words,
        )
        for metadata in ({"labels": enforce}, {"labels": {"tier": None}}, {"finalizers": ["a.example/b"]}):
            with pytest.raises(Forbidden, match=words):
                await controllers.patch(Namespace, name, {"metadata": metadata})
        for value in (NAMESPACE_LABEL_VALUE, None):
            await controllers.patch(Namespace, name, {"metadata": {"labels": {NAMESPACE_LABEL: value}}})
        await admin.patch(Namespace, name, {"metadata": {"labels": {"tier": "db"}}})


async def test_the_webhooks_create_pods_as_dry_runs_only(control_plane: Path) -> None:
    """To try the patches of subsets; RBAC knows the verb alone."""
    name = f"trials-{secrets.token_hex(4)}"
    webhooks = f"system:serviceaccount:{OPTIONS.namespace}:{account('webhooks')}"
    async with (
        connected(control_plane) as admin,
        governed(admin, privileges.DRY_RUNS, name),
        acting_as(control_plane, webhooks, group="system:masters") as acting,
    ):
        pod = {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS, "automountServiceAccountToken": False}}

        async def attempt() -> None:
            await acting.create(Pod, {**pod, "metadata": {"generateName": "p-"}}, namespace=name)

        await until_refused(attempt, "as dry runs only")
        await acting.create(Pod, pod, namespace=name, dry_run=True)
        await admin.delete_all(Pod, namespace=name)
