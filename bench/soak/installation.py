"""Trimtab installed in a lab: its objects, ServiceAccounts and roles as printed, and its processes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.promise.comparison import JSON
from bench.soak.lab import Lab
from bench.soak.proxies import Proxy
from bench.soak.replicas import COMPONENTS, CONTROLLERS, WEBHOOKS, Replica
from trimtab.kube.client import Client
from trimtab_lab import provisioning
from trimtab_lab.controlplane import accounts

BUDGET = 2.0
"""Seconds for which a request may be held, by default."""
LEASE = {"leaseSeconds": 8, "renewSeconds": 5, "retrySeconds": 1}
"""Shorter than by default, so that leaders change often."""
_NEEDS_CEL = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
REPLICAS = 2


@dataclass
class Installation:
    """Trimtab's processes, and the balancer before its webhooks."""

    replicas: list[Replica]
    balancer: Proxy

    def of(self, component: str) -> list[Replica]:
        """The replicas of a component."""
        return [each for each in self.replicas if each.component == component]

    def first(self, component: str) -> Replica:
        """The replica of a component that may be killed."""
        return self.of(component)[0]

    async def wait_ready(self) -> None:
        """Wait until all replicas are ready."""
        await asyncio.gather(*(each.wait_ready() for each in self.replicas))


@asynccontextmanager
async def installed(client: Client, lab: Lab, folder: Path) -> AsyncIterator[Installation]:
    """Install Trimtab and run two replicas of each component, until the context ends."""
    port = lab.port
    replicas = [
        Replica(component, number, folder, lambda: port) for component in COMPONENTS for number in (1, REPLICAS)
    ]
    webhooks = [each for each in replicas if each.component == WEBHOOKS]
    balancer = Proxy(lambda: [each.webhook_port for each in webhooks])
    made = Installation(replicas, balancer)
    await balancer.start()
    for each in replicas:
        await each.proxy.start()
        tree = configuration(lab, balancer.port, each.webhook_port)
        each.configuration.write_text(json.dumps(tree, indent=2))
    await _create_objects(client, lab, replicas[0].configuration)
    await asyncio.gather(*(_write_kubeconfig(client, lab, each) for each in replicas))
    try:
        for each in replicas:
            await each.start()
        await made.wait_ready()
        yield made
    finally:
        await asyncio.gather(*(each.stop() for each in replicas))
        await balancer.close()


def configuration(lab: Lab, balancer: int, webhook_port: int) -> JSON:
    """Trimtab's configuration: leader election, and one default policy that enforces."""
    election = {
        "leaderElect": True,
        **{f"{name}": f"{LEASE[field]}s" for name, field in _SCHEDULER_ELECTION.items()},
    }
    names = ["trimtab"] if lab.is_real else ["default-scheduler", "trimtab"]
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "TrimtabConfiguration",
        "namespace": accounts.NAMESPACE,
        "leaderElection": {"enabled": True, **LEASE},
        "scaleDown": {"budgetSeconds": BUDGET, "defaultPolicies": [{"name": "level", "mode": "Enforce"}]},
        "scheduler": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": election,
            "profiles": [{"schedulerName": name} for name in names],
        },
        "webhooks": {"host": "127.0.0.1", "port": webhook_port, "url": f"https://127.0.0.1:{balancer}"},
    }


_SCHEDULER_ELECTION = {"leaseDuration": "leaseSeconds", "renewDeadline": "renewSeconds", "retryPeriod": "retrySeconds"}


async def _create_objects(client: Client, lab: Lab, path: Path) -> None:
    local, identity = await asyncio.gather(
        provisioning.render_local(path), provisioning.render_accounts(path, lab.kubeconfig)
    )
    objects = [each for each in (*local, *identity) if lab.is_real or each["kind"] not in _NEEDS_CEL]
    await provisioning.create_missing(client, objects, has_cel=lab.is_real)


async def _write_kubeconfig(client: Client, lab: Lab, replica: Replica) -> None:
    """A kubeconfig with a token of the component's ServiceAccount, for the replica's own proxy."""
    url = f"https://127.0.0.1:{replica.proxy.port}"
    paths = {f"trimtab-{replica.component}": replica.kubeconfig}
    await accounts.write_kubeconfigs(client, url, _authority(lab.kubeconfig), paths)


def _authority(kubeconfig: Path) -> bytes:
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    data = cluster.get("certificate-authority-data")
    return base64.b64decode(data) if data else Path(cluster["certificate-authority"]).read_bytes()


async def holder(client: Client, lease: str) -> str:
    """The identity that a lease of Trimtab names."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{accounts.NAMESPACE}/leases/{lease}"
    tree: JSON = json.loads((await client.call("GET", path)).body)
    return str(tree["spec"].get("holderIdentity") or "")


async def leader(client: Client, made: Installation) -> Replica | None:
    """The replica that leads the controllers."""
    found = await holder(client, "trimtab-controllers")
    return next((each for each in made.of(CONTROLLERS) if found.endswith(each.identity)), None)
