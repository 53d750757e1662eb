"""In place to the next version and back: nothing is lost, no pod is touched, and a plan under way is finished.

The previous version is the git reference that PREVIOUS names, or the last tag, or, while there is none, BASELINE.
Its processes run from its own source with this environment's dependencies, on the objects that its own `trimtab
install` printed.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.clusters import Cluster, empty_cluster, marks
from tests.e2e.processes import CONTROLLERS, WEBHOOKS, Trimtab, configuration, environment
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox
from trimtab.api import annotations as keys
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN
from trimtab.api.apps import Deployment
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.install.removal import PLURALS
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists, ApiError, NotFound
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.sessions import Session

pytestmark = marks

BASELINE = "719922ec21172039fd3ea1c0b27d02ab3fd82e11"
"""A commit before the names of cluster-scoped objects carried the installation, and before kustomize and Helm."""
ROOT = Path(__file__).parents[2]
ZONES = {"zone-a": 4, "zone-b": 4, "zone-c": 4}
COMPONENTS = (WEBHOOKS, CONTROLLERS)
PATIENCE = 90.0
_LEFT_OUT = frozenset({"Deployment", "PodDisruptionBudget", "NetworkPolicy", "Service"})
"""What runs Trimtab inside the cluster: here its processes run outside."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of Trimtab: where its modules are, or None for this one."""

    name: str
    source: Path | None = None

    def printed(self, file: Path, kubeconfig: Path) -> list[JSON]:
        """The objects that its `trimtab install` prints."""
        command = [sys.executable, "-m", "trimtab", "install", "--config", str(file), "--crds", "all", "-o", "json"]
        command += ["--kubeconfig", str(kubeconfig), "--component", WEBHOOKS, "--component", CONTROLLERS]
        done = subprocess.run(command, env=environment(self.source), capture_output=True, text=True, check=False)  # noqa: S603 - our own program
        assert done.returncode == 0, done.stderr
        objects: list[JSON] = json.loads(done.stdout)["items"]
        return [each for each in objects if each["kind"] not in _LEFT_OUT]


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The version before this one."""
    reference = os.environ.get("PREVIOUS") or _git("describe", "--tags", "--abbrev=0").decode().strip() or BASELINE
    modules = _git("archive", reference, "src/trimtab")
    if not modules:
        pytest.skip(f"this clone has no commit {reference}")
    folder = tmp_path_factory.mktemp("previous")
    with tarfile.open(fileobj=io.BytesIO(modules)) as archive:
        archive.extractall(folder, filter="data")
    return Version(reference, folder / "src")


def _git(*arguments: str) -> bytes:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, check=False).stdout  # noqa: S603 - a fixed program


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without Trimtab, which tests and processes of both versions use."""
    with empty_cluster(tmp_path_factory.mktemp("empty")) as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(found.kubeconfig))
        yield found


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover(cluster.kubeconfig))) as made:
        yield made


# The installation.


async def apply(client: Client, objects: Iterable[JSON]) -> None:
    """Create objects, or bring them up to date, as `kubectl apply` does."""
    for each in objects:
        namespace, name = each["metadata"].get("namespace", ""), each["metadata"]["name"]
        try:
            await client.create(_resource(each), each, namespace=namespace)
        except AlreadyExists:
            await client.patch(_resource(each), name, each, namespace=namespace)


async def remove(client: Client, objects: Sequence[JSON]) -> None:
    """Delete what was applied, but for the definitions of our kinds, and wait until its namespaces are gone."""
    for each in objects:
        if each["kind"] != "CustomResourceDefinition":
            namespace, name = each["metadata"].get("namespace", ""), each["metadata"]["name"]
            try:
                await client.delete(_resource(each), name, namespace=namespace)
            except ApiError:
                continue
    for name in (each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"):
        await until(partial(is_gone, client, name))


async def is_gone(client: Client, namespace: str) -> bool:
    """Whether a namespace is gone: while it terminates, nothing can be created in it."""
    try:
        await client.get(Namespace, namespace)
    except NotFound:
        return True
    return False


def _resource(tree: JSON) -> Resource[JSON]:
    plural = {**PLURALS, "CustomResourceDefinition": "customresourcedefinitions"}[tree["kind"]]
    return untyped(tree["apiVersion"], tree["kind"], plural, namespaced="namespace" in tree["metadata"])


@dataclass(slots=True)
class Stage:
    """A namespace with workloads of every feature, and the version that runs there."""

    client: Client
    made: DeploymentSandbox
    folder: Path
    running: Trimtab | None = None
    objects: list[JSON] | None = None

    async def switch(self, version: Version) -> None:
        """Apply what a version prints, stop the other one, and start this one."""
        tree = self._configuration()
        file = self.folder / "trimtab.json"
        file.write_text(json.dumps(tree))
        kubeconfig = Path(os.environ["KUBECONFIG"].split(os.pathsep)[0])
        self.objects = version.printed(file, kubeconfig)
        await apply(self.client, self.objects)
        await self.stop()
        self.running = Trimtab(self.client, tree["namespace"], self.folder, tree, source=version.source)
        self.running.objects = [each for each in self.objects if "webhooks" in each]
        await self.running.authorize(COMPONENTS)
        for component in COMPONENTS:
            await self.running.start(component)

    def _configuration(self) -> JSON:
        if self.running is not None:
            return self.running.configuration
        policies = [{"name": "level", "mode": "Enforce"}]
        tree = configuration(self.made.name, scaleDown={"defaultPolicies": policies})
        return tree | {"namespace": "trimtab-system", "leaderElection": {"enabled": True}}

    async def stop(self) -> None:
        """Stop the version that runs."""
        if self.running is not None:
            await self.running.stop()


@pytest.fixture
async def stage(client: Client, tmp_path: Path) -> AsyncIterator[Stage]:
    """Nodes in three zones, and an empty namespace on them."""
    async with deployment_sandbox(client, ZONES) as made:
        found = Stage(client, made, tmp_path)
        try:
            yield found
        finally:
            if found.running is not None:
                await found.running.report()
            await client.delete_all(UnitedTopology, namespace=made.name)
            await client.delete_all(ScaleDownPolicy, namespace=made.name)
            await remove(client, found.objects or [])
            await found.stop()


# The workloads.

SUBSETS = [
    {
        "name": zone,
        "nodeSelectorTerm": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]},
        **({"maxReplicas": 3} if zone == "zone-a" else {}),
    }
    for zone in ("zone-a", "zone-b")
]


async def populate(stage: Stage) -> None:
    """A workload with subsets, one whose costs a policy keeps current, and one that is only kept level."""
    made = stage.made
    target = {"apiVersion": "apps/v1", "kind": "Deployment"}
    topology = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "UnitedTopology",
        "metadata": {"name": "split"},
        "spec": {"targetRef": {**target, "name": "split"}, "subsets": SUBSETS},
    }
    await stage.client.create(UnitedTopology, topology, namespace=made.name)
    policy = {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "ScaleDownPolicy",
        "metadata": {"name": "ranked"},
        "spec": {
            "targetRef": {**target, "name": "ranked"},
            "strategies": [{"name": "Oldest"}],
            "delivery": "Continuous",
        },
    }
    await stage.client.create(ScaleDownPolicy, policy, namespace=made.name)
    for at, name in enumerate(("split", "ranked", "web"), 1):
        await stage.client.create(Deployment, made.deployment(name, 6), namespace=made.name)
        await made.settled(6 * at)
    await until(lambda: is_allocated(stage))
    await made.settled(18)
    await until(lambda: is_complete(stage))


async def is_allocated(stage: Stage) -> bool:
    """Whether every pod of `split` has a subset; others, which API servers admitted before they knew, are replaced."""
    left = [each for each in pods(stage, "split") if not keys.subset_annotations(each.metadata.annotations)]
    for each in left:
        with suppress(NotFound):
            await stage.client.delete(Pod, each.metadata.name, namespace=stage.made.name, grace_period_seconds=0)
    return not left


async def is_complete(stage: Stage) -> bool:
    """Whether every pod has what the features write: a subset, or a cost of the policy."""
    split = [keys.subset_annotations(pod.metadata.annotations) for pod in pods(stage, "split")]
    ranked = [pod.metadata.annotations.get(DELETION_COST) for pod in pods(stage, "ranked")]
    topology = await stage.client.get(UnitedTopology, "split", namespace=stage.made.name)
    is_counted = sum(row.replicas for row in topology.status.subset_statuses) == len(split)
    return is_counted and all(split) and sum(cost is not None for cost in ranked) >= len(ranked) - 1


def pods(stage: Stage, name: str) -> list[Pod]:
    """The active pods of a workload."""
    return [pod for pod in stage.made.pods.store if pod.active and pod.metadata.labels.get("app") == name]


def zones(stage: Stage, name: str) -> Counter[str]:
    """How many active pods of a workload are in each zone."""
    found = {node.metadata.name: node.metadata.labels[ZONE] for node in stage.made.machines.store}
    return Counter(found[pod.spec.node_name] for pod in pods(stage, name))


def untouched(stage: Stage, *names: str) -> dict[str, JSON]:
    """Everything about the pods of workloads that an upgrade must not change, by UID."""
    found = [pod for name in names for pod in pods(stage, name)]
    return {pod.metadata.uid: {"node": pod.spec.node_name, **pod.metadata.annotations} for pod in found}


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.2)


async def shrink_and_switch(stage: Stage, size: int, version: Version) -> None:
    """Ask for a scale-down of `web`, and switch to another version while its plan is under way."""
    asked = asyncio.ensure_future(stage.made.scale("web", size))
    await asyncio.sleep(0.2)
    await stage.switch(version)
    await asked


@pytest.mark.parametrize("direction", ["upgrade", "downgrade"])
async def test_nothing_is_lost_and_no_pod_is_touched(direction: str, stage: Stage, previous: Version) -> None:
    """Subsets, costs and statuses stay; a plan under way ends level, and leaves no cost; everything goes on."""
    versions = [previous, Version("this version")]
    old, new = versions if direction == "upgrade" else reversed(versions)
    await stage.switch(old)
    await populate(stage)
    before = untouched(stage, "split", "ranked")
    await shrink_and_switch(stage, 3, new)
    await stage.made.settled(15)
    await until(lambda: is_complete(stage))
    assert untouched(stage, "split", "ranked") == before
    assert not [pod for pod in pods(stage, "web") if SCALE_PLAN in pod.metadata.annotations]
    for name, sizes in {"ranked": (3, 12), "split": (4, 10)}.items():
        await stage.made.scale(name, sizes[0])
        await stage.made.settled(sizes[1])
    await until(lambda: is_complete(stage))
    assert zones(stage, "web") == {"zone-a": 1, "zone-b": 1, "zone-c": 1}
    assert zones(stage, "split") == {"zone-a": 3, "zone-b": 1}, "the last subset shrinks first"
