"""Trimtab as a user runs it: `trimtab run`, one process a component, with the objects that `trimtab install` prints.

Each test has an installation of its own for one namespace, so that a control plane can be shared: webhooks are called
by URL, and cluster roles have a suffix. The processes use tokens of their ServiceAccounts and have the printed
permissions only; the embedded lab does not enforce permissions. What the processes count is read from their metrics
endpoints.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.lab.policing import Policies
from tests.lab.subset_processes import define, is_installed
from trimtab.api import crds
from trimtab.api.documents import JSON
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.install import access, deployments, reviews
from trimtab.install.options import Options, account
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.errors import ApiError, NotFound
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource, untyped
from trimtab_lab import provisioning
from trimtab_lab.controlplane import accounts
from trimtab_lab.supervisor import find_free_port

WEBHOOKS, CONTROLLERS, SCHEDULER, DASHBOARD = "webhooks", "controllers", "scheduler", "dashboard"
PATIENCE = 60.0
LOOPBACK = "127.0.0.0/8"
"""Where the pods of tests answer probes."""
_RENDERED = 0.1
"""Seconds for which a process serves the same metrics and records."""
_CLUSTER_ROLES = ("ClusterRole", "ClusterRoleBinding")


@dataclass(slots=True)
class Trimtab:
    """An installation for one namespace, and its processes."""

    client: Client
    namespace: str
    """Trimtab's own namespace, which is exempt from everything that it does."""
    folder: Path
    configuration: JSON
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the namespaces about which the webhooks are called; all that are managed, if empty."""
    ports: Mapping[str, int] = field(
        default_factory=lambda: {name: find_free_port() for name in (WEBHOOKS, CONTROLLERS, SCHEDULER, DASHBOARD)}
    )
    kubeconfigs: dict[str, Path] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    objects: list[JSON] = field(default_factory=list)
    logs: ExitStack = field(default_factory=ExitStack)
    source: Path | None = None
    """Where the modules of another version are; this version, if None."""

    @property
    def runs_here(self) -> bool:
        """Whether the processes are those of this test."""
        return bool(self.processes)

    # The installation.

    async def install(self, components: Sequence[str]) -> None:
        """Create what is printed for these components, and a kubeconfig for each."""
        self.folder.joinpath("trimtab.json").write_text(json.dumps(self.configuration))
        await define(self.client)
        has_cel = await _has_cel(self.client)
        self.objects = list(_identity(self.configuration, self.namespace, components))
        if WEBHOOKS in components:
            self.objects += self._registration()
        await provisioning.create_missing(self.client, self.objects, has_cel=has_cel)
        await self.authorize(components)

    def _registration(self) -> Iterator[JSON]:
        configuration = Options(namespace=self.namespace, configuration=self.configuration).read()
        where = reviews.by_url(self.configuration["webhooks"]["url"])
        for each in reviews.configurations(configuration, where, labels=crds.MANAGED_BY_LABELS):
            for webhook in each["webhooks"]:
                selector = webhook["namespaceSelector"]
                selector["matchLabels"] = {**selector.get("matchLabels", {}), **self.labels}
            yield each

    async def authorize(self, components: Sequence[str]) -> None:
        """Write a kubeconfig for each component; the ServiceAccounts exist."""
        for component in components:
            self.kubeconfigs[component] = await self._kubeconfig(component)

    async def _kubeconfig(self, component: str) -> Path:
        """A kubeconfig with a token of the component's ServiceAccount."""
        administrator = Path(os.environ["KUBECONFIG"].split(os.pathsep)[0])
        server, path = discover(administrator).server, self.folder / f"{component}.kubeconfig"
        await accounts.write_kubeconfigs(
            self.client, server, authority_of(administrator), {account(component): path}, self.namespace
        )
        return path

    async def uninstall(self) -> None:
        """Remove the webhook configurations, the cluster roles and Trimtab's namespace, with all that is in it."""
        for each in self.objects:
            if "namespace" not in each["metadata"]:
                with suppress(NotFound):
                    await self.client.delete(_resource(each), each["metadata"]["name"])

    # The processes.

    def launch(self, component: str) -> None:
        """Start a component."""
        log = self.logs.enter_context((self.folder / f"{component}.log").open("ab"))
        command = [sys.executable, "-m", "trimtab", "run", "--config", str(self.folder / "trimtab.json")]
        command += ["--kubeconfig", str(self.kubeconfigs[component]), "--component", component]
        command += ["--port", str(self.ports[component])]
        self.processes[component] = subprocess.Popen(command, stderr=log, env=environment(self.source))  # noqa: S603 - our own program

    async def start(self, component: str) -> None:
        """Start a component, and wait until it is ready and the API server trusts its certificate."""
        self.launch(component)
        async with asyncio.timeout(PATIENCE):
            while not await self._is_ready(component):
                assert self.processes[component].poll() is None, self.log(component)
                await asyncio.sleep(0.05)

    async def _is_ready(self, component: str) -> bool:
        if await asyncio.to_thread(_fetch, f"http://127.0.0.1:{self.ports[component]}/readyz") is None:
            return False
        return component != WEBHOOKS or await self._is_trusted()

    async def _is_trusted(self) -> bool:
        """Whether every webhook has its CA bundle."""
        for each in self.objects:
            if "webhooks" in each:
                found = await self.client.get(_resource(each), each["metadata"]["name"])
                if not all("caBundle" in webhook["clientConfig"] for webhook in found["webhooks"]):
                    return False
        return True

    async def kill(self, component: str) -> None:
        """Kill a component in the middle of whatever it does."""
        process = self.processes[component]
        process.kill()
        await asyncio.to_thread(process.wait)

    async def stop(self) -> None:
        """Stop all components; those that run must end cleanly."""
        running = [each for each in self.processes.values() if each.poll() is None]
        for process in running:
            process.terminate()
        codes = [await asyncio.to_thread(process.wait, 30) for process in running]
        self.logs.close()
        assert codes == [0] * len(codes), {name: self.log(name) for name in self.processes}

    def log(self, component: str) -> str:
        """The end of a component's log."""
        return (self.folder / f"{component}.log").read_text()[-2000:]

    async def report(self) -> None:
        """Print the logs and the counters of a test that failed; pytest shows them."""
        for component in self.processes:
            text = await asyncio.to_thread(_fetch, f"http://127.0.0.1:{self.ports[component]}/metrics")
            counters = [line for line in (text or "").splitlines() if "_total{" in line and not line.endswith(" 0.0")]
            print(f"{component}:", self.log(component), *counters, sep="\n")  # noqa: T201 - for people

    async def document(self, path: str, component: str = WEBHOOKS) -> Any:
        """A document that a component serves beside its metrics."""
        return json.loads(await self._rendered(component, path))

    # The metrics.

    async def metrics(self, component: str = WEBHOOKS) -> str:
        """The page of metrics of a component: values that belong together come from one page."""
        return await self._rendered(component, "/metrics")

    async def _rendered(self, component: str, path: str) -> str:
        """A page that has everything until now: it is rendered ten times a second at most."""
        await asyncio.sleep(_RENDERED)
        text = await asyncio.to_thread(_fetch, f"http://127.0.0.1:{self.ports[component]}{path}")
        assert text is not None, self.log(component)
        return text

    async def sample(self, name: str, component: str = WEBHOOKS, **labels: str) -> float:
        """The value of a metric of a component; 0 where there is none yet."""
        text = await self.metrics(component)
        samples = (each for family in text_string_to_metric_families(text) for each in family.samples)
        return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())


def environment(source: Path | None) -> dict[str, str]:
    """The environment of a process of this version, or of the one with these modules."""
    return {**os.environ, **({} if source is None else {"PYTHONPATH": str(source)})}


def configuration(namespace: str, **more: Any) -> JSON:
    """The configuration of an installation for one namespace."""
    port = find_free_port()
    url = f"https://127.0.0.1:{port}"
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "TrimtabConfiguration",
        "namespace": f"trimtab-{namespace}",
        "namespaces": [namespace],
        "leaderElection": {"enabled": False},
        "webhooks": {"host": "127.0.0.1", "port": port, "url": url, "registeredAs": f"trimtab-{namespace}"},
        **more,
    }


def cluster_wide(name: str, **more: Any) -> JSON:
    """The configuration of an installation for all namespaces."""
    return {**configuration(name, **more), "namespaces": []}


@asynccontextmanager
async def running(
    client: Client,
    tree: JSON,
    components: Sequence[str],
    *,
    stays_registered: bool = False,
    labels: Mapping[str, str] | None = None,
) -> AsyncIterator[Trimtab]:
    """Install Trimtab and run these components, until the context ends."""
    with tempfile.TemporaryDirectory(prefix="trimtab-e2e-") as folder:
        made = Trimtab(client, tree["namespace"], Path(folder), tree, labels or {})
        try:
            await made.install(components)
            await asyncio.gather(*(made.start(component) for component in components))
            yield made
        except BaseException:
            await made.report()
            raise
        finally:
            if not stays_registered:
                await made.uninstall()
            await made.stop()


def holding(client: Client, namespace: str, *, stays_registered: bool = False) -> Any:
    """The webhooks, with a default policy that keeps workloads level, for as long as the context."""
    tree = configuration(namespace, scaleDown={"defaultPolicies": [{"name": "level", "mode": "Enforce"}]})
    return running(client, tree, [WEBHOOKS], stays_registered=stays_registered)


@asynccontextmanager
async def running_subsets(client: Client, namespace: str) -> AsyncIterator[Trimtab | None]:
    """Webhooks and controllers for the UnitedTopologies of a namespace; None where Trimtab is installed already."""
    if await is_installed(client):
        yield None
        await client.delete_all(UnitedTopology, namespace=namespace)
        return
    async with running(client, configuration(namespace), [WEBHOOKS, CONTROLLERS]) as made:
        try:
            yield made
        finally:
            await client.delete_all(UnitedTopology, namespace=namespace)


@asynccontextmanager
async def running_policies(client: Client, namespace: str, *more: str) -> AsyncIterator[Policies]:
    """Controllers for the ScaleDownPolicies of a namespace, and further components."""
    policies = Policies(client, namespace, Informer(client, ScaleDownPolicy, namespace=namespace))
    tree = configuration(namespace, scaleDown={"probeNetworks": [LOOPBACK]})
    async with running(client, tree, [CONTROLLERS, *more]):
        watching = asyncio.ensure_future(policies.informer.run())
        try:
            await policies.informer.wait_synced()
            yield policies
        finally:
            await client.delete_all(ScaleDownPolicy, namespace=namespace)
            await client.delete_all(PodGroupCost, namespace=namespace)
            await cancel(watching)


def _identity(tree: JSON, namespace: str, components: Sequence[str]) -> Iterator[JSON]:
    """The printed namespace, ServiceAccounts, roles and bindings of these components."""
    options = Options(namespace=namespace, configuration=tree, components=tuple(components))  # type: ignore[arg-type]
    yield deployments.namespace(options)
    for each in (*deployments.manifests(options), *access.manifests(options)):
        if each["kind"] in ("ServiceAccount", "Role", "RoleBinding", *_CLUSTER_ROLES):
            yield each


async def _has_cel(client: Client) -> bool:
    """Whether the API server evaluates match conditions; the embedded lab's says that it does not."""
    condition = {"name": "always", "expression": "true"}
    hook = {
        "name": "tried.trimtab.dev",
        "clientConfig": {"url": "https://127.0.0.1:1"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [condition],
    }
    kind = "ValidatingWebhookConfiguration"
    tried = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "trimtab-tried"}}
    try:
        await client.create(_resource(tried), {**tried, "webhooks": [hook]}, dry_run=True)
    except ApiError:
        return False
    return True


def _resource(tree: JSON) -> Resource[JSON]:
    plural = provisioning.PLURALS[tree["kind"]]
    return untyped(tree["apiVersion"], tree["kind"], plural, namespaced="namespace" in tree["metadata"])


def authority_of(kubeconfig: Path) -> bytes:
    """The certificate authority of a kubeconfig's cluster."""
    import base64

    import yaml

    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    data = cluster.get("certificate-authority-data")
    return base64.b64decode(data) if data else Path(cluster["certificate-authority"]).read_bytes()


def _fetch(url: str) -> str | None:
    """The body of a page of a process on this machine; None if it does not answer 200."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return None
