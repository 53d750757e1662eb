"""The scheduler against a control plane, the lab's or the one that KUBECONFIG names.

Each test has a namespace, nodes and a scheduler name of its own: nodes carry a taint that only its pods tolerate, so
that several suites can share a control plane. The scheduler is a process like any other, and can be killed like one.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import absences
from tests.e2e.processes import SCHEDULER, Trimtab, cluster_wide
from trimtab.api.core import Event, Namespace
from trimtab.api.documents import JSON
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube import config, errors
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel, within
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.sessions import Session
from trimtab.kube.stores import Store

pytestmark = pytest.mark.e2e

NODES = Resource.of(Node).raw
PODS = Resource.of(Pod).raw
SERVICE_ACCOUNTS = untyped("v1", "ServiceAccount", "serviceaccounts")
PATIENCE = 60.0
KUBE_SCHEDULER = "default-scheduler"


@dataclass
class Cluster:
    """A few nodes, a namespace, and the nodes on which each of its pods was observed."""

    client: Client
    name: str
    pods: Informer[Pod]
    events: Informer[Event]
    kubeconfig: Path = Path()
    """That of the scheduler's processes."""
    moves: dict[str, list[str]] = field(default_factory=dict)

    async def add_nodes(self, *names: str, zones: int = 3, cpu: str = "4") -> None:
        """Create nodes, spread over zones."""
        for number, name in enumerate(names):
            full = self.node(name)
            labels = {
                "kubernetes.io/hostname": full,
                "topology.kubernetes.io/zone": f"zone-{number % zones}",
                "trimtab-e2e": self.name,
            }
            spec = {"taints": [{"key": "trimtab-e2e", "value": self.name, "effect": "NoSchedule"}]}
            await self.client.create(NODES, {"metadata": {"name": full, "labels": labels}, "spec": spec})
            await self.set_cpu(name, cpu)

    async def set_cpu(self, name: str, cpu: str) -> None:
        """Set the allocatable CPU of a node."""
        amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
        patch = {"status": {"allocatable": amounts, "capacity": amounts}}
        await self.client.patch(NODES, self.node(name), patch, subresource="status")

    async def add_pods(self, names: Iterable[str], scheduler: str = "", **spec: Any) -> None:
        """Create pods that only these nodes accept."""
        for name in names:
            await self.client.create(PODS, self.pod(name, scheduler or self.name, **spec), namespace=self.name)

    def pod(self, name: str, scheduler: str, *, cpu: str = "10m", **spec: Any) -> JSON:
        """A pod of app=web."""
        container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
        return {
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {
                "schedulerName": scheduler,
                "containers": [container],
                "nodeSelector": {"trimtab-e2e": self.name},
                "tolerations": [{"operator": "Exists"}],
                **spec,
            },
        }

    def node(self, name: str) -> str:
        """The full name of a node."""
        return f"{self.name}-{name}"

    async def until(self, condition: Callable[[Store[Pod]], bool]) -> None:
        """Wait until the pods meet a condition."""
        await within(self.client.clock, PATIENCE, self.pods.wait_for(condition))

    async def all_bound(self, count: int) -> None:
        """Wait until so many pods are on nodes."""
        await self.until(lambda store: sum(bool(pod.spec.node_name) for pod in store) >= count)

    async def event(self, name: str, reason: str) -> Event:
        """The event about a pod, waited for: events are written after the fact."""

        def events(store: Store[Event]) -> list[Event]:
            return [event for event in store if (event.involved_object.name, event.reason) == (name, reason)]

        await within(self.client.clock, PATIENCE, self.events.wait_for(lambda store: bool(events(store))))
        return events(self.events.store)[0]

    def seen(self, pod: Pod) -> None:
        """Record the node of a pod."""
        moves = self.moves.setdefault(pod.metadata.uid, [])
        if pod.spec.node_name and moves[-1:] != [pod.spec.node_name]:
            moves.append(pod.spec.node_name)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A namespace and nodes that go away with the test."""
    async with Client(Session(config.discover())) as client:
        name = f"trimtab-e2e-{uuid.uuid4().hex[:10]}"
        await client.create(Namespace, {"metadata": {"name": name}})
        with suppress(errors.AlreadyExists):  # where no controller makes it, we do: pods are not admitted without
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace=name)
        made = Cluster(client, name, Informer(client, Pod, namespace=name), Informer(client, Event, namespace=name))
        made.pods.subscribe(added=made.seen, updated=lambda _, new: made.seen(new))
        watching = [asyncio.ensure_future(informer.run()) for informer in (made.pods, made.events)]
        tree = cluster_wide(name, scheduler={"leaderElection": {"resourceName": name}})
        trimtab = Trimtab(client, tree["namespace"], tmp_path, tree)
        try:
            await trimtab.install([SCHEDULER])
            made.kubeconfig = trimtab.kubeconfigs[SCHEDULER]
            yield made
        finally:
            await trimtab.uninstall()
            await cancel(*watching)
            await client.delete_all(PODS, namespace=name, grace_period_seconds=0)
            await client.delete_all(NODES, label_selector=f"trimtab-e2e={name}")
            await client.delete(Namespace, name)


@asynccontextmanager
async def scheduler(folder: Path, cluster: Cluster, **fields: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """`trimtab run` for the pods that name this cluster's scheduler, with the permissions of an installed scheduler."""
    written = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": cluster.name}],
        **fields,
    }
    path = folder / "scheduler.yaml"
    await asyncio.to_thread(path.write_text, yaml.safe_dump(written))
    command = ("-m", "trimtab", "run", "--scheduler-config", str(path), "--port", "-1", "--log-level", "warning")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, "--component", SCHEDULER, "--kubeconfig", str(cluster.kubeconfig)
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 30) == 0


async def test_pods_are_bound_evenly_over_zones_with_events(cluster: Cluster, tmp_path: Path) -> None:
    """The condition is the API server's, the event is ours."""
    await cluster.add_nodes("a", "b", "c")
    names = [f"web-{number}" for number in range(9)]
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    await cluster.add_pods(names, topologySpreadConstraints=[{**constraint, "labelSelector": selector}])
    async with scheduler(tmp_path, cluster):
        await cluster.all_bound(9)
        placed = sorted(pod.spec.node_name for pod in cluster.pods.store)
        assert placed == sorted([cluster.node(name) for name in "abc"] * 3)
        stored = await cluster.client.get(Pod, "web-0", namespace=cluster.name)  # caches do not keep this condition
        condition = stored.status.condition("PodScheduled")
        assert condition is not None
        assert condition.status == "True"
        event = await cluster.event("web-0", "Scheduled")
        where = next(pod.spec.node_name for pod in cluster.pods.store if pod.metadata.name == "web-0")
        assert event.message == f"Successfully assigned {cluster.name}/web-0 to {where}"
        assert (event.type, event.action, event.reporting_component) == ("Normal", "Binding", cluster.name)


async def test_a_refused_pod_is_reported_and_scheduled_after_a_node_grows(cluster: Cluster, tmp_path: Path) -> None:
    """The condition and the event have the same message; the pod is scheduled after a node grows."""
    await cluster.add_nodes("small", cpu="1")
    await cluster.add_pods(["big"], cpu="2")

    def is_refused(store: Store[Pod]) -> bool:
        found = (pod.status.condition("PodScheduled") for pod in store)
        return any(each is not None and each.reason == "Unschedulable" for each in found)

    async with scheduler(tmp_path, cluster):
        await cluster.until(is_refused)
        (pod,) = cluster.pods.store
        condition = pod.status.condition("PodScheduled")
        assert condition is not None
        assert condition.status == "False"
        assert "1 Insufficient cpu" in condition.message
        event = await cluster.event("big", "FailedScheduling")
        assert (event.message, event.type, event.action) == (condition.message, "Warning", "Scheduling")
        await cluster.set_cpu("small", "4")
        await cluster.all_bound(1)


async def test_a_killed_and_restarted_scheduler_loses_no_pod(cluster: Cluster, tmp_path: Path) -> None:
    """Whatever it had in mind when it was killed, every pod is bound in the end, and none ever moved."""
    await cluster.add_nodes(*(f"n{number}" for number in range(10)), cpu="2")
    async with scheduler(tmp_path, cluster) as first:
        adding = asyncio.ensure_future(cluster.add_pods([f"web-{number}" for number in range(150)]))
        await cluster.all_bound(20)
        first.send_signal(signal.SIGKILL)
        await first.wait()
        await adding
    async with scheduler(tmp_path, cluster):
        await cluster.all_bound(150)
    assert len(cluster.moves) == 150
    assert {len(places) for places in cluster.moves.values()} == {1}


async def test_another_scheduler_takes_over_from_a_killed_leader(cluster: Cluster, tmp_path: Path) -> None:
    """It takes the lease when that has run out."""
    await cluster.add_nodes("a", "b")
    election = {
        "leaderElect": True,
        "resourceName": cluster.name,
        "resourceNamespace": f"trimtab-{cluster.name}",
        "leaseDuration": "3s",
        "renewDeadline": "2s",
        "retryPeriod": "500ms",
    }
    async with scheduler(tmp_path, cluster, leaderElection=election) as first:
        await cluster.add_pods(["early"])
        await cluster.all_bound(1)
        async with scheduler(tmp_path, cluster, leaderElection=election):
            first.send_signal(signal.SIGKILL)
            await first.wait()
            await cluster.add_pods(["late"])
            await cluster.all_bound(2)


async def test_kube_scheduler_and_trimtab_each_schedule_their_own_pods(cluster: Cluster, tmp_path: Path) -> None:
    """Both fill the same nodes at the same time; no pod is bound twice, and none is lost."""
    absences.skip_without(absences.KUBE_SCHEDULER)
    await cluster.add_nodes(*(f"n{number}" for number in range(8)))
    await cluster.add_pods(["probe"], scheduler=KUBE_SCHEDULER)
    await cluster.all_bound(1)
    async with scheduler(tmp_path, cluster):
        await asyncio.gather(
            cluster.add_pods([f"ours-{number}" for number in range(60)]),
            cluster.add_pods([f"theirs-{number}" for number in range(60)], scheduler=KUBE_SCHEDULER),
        )
        await cluster.all_bound(121)
    assert len(cluster.moves) == 121
    assert {len(places) for places in cluster.moves.values()} == {1}
