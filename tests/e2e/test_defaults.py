"""Default constraints for pods that state none: written at admission, or applied by a configured kube-scheduler.

Nodes are in racks, a topology that no scheduler knows by itself. The workloads state no constraints, and are not
changed. `bench/promise` has the same with more sizes and rollouts, and what stock leaves.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.e2e.processes import WEBHOOKS, configuration, running
from tests.lab.deployments import PODS, TAINT, DeploymentSandbox, deployment_sandbox, skew
from trimtab.api.annotations import DEFAULT_CONSTRAINTS
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.core import Namespace, Service
from trimtab.api.documents import JSON
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.sessions import Session
from trimtab_lab.nodes import shapes

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

BINARIES = os.environ.get("CONTROL_PLANE", "")
RACK = "example.com/rack"
HARD_RACK = {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule"}
REVISION = "example.com/revision"
CHANGES, ROLLOUTS = 8, 3


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane."""
    async with Client(Session(config.discover())) as made:
        yield made


@asynccontextmanager
async def racks(client: Client) -> AsyncIterator[DeploymentSandbox]:
    """A namespace that is chosen for default constraints, and nodes in four racks of different size."""
    async with deployment_sandbox(client, {}) as made:
        await client.patch(Namespace, made.name, {"metadata": {"labels": {DEFAULT_CONSTRAINTS: "enabled"}}})
        tree = {
            "name": made.name,
            "prefix": f"{made.name}-",
            "rackKey": RACK,
            "node": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
            "zones": [{"name": "zone-a", "nodes": 5, "racks": 3}, {"name": "zone-b", "nodes": 4, "racks": 1}],
        }
        await made.nodes.reshape(shapes.read(tree))
        async with asyncio.timeout(60):
            while sum(node.ready for node in made.machines.store) != 9:
                await asyncio.sleep(0.1)
        yield made


def in_racks(made: DeploymentSandbox) -> tuple[int, ...]:
    """How many pods are in each rack."""
    places = {node.metadata.name: node.metadata.labels[RACK] for node in made.machines.store}
    counts = Counter(places[pod.spec.node_name] for pod in made.pods.store if pod.active)
    return tuple(counts[rack] for rack in sorted(set(places.values())))


def at_admission(made: DeploymentSandbox, **more: Any) -> JSON:
    """The configuration that writes the operator's constraint into the pods of the namespace."""
    section = {"delivery": "Admission", "rules": [{"name": "racks", "constraints": [HARD_RACK]}]}
    policies = {"defaultPolicies": [{"name": "level", "mode": "Enforce"}]}
    return configuration(made.name, defaultConstraints=section, scaleDown=policies, **more)


async def roll_out(made: DeploymentSandbox, revision: int, size: int) -> None:
    """Change the template of the Deployment, and wait until all pods are of the new one."""
    patch = {"spec": {"template": {"metadata": {"labels": {"app": "web", REVISION: str(revision)}}}}}
    await made.client.patch(Deployment, "web", patch, namespace=made.name)
    async with asyncio.timeout(made.patience):
        while [pod.metadata.labels.get(REVISION) for pod in made.pods.store] != [str(revision)] * size:
            await asyncio.sleep(0.1)
    await made.settled(size)


async def test_pods_stay_level_over_racks_through_sizes_and_rollouts(client: Client) -> None:
    """Within maxSkew at every rest, although neither the Deployment nor the scheduler's configuration names racks."""
    rng = random.Random(19)
    async with racks(client) as made, running(client, at_admission(made), [WEBHOOKS]) as trimtab:
        await made.deploy("web", 10)
        layouts = [in_racks(made)]
        size = 10
        for _ in range(CHANGES):
            size = rng.choice([each for each in range(3, 25) if each != size])
            await made.scale("web", size)
            await made.settled(size)
            layouts.append(in_racks(made))
        for revision in range(ROLLOUTS):
            await roll_out(made, revision, size)
            layouts.append(in_racks(made))
        assert [each for each in layouts if skew(each) > 1] == []
        added = await trimtab.sample("trimtab_defaulting_pods_total", result="added")
        assert added >= 10 + ROLLOUTS * size
        await the_deployment_is_untouched(made)


async def the_deployment_is_untouched(made: DeploymentSandbox) -> None:
    """The constraints are in the pods alone, with the selector of their ReplicaSet and the annotation."""
    deployment = await made.client.get(Deployment, "web", namespace=made.name)
    assert deployment.spec.template is not None
    assert "topologySpreadConstraints" not in deployment.spec.template.tree()["spec"]
    sets = {each.metadata.uid: each for each in (await made.client.list(ReplicaSet, namespace=made.name)).items}
    for pod in made.pods.store:
        assert pod.metadata.controller is not None
        (constraint,) = pod.spec.topology_spread_constraints
        assert (constraint.topology_key, constraint.max_skew) == (RACK, 1)
        assert constraint.label_selector == sets[pod.metadata.controller.uid].spec.selector
        assert pod.metadata.annotations[DEFAULT_CONSTRAINTS] == "racks"


async def test_pods_that_opt_out_or_end_get_no_constraints(client: Client) -> None:
    """By label, and those of Jobs; a pod without controller is spread by its services."""
    async with racks(client) as made, running(client, at_admission(made), [WEBHOOKS]):
        body = {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
        await client.create(Service, {"metadata": {"name": "web"}, **body}, namespace=made.name)
        spec = made.deployment("web", 1)["spec"]["template"]["spec"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
        pods: dict[str, JSON] = {
            "served": {"labels": {"app": "web"}},
            "out": {"labels": {"app": "web", DEFAULT_CONSTRAINTS: "disabled"}},
            "job": {"labels": {"app": "web"}, "ownerReferences": [owner]},
            "alone": {"labels": {"app": "other"}},
        }
        found: dict[str, list[str]] = {}
        async with asyncio.timeout(30):  # until the webhook's cache has the service
            while not found.get("served"):
                for name, metadata in pods.items():
                    tree = {"metadata": {**metadata, "name": name}, "spec": spec}
                    made_pod = await client.create(PODS, tree, namespace=made.name, dry_run=True)
                    found[name] = [
                        each["topologyKey"] for each in made_pod["spec"].get("topologySpreadConstraints", [])
                    ]
        assert found == {"served": [RACK], "out": [], "job": [], "alone": []}


async def test_with_the_webhook_stopped_pods_are_created_as_ever(client: Client) -> None:
    """A fault of ours never blocks a pod."""
    async with racks(client) as made, running(client, at_admission(made), [WEBHOOKS]) as trimtab:
        await trimtab.kill(WEBHOOKS)
        await made.deploy("web", 4)
        assert all(not pod.spec.topology_spread_constraints for pod in made.pods.store)
        await trimtab.start(WEBHOOKS)


@pytest.mark.skipif(not BINARIES, reason="CONTROL_PLANE names no folder with kube-scheduler")
async def test_kube_scheduler_starts_with_the_printed_configuration(client: Client, tmp_path: Path) -> None:
    """A second kube-scheduler under a name of its own applies the hard rack constraint to pods that state none."""
    own = configuration("unused")
    own["scheduler"] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "defaultTopologySpreadConstraints": [HARD_RACK],
    }
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    name = f"racks-{random.randrange(10**6)}"
    base = {**kind, "leaderElection": {"leaderElect": False}, "profiles": [{"schedulerName": name}]}
    own["defaultConstraints"] = {"kubeScheduler": base}
    (tmp_path / "trimtab.yaml").write_text(yaml.safe_dump(own))
    kubeconfig = os.environ["KUBECONFIG"].split(os.pathsep)[0]
    command = [sys.executable, "-m", "trimtab", "scheduler-config", "--config", str(tmp_path / "trimtab.yaml")]
    printed = subprocess.run([*command, "--kubeconfig", kubeconfig], check=True, capture_output=True, text=True)  # noqa: S603 - our own program
    (tmp_path / "kube-scheduler.yaml").write_text(printed.stdout)
    arguments = ["--config", str(tmp_path / "kube-scheduler.yaml"), "--secure-port", "0", "--v", "2"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([str(Path(BINARIES) / "kube-scheduler"), *arguments], stderr=log)  # noqa: S603 - of the control plane
    try:
        async with racks(client) as made:
            body = made.deployment("web", 10)
            body["spec"]["template"]["spec"]["schedulerName"] = name
            await client.create(Deployment, body, namespace=made.name)
            await made.settled(10)
            assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
            assert skew(in_racks(made)) <= 1
            assert all(not pod.spec.topology_spread_constraints for pod in made.pods.store)
    finally:
        process.terminate()
        process.wait(30)
