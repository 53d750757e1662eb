"""cert-manager as the source of the webhooks' certificate, from what is printed to a scale-down that is kept level.

A stand-in writes what cert-manager writes (`cert_manager`). Two more parts of a cluster are missing here: a kubelet,
which mounts the Secret, and a network, in which API servers reach a Service. The certificate is read from a folder with
the Secret's files, and the Service is an alias of this machine; API servers still verify its name.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e import cert_manager
from tests.e2e.clusters import Cluster, empty_cluster, marks
from tests.e2e.processes import WEBHOOKS, Trimtab
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox
from trimtab.admission.certificates import CONFIGURATIONS, SECRETS
from trimtab.api.apps import Deployment
from trimtab.api.documents import JSON
from trimtab.install.options import NAMESPACE
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.sessions import Session
from trimtab_lab.supervisor import find_free_port

pytestmark = marks

ZONES = {"zone-a": 2, "zone-b": 2, "zone-c": 2}
PATIENCE = 60.0
_LEFT_OUT = frozenset({"Deployment", "PodDisruptionBudget", "NetworkPolicy", "Service"})
"""What runs Trimtab inside the cluster: here its process runs outside."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that knows the kinds of cert-manager."""
    with empty_cluster(tmp_path_factory.mktemp("empty")) as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(found.kubeconfig))
        apply(found, list(cert_manager.definitions()))
        found.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        yield found


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover(cluster.kubeconfig))) as made:
        yield made


def apply(cluster: Cluster, objects: list[JSON]) -> None:
    """`kubectl apply` of some objects."""
    cluster.kubectl("apply", "--filename=-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


@dataclass(frozen=True, slots=True)
class Installation:
    """What is printed for webhooks with a certificate of cert-manager, and where their process is."""

    objects: list[JSON]
    folder: Path
    port: int

    @property
    def applied(self) -> list[JSON]:
        """The objects, with the Service as an alias of this machine and without what runs in the cluster."""
        (service,) = [each for each in self.objects if each["kind"] == "Service"]
        kept = [each for each in self.objects if each["kind"] not in _LEFT_OUT]
        for webhook in (webhook for each in kept for webhook in each.get("webhooks", ())):
            webhook["clientConfig"]["service"]["port"] = self.port
        return [*kept, {**service, "spec": {"type": "ExternalName", "externalName": "localhost"}}]

    async def mount(self, client: Client) -> None:
        """Write the Secret that the pods of the webhooks mount as files."""
        (pods,) = [each["spec"]["template"]["spec"] for each in self.objects if each["kind"] == "Deployment"]
        (name,) = [volume["secret"]["secretName"] for volume in pods["volumes"] if "secret" in volume]
        secret = await client.get(SECRETS, name, namespace=NAMESPACE)
        for key, text in secret["data"].items():
            (self.folder / key).write_bytes(base64.b64decode(text))

    async def served(self) -> str:
        """The certificate that the process serves."""
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", self.port))


def printed(cluster: Cluster, tree: JSON, folder: Path) -> Installation:
    """What `trimtab install` prints for this configuration."""
    file = folder / "installed.json"
    file.write_text(json.dumps(tree))
    arguments = ["--config", str(file), "--crds=all", "--component", WEBHOOKS, "--output=json"]
    return Installation(json.loads(cluster.trimtab("install", *arguments))["items"], folder, tree["webhooks"]["port"])


def configuration(namespace: str) -> JSON:
    """Webhooks that keep the workloads of one namespace level."""
    webhooks = {"host": "127.0.0.1", "port": find_free_port(), "certificates": {"source": "CertManager"}}
    policies = [{"name": "level", "mode": "Enforce"}]
    api = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "TrimtabConfiguration", "namespace": NAMESPACE}
    return {**api, "namespaces": [namespace], "webhooks": webhooks, "scaleDown": {"defaultPolicies": policies}}


@asynccontextmanager
async def serving(client: Client, tree: JSON, installation: Installation) -> AsyncIterator[Trimtab]:
    """The webhooks, with their printed permissions, which read the mounted files."""
    certificate, key = (str(installation.folder / name) for name in ("tls.crt", "tls.key"))
    certificates = {"source": "Files", "certificateFile": certificate, "keyFile": key}
    mounted = {**tree, "webhooks": {**tree["webhooks"], "certificates": certificates}}
    made = Trimtab(client, NAMESPACE, installation.folder, mounted)
    made.objects = [each for each in installation.applied if "webhooks" in each]
    (installation.folder / "trimtab.json").write_text(json.dumps(mounted))
    await made.authorize([WEBHOOKS])
    await made.start(WEBHOOKS)
    try:
        yield made
    finally:
        await made.report()
        await made.stop()


async def reviews(trimtab: Trimtab) -> float:
    """How many scale-down requests reached the webhooks."""
    return await trimtab.sample("trimtab_webhook_reviews_total", hook="scale")


async def is_called(made: DeploymentSandbox, trimtab: Trimtab) -> bool:
    """Whether the API server sends a request for fewer replicas to the webhooks; the request is a dry run."""
    before = await reviews(trimtab)
    await made.client.resize(Deployment, "web", 1, namespace=made.name, dry_run=True)
    return await reviews(trimtab) > before


async def test_api_servers_trust_the_certificate_of_cert_manager_and_the_next_one(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    """A scale-down is kept level; after a renewal with another key too, without a restart; all of it is removed."""
    async with deployment_sandbox(client, ZONES) as made:
        tree = configuration(made.name)
        installation = printed(cluster, tree, tmp_path)
        apply(cluster, installation.applied)
        await renew(client, installation)
        async with serving(client, tree, installation) as trimtab:
            await made.deploy("web", 6)
            await until_called(made, trimtab)
            await made.scale("web", 3)
            assert await made.settled(3) == (1, 1, 1)
            first = await installation.served()
            await renew(client, installation)
            await until_served(installation, other_than=first)
            await until_called(made, trimtab)
    cluster.remove(NAMESPACE, "--remove-crds")
    await assert_removed(client)


async def renew(client: Client, installation: Installation) -> None:
    """What cert-manager and the kubelet do at first, and at each renewal."""
    await cert_manager.issue(client)
    await cert_manager.inject(client)
    await installation.mount(client)


async def until_called(made: DeploymentSandbox, trimtab: Trimtab) -> None:
    """Wait until the API server, which reads webhook configurations from a cache, calls the webhooks."""
    async with asyncio.timeout(PATIENCE):
        while not await is_called(made, trimtab):
            await asyncio.sleep(0.2)


async def until_served(installation: Installation, *, other_than: str) -> None:
    """Wait until the process has read the renewed certificate."""
    async with asyncio.timeout(PATIENCE):
        while await installation.served() == other_than:
            await asyncio.sleep(0.2)


async def assert_removed(client: Client) -> None:
    """Nothing of the certificate is left, in the cluster of this module."""
    for resource in (cert_manager.CERTIFICATES, cert_manager.ISSUERS, *CONFIGURATIONS.values()):
        assert not (await client.list(resource)).items
