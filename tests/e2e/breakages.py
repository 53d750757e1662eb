"""Ways to break an installation on a control plane; each is undone when its context ends."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.e2e.processes import CONTROLLERS, WEBHOOKS, Trimtab
from tests.lab.deployments import TAINT, DeploymentSandbox
from trimtab.admission.certificate_authority import Keyring, make_authority, sign
from trimtab.admission.certificates import CONFIGURATIONS, SECRETS, secret_data
from trimtab.api import times
from trimtab.api.annotations import DELETION_COST
from trimtab.api.core import Event
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.install import deployments
from trimtab.install.options import Options, account
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import ApiError, Conflict, NotFound
from trimtab.kube.leases import LEASES
from trimtab.kube.resources import Resource, untyped
from trimtab_lab.nodes.nodegroups import CLUSTER

COMPONENTS = (WEBHOOKS, CONTROLLERS)
DEPLOYMENTS = untyped("apps/v1", "Deployment", "deployments")
CONFIG_MAPS = untyped("v1", "ConfigMap", "configmaps")
SERVICES = untyped("v1", "Service", "services")
BINDINGS = untyped("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
DEFINITIONS = Resource.of(CustomResourceDefinition).raw
VALIDATING = CONFIGURATIONS["ValidatingWebhookConfiguration"]
GROUP_COSTS = "podgroupcosts.trimtab.dev"
_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp")


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation whose processes run beside the cluster, and whose Deployments have pods on simulated nodes."""

    client: Client
    trimtab: Trimtab
    sandbox: DeploymentSandbox

    @property
    def namespace(self) -> str:
        """Trimtab's own namespace."""
        return self.trimtab.namespace

    @property
    def registered_as(self) -> str:
        """The name of its webhook configurations."""
        return str(self.trimtab.configuration["webhooks"]["registeredAs"])

    @property
    def secret(self) -> str:
        """The name of the Secret with its certificates."""
        read = Options(namespace=self.namespace, configuration=self.trimtab.configuration).read()
        return read.webhooks.certificates.stored_in

    async def deploy(self) -> None:
        """Create the ConfigMap, the Service and the Deployments, and wait until their pods are ready."""
        tree = self.trimtab.configuration
        options = Options(namespace=self.namespace, configuration=tree, components=COMPONENTS, replicas=1)  # type: ignore[arg-type]
        kinds = {"ConfigMap": CONFIG_MAPS, "Service": SERVICES, "Deployment": DEPLOYMENTS}
        for each in deployments.manifests(options):
            if each["kind"] == "Deployment":
                pod = each["spec"]["template"]["spec"]
                pod["nodeSelector"] = {CLUSTER: self.sandbox.name}
                pod["tolerations"] = [{"key": TAINT, "operator": "Exists"}]
            if each["kind"] in kinds:
                await self.client.create(kinds[each["kind"]], each, namespace=self.namespace)

    async def remove(self) -> None:
        """Delete the Deployments with their pods, while there are nodes that stop these."""
        await self.client.delete_all(DEPLOYMENTS, namespace=self.namespace, propagation="Foreground")
        async with asyncio.timeout(60):
            while (await self.client.list(Pod, namespace=self.namespace)).items:
                await asyncio.sleep(0.2)

    async def has_managed_fields(self) -> bool:
        """Whether the API server notes when a field was written."""
        lease = await self.client.get(LEASES, account(CONTROLLERS), namespace=self.namespace)
        return bool(lease["metadata"].get("managedFields"))


Breakage = Callable[[Installation], AbstractAsyncContextManager[Any]]
Change = Callable[[JSON], object]


@asynccontextmanager
async def _changed(
    client: Client, kind: Resource[JSON], name: str, namespace: str, change: Change
) -> AsyncIterator[JSON]:
    original = await client.get(kind, name, namespace=namespace)
    await _replace(client, kind, original, change)
    try:
        yield original
    finally:
        await _replace(client, kind, original, lambda tree: tree.update(deepcopy(original)))


async def _replace(client: Client, kind: Resource[JSON], original: JSON, change: Change) -> None:
    """Change the object as it is now, whatever a controller writes to it meanwhile."""
    metadata = original["metadata"]
    while True:
        tree = await client.get(kind, metadata["name"], namespace=metadata.get("namespace", ""))
        version = tree["metadata"]["resourceVersion"]
        change(tree)
        tree["metadata"]["resourceVersion"] = version
        with suppress(Conflict):
            await client.replace(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **tree})
            return


@asynccontextmanager
async def _deleted(client: Client, kind: Resource[JSON], name: str, namespace: str = "") -> AsyncIterator[None]:
    original = await client.get(kind, name, namespace=namespace)
    await client.delete(kind, name, namespace=namespace, propagation="Background")
    try:
        yield
    finally:
        metadata = {key: value for key, value in original["metadata"].items() if key not in _BY_SERVER}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **original, "metadata": metadata}
        async with asyncio.timeout(30):
            while await _exists(client, kind, name, namespace):
                await asyncio.sleep(0.1)
        await client.create(kind, {key: value for key, value in body.items() if key != "status"}, namespace=namespace)


async def _exists(client: Client, kind: Resource[JSON], name: str, namespace: str) -> bool:
    try:
        await client.get(kind, name, namespace=namespace)
    except NotFound:
        return False
    return True


def unbroken(made: Installation) -> AbstractAsyncContextManager[Any]:
    """Nothing is changed: what is found depends on the control plane, or on how the command is started."""
    del made
    return AsyncExitStack()


# Deployments, the configuration, and definitions.


@asynccontextmanager
async def without_deployments(made: Installation) -> AsyncIterator[None]:
    """Both Deployments are deleted."""
    async with AsyncExitStack() as stack:
        for each in COMPONENTS:
            await stack.enter_async_context(_deleted(made.client, DEPLOYMENTS, account(each), made.namespace))
        yield


def deployment(change: Change) -> Breakage:
    """The Deployment of the webhooks is changed."""
    return lambda made: _changed(made.client, DEPLOYMENTS, account(WEBHOOKS), made.namespace, change)


def unready(made: Installation) -> AbstractAsyncContextManager[Any]:
    """The pods of the webhooks ask for a node that does not exist."""

    def select(tree: JSON) -> None:
        tree["spec"]["strategy"] = {"type": "Recreate"}
        tree["spec"]["template"]["spec"]["nodeSelector"] = {"example.com/none": "true"}

    return deployment(select)(made)


def configured(change: Change) -> Breakage:
    """The stored configuration is changed."""

    def edit(stored: JSON) -> None:
        tree = json.loads(stored["data"][deployments.CONFIGURATION_FILE])
        change(tree)
        stored["data"][deployments.CONFIGURATION_FILE] = json.dumps(tree)

    return lambda made: _changed(made.client, CONFIG_MAPS, deployments.CONFIGURATION, made.namespace, edit)


def without_configuration(made: Installation) -> AbstractAsyncContextManager[None]:
    """The ConfigMap is deleted."""
    return _deleted(made.client, CONFIG_MAPS, deployments.CONFIGURATION, made.namespace)


def definition(change: Change) -> Breakage:
    """The definition of PodGroupCost is changed."""
    return lambda made: _changed(made.client, DEFINITIONS, GROUP_COSTS, "", change)


@asynccontextmanager
async def without_definition(made: Installation) -> AsyncIterator[None]:
    """The definition of PodGroupCost is deleted."""
    async with _deleted(made.client, DEFINITIONS, GROUP_COSTS):
        yield


def describe(tree: JSON) -> None:
    """Change the schema of a definition."""
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "of another version"


# Webhooks and certificates.


def webhook(change: Change) -> Breakage:
    """The first validating webhook is changed."""

    def edit(tree: JSON) -> None:
        change(tree["webhooks"][0])

    return lambda made: _changed(made.client, VALIDATING, made.registered_as, "", edit)


def without_webhook(made: Installation) -> AbstractAsyncContextManager[Any]:
    """The first validating webhook is removed."""
    return _changed(made.client, VALIDATING, made.registered_as, "", lambda tree: tree["webhooks"].pop(0))


@asynccontextmanager
async def registered(made: Installation, change: Change) -> AsyncIterator[None]:
    """How API servers reach the webhooks is changed in all of them."""

    def edit(tree: JSON) -> None:
        for each in tree["webhooks"]:
            change(each["clientConfig"])

    async with AsyncExitStack() as stack:
        for kind in CONFIGURATIONS.values():
            await stack.enter_async_context(_changed(made.client, kind, made.registered_as, "", edit))
        yield


def unreachable(made: Installation) -> AbstractAsyncContextManager[None]:
    """API servers call a port on which nothing listens, as with a firewall between them and the nodes."""
    return registered(made, lambda tree: tree.update(url="https://127.0.0.1:1"))


@asynccontextmanager
async def without_endpoints(made: Installation) -> AsyncIterator[None]:
    """API servers call the Service, which selects no pod."""

    def by_service(tree: JSON) -> None:
        del tree["url"]
        tree["service"] = {"namespace": made.namespace, "name": "trimtab-webhooks", "path": "/"}

    def select_none(tree: JSON) -> None:
        tree["spec"]["selector"] = {"app.kubernetes.io/name": "none"}

    async with (
        _changed(made.client, SERVICES, "trimtab-webhooks", made.namespace, select_none),
        registered(made, by_service),
    ):
        yield


@asynccontextmanager
async def suspended(made: Installation, component: str) -> AsyncIterator[None]:
    """The process of a component stands still, so that it corrects nothing."""
    process = made.trimtab.processes[component]
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def untrusted(made: Installation) -> AsyncIterator[None]:
    """The CA bundles are those of another authority, and the leader does not correct them."""
    bundle = base64.b64encode(_keyring(timedelta()).bundle).decode()
    async with suspended(made, WEBHOOKS), registered(made, lambda tree: tree.update(caBundle=bundle)):
        yield


@asynccontextmanager
async def without_certificate(made: Installation) -> AsyncIterator[None]:
    """The Secret is deleted while the leader cannot create a new one."""
    async with suspended(made, WEBHOOKS), _deleted(made.client, SECRETS, made.secret, made.namespace):
        yield


@asynccontextmanager
async def expiring(made: Installation) -> AsyncIterator[None]:
    """The certificate was issued 345 days ago for 365, and the leader does not renew it."""

    def store(tree: JSON) -> None:
        tree["data"] = secret_data(_keyring(timedelta(days=345)))

    async with suspended(made, WEBHOOKS), _changed(made.client, SECRETS, made.secret, made.namespace, store):
        yield


def _keyring(age: timedelta) -> Keyring:
    made = datetime.now(UTC) - age
    authority = make_authority(made)
    return Keyring(authority, sign(authority, ["127.0.0.1"], made))


# Leaders and permissions.


@asynccontextmanager
async def without_leader(made: Installation) -> AsyncIterator[None]:
    """The controllers are killed, and their lease is gone."""
    await made.trimtab.kill(CONTROLLERS)
    await made.client.delete(LEASES, account(CONTROLLERS), namespace=made.namespace)
    try:
        yield
    finally:
        await made.trimtab.start(CONTROLLERS)


@asynccontextmanager
async def slow_clock(made: Installation) -> AsyncIterator[None]:
    """The lease of the controllers was renewed just now, by a clock that is ten minutes behind."""
    renewed = times.format_micro(made.client.clock.now() - 600 * SECOND)
    async with suspended(made, CONTROLLERS):
        await made.client.patch(
            LEASES, account(CONTROLLERS), {"spec": {"renewTime": renewed}}, namespace=made.namespace
        )
        yield


@asynccontextmanager
async def without_permissions(made: Installation) -> AsyncIterator[None]:
    """The controllers may not write in the namespace that they manage."""
    name = writing_binding(made.trimtab)
    async with _deleted(made.client, BINDINGS, name, made.sandbox.name):
        yield


def writing_binding(trimtab: Trimtab) -> str:
    """The name of the RoleBinding with which the controllers write."""
    (found,) = (
        each["metadata"]["name"]
        for each in trimtab.objects
        if each["kind"] == "RoleBinding" and each["metadata"]["name"].startswith("trimtab-controllers-writing")
    )
    return str(found)


# What others write.


@asynccontextmanager
async def costly_pod(made: Installation) -> AsyncIterator[None]:
    """A pod has a deletion cost of another writer."""
    pod = next(iter(made.sandbox.pods.store))
    await _annotate(made, pod, "5")
    try:
        yield
    finally:
        await _annotate(made, pod, None)


async def _annotate(made: Installation, pod: Pod, cost: str | None) -> None:
    patch = {"metadata": {"annotations": {DELETION_COST: cost}}}
    await made.client.patch(Pod, pod.metadata.name, patch, namespace=pod.metadata.namespace)


@asynccontextmanager
async def rivals(made: Installation) -> AsyncIterator[None]:
    """Two PodGroupCosts rank the same pods; the controllers report it."""
    pods = [pod.metadata.name for pod in made.sandbox.pods.store]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    for name in ("first", "second"):
        spec = {"owner": owner, "costs": dict.fromkeys(pods, 1)}
        body = {**_typed(PodGroupCost), "metadata": {"name": name}, "spec": spec}
        await made.client.create(Resource.of(PodGroupCost).raw, body, namespace=made.sandbox.name)
    try:
        yield
    finally:
        await made.client.delete_all(PodGroupCost, namespace=made.sandbox.name)
        await _forget_events(made)


def _typed(kind: type[Any]) -> JSON:
    resource = Resource.of(kind)
    return {"apiVersion": resource.api_version, "kind": resource.kind}


async def _forget_events(made: Installation) -> None:
    """Remove what was reported; a finding would be there for an hour."""
    await made.client.delete_all(Event, namespace=made.sandbox.name)


def policy(target: str, **strategy: Any) -> Breakage:
    """A ScaleDownPolicy for a Deployment of this name, created while the webhooks cannot refuse it."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    spec: JSON = {"targetRef": reference} | ({"strategies": [strategy]} if strategy else {})
    body = {**_typed(ScaleDownPolicy), "metadata": {"name": "broken"}, "spec": spec}

    @asynccontextmanager
    async def breaking(made: Installation) -> AsyncIterator[None]:
        async with unreachable(made):
            await _until_created(made, body)
        try:
            yield
        finally:
            await made.client.delete_all(ScaleDownPolicy, namespace=made.sandbox.name)
            await _forget_events(made)

    return breaking


async def _until_created(made: Installation, body: JSON) -> None:
    """An API server takes a moment to take up a changed webhook configuration."""
    async with asyncio.timeout(30):
        while True:
            try:
                await made.client.create(Resource.of(ScaleDownPolicy).raw, body, namespace=made.sandbox.name)
            except ApiError:
                await asyncio.sleep(0.2)
            else:
                return


def nested(levels: int) -> JSON:
    """An object that is nested so deep."""
    tree: JSON = {}
    for _ in range(levels):
        tree = {"inner": tree}
    return tree


def version_label(tree: JSON) -> None:
    """Have a Deployment of another version."""
    tree["metadata"]["labels"]["app.kubernetes.io/version"] = "0.0.1"


def foreign(tree: JSON) -> None:
    """Have a definition that another program installed."""
    tree["metadata"]["labels"] = {}
