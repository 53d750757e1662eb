"""CloneSets in a namespace of their own, on any control plane; and the stories of policies that rank their pods.

A process of Trimtab reconciles them, or a controller in this process. Nodes are objects without kubelets, in zones of
the test's choosing: pods are put on them by name, and the test says since when they are ready. (A control plane gives
nodes up that do not report for most of a minute; no test takes that long.) Pods end at once when they are deleted.
Everything goes away with the context.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from trimtab.api import crds, times
from trimtab.api.annotations import MANAGED_BY, OPT_OUT, OPTED_OUT
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Event, Namespace
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.meta import Condition
from trimtab.api.nodes import HOSTNAME, ZONE, Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.cloneset import kind_owner
from trimtab.cloneset.controller import Controller
from trimtab.cloneset.settings import Settings
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel, within
from trimtab.kube.errors import AlreadyExists, NotFound
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource, object_key, untyped
from trimtab.kube.stores import Store

PATIENCE = 30.0
TAINT = {"key": "clones.trimtab.dev/only", "effect": "NoSchedule"}
MARK = "clones.trimtab.dev/suite"

DEFINITIONS = Resource.of(CustomResourceDefinition).raw
CLONESETS = Resource.of(CloneSet).raw
NODES = Resource.of(Node).raw
PODS = Resource.of(Pod).raw
POLICIES = Resource.of(ScaleDownPolicy).raw


def template(image: str = "example.com/app:1", *, spread: str = "", **labels: str) -> JSON:
    """A template of pods that terminate at once, spread over a topology key if one is given."""
    labels = labels or {"app": "web"}
    spec: JSON = {
        "containers": [{"name": "main", "image": image}],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "schedulerName": "nobody",
    }
    if spread:
        rule = {"maxSkew": 1, "topologyKey": spread, "whenUnsatisfiable": "ScheduleAnyway"}
        spec["topologySpreadConstraints"] = [{**rule, "labelSelector": {"matchLabels": labels}}]
    return {"metadata": {"labels": labels}, "spec": spec}


def manifest(replicas: int, name: str = "web", *, by: str, **spec: Any) -> JSON:
    """A CloneSet that the controller of this name reconciles."""
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(app=name), **spec}
    metadata = {"name": name, "annotations": {MANAGED_BY: by}}
    return {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": metadata, "spec": body}


@dataclass
class CloneSetSandbox:
    """A namespace, its nodes, and informers of its objects."""

    client: Client
    name: str
    pods: Informer[Pod]
    clonesets: Informer[CloneSet]
    events: Informer[Event]
    policies: Informer[ScaleDownPolicy]
    gone: list[str] = field(default_factory=list)
    """The names of deleted pods, in order."""
    controller: asyncio.Future[None] | None = None
    manager: str = ""
    """The name of the controller of the CloneSets: the namespace's, unless it is Trimtab's own."""

    # Setup.

    async def nodes(self, zones: Mapping[str, str]) -> None:
        """Create nodes by zone, such as {"x": "a b c"}."""
        for zone, names in zones.items():
            for name in names.split():
                labels = {HOSTNAME: self.node(name), ZONE: zone, MARK: self.name}
                body = {"metadata": {"name": self.node(name), "labels": labels}, "spec": {"taints": [TAINT]}}
                await self.client.create(NODES, body)
                now = times.format_time(self.client.clock.now())
                beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
                patch = {"status": {"conditions": [beat]}}
                await self.client.patch(NODES, self.node(name), patch, subresource="status")

    def node(self, name: str) -> str:
        """The full name of a node."""
        return f"{self.name}-{name}"

    async def place(self, name: str, on: str, *, since: str, **labels: str) -> None:
        """Create a pod without an owner that has been ready on a node since then."""
        tree = template(**labels)
        body = {**tree, "metadata": {**tree["metadata"], "name": name}}
        body["spec"] = {**tree["spec"], "nodeName": self.node(on)}
        await self.client.create(PODS, body, namespace=self.name)
        await self.ready(name, since)

    async def ready(self, name: str, since: str) -> None:
        """Set the time since when a pod is ready."""
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        patch = {"status": {"phase": "Running", "conditions": [condition]}}
        await self.client.patch(Pod, name, patch, namespace=self.name, subresource="status")

    async def run_pods(self, *on: str) -> None:
        """Bind pending pods to these nodes in turn, and make them ready."""
        waiting = [pod for pod in self.pods.store if pod.active and not pod.spec.node_name]
        for number, pod in enumerate(waiting):
            node = self.node(on[number % len(on)])
            await self.client.bind(pod.metadata.name, namespace=self.name, node=node)
            await self.ready(pod.metadata.name, "2026-01-01T00:00:00Z")

    # Requests.

    async def create(self, replicas: int, name: str = "web", **spec: Any) -> None:
        """Create a CloneSet."""
        await self.client.create(
            CLONESETS, manifest(replicas, name, by=self.manager or self.name, **spec), namespace=self.name
        )

    async def scale(self, replicas: int, name: str = "web") -> None:
        """Scale by `/scale`, as kubectl and autoscalers do."""
        await self.client.resize(CloneSet, name, replicas, namespace=self.name)

    async def govern(self, name: str = "web", **spec: Any) -> None:
        """Create a policy for a CloneSet, and wait until it is seen."""
        target = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": name}
        body = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy", "metadata": {"name": name}}
        await self.client.create(POLICIES, {**body, "spec": {"targetRef": target, **spec}}, namespace=self.name)
        await self._until(self.policies, lambda store: len(store) > 0)

    async def annotate(self, key: str, values: Mapping[str, int]) -> None:
        """Write an annotation of pods, one by one, as a ranking component does."""
        for name, value in values.items():
            patch = {"metadata": {"annotations": {key: str(value)}}}
            await self.client.patch(Pod, name, patch, namespace=self.name)

    # Results.

    @property
    def names(self) -> set[str]:
        """The names of the active pods."""
        return {pod.metadata.name for pod in self.pods.store if pod.active}

    async def until(self, count: int) -> set[str]:
        """Wait until there are so many active pods; returns their names."""
        await self._until(self.pods, lambda store: sum(pod.active for pod in store) == count)
        return self.names

    async def annotated(self, key: str, count: int) -> None:
        """Wait until so many active pods have an annotation."""
        await self._until(
            self.pods, lambda store: sum(pod.active and key in pod.metadata.annotations for pod in store) == count
        )

    async def reported(self, holds: Callable[[CloneSet], bool], name: str = "web") -> CloneSet:
        """Wait for a condition of a CloneSet."""

        def said(store: Store[CloneSet]) -> bool:
            found = store.get(object_key(self.name, name))
            return found is not None and holds(found)

        await self._until(self.clonesets, said)
        found = self.clonesets.get(object_key(self.name, name))
        assert found is not None
        return found

    async def condition(self, kind: str, words: str = "", name: str = "web") -> Condition:
        """Wait for a status condition with this message."""

        def find(cloneset: CloneSet) -> Condition | None:
            found = [each for each in cloneset.status.conditions if each.type == kind and words in each.message]
            return found[0] if found else None

        made = find(await self.reported(lambda cloneset: find(cloneset) is not None, name))
        assert made is not None
        return made

    async def event(self, reason: str) -> Event:
        """Wait for an event."""
        await self._until(self.events, lambda store: any(event.reason == reason for event in store))
        return next(event for event in self.events.store if event.reason == reason)

    async def _until(self, informer: Informer[Any], holds: Callable[[Store[Any]], bool]) -> None:
        await within(self.client.clock, PATIENCE, informer.wait_for(holds))

    # The controller.

    async def start(self) -> None:
        """Start a controller for the namespace, named after it: other controllers skip its CloneSets."""
        mine = Settings(name=self.name, namespaces=frozenset({self.name}))
        self.controller = asyncio.ensure_future(Controller(self.client, mine).run())

    async def kill(self) -> None:
        """Stop the controller."""
        if self.controller is not None:
            await cancel(self.controller)

    def left(self, pod: Pod) -> None:
        """Record a deleted pod, once."""
        if pod.metadata.name not in self.gone:
            self.gone.append(pod.metadata.name)


async def define(client: Client) -> None:
    """Create our custom resource definitions, and wait until they are served."""
    definitions: Informer[CustomResourceDefinition] = Informer(client, CustomResourceDefinition)
    watching = asyncio.ensure_future(definitions.run())
    names = {kind.name for kind in crds.KINDS}
    try:
        for tree in crds.manifests():
            with suppress(AlreadyExists):
                await client.create(DEFINITIONS, tree)

        def served(store: Store[CustomResourceDefinition]) -> bool:
            return names <= {each.metadata.name for each in store if kind_owner.is_served(each)}

        await within(client.clock, PATIENCE, definitions.wait_for(served))
    finally:
        await cancel(watching)


@asynccontextmanager
async def cloneset_sandbox(client: Client, *, manager: str = "") -> AsyncIterator[CloneSetSandbox]:
    """A namespace whose CloneSets are reconciled, which is removed at the end of the context.

    Unless Trimtab itself is the manager, a controller is started here, and Trimtab is opted out of the namespace.
    """
    name = f"clones-{uuid.uuid4().hex[:8]}"
    await define(client)
    labels = {} if manager else {OPT_OUT: OPTED_OUT}
    await client.create(Namespace, {"metadata": {"name": name, "labels": labels}})
    with suppress(AlreadyExists):  # where no controller creates it: pods are not admitted without
        accounts = untyped("v1", "ServiceAccount", "serviceaccounts")
        await client.create(accounts, {"metadata": {"name": "default"}}, namespace=name)
    made = CloneSetSandbox(
        client,
        name,
        Informer(client, Pod, namespace=name),
        Informer(client, CloneSet, namespace=name),
        Informer(client, Event, namespace=name),
        Informer(client, ScaleDownPolicy, namespace=name),
        manager=manager,
    )
    made.pods.subscribe(updated=lambda _, new: made.left(new) if new.terminating else None, deleted=made.left)
    informers: list[Informer[Any]] = [made.pods, made.clonesets, made.events, made.policies]
    watching = [asyncio.ensure_future(informer.run()) for informer in informers]
    try:
        for informer in informers:
            await informer.wait_synced()
        if not manager:
            await made.start()
        yield made
    finally:
        await made.kill()
        await cancel(*watching)
        await _clean(client, name)


# Policies whose ranks a CloneSet follows, where Trimtab's controllers run with the gate CloneSetPodCost.

THREE_ZONES = {"az-1": "a1 a2", "az-2": "b1 b2", "az-3": "c1 c2"}


@asynccontextmanager
async def group_costs(made: CloneSetSandbox) -> AsyncIterator[Informer[PodGroupCost]]:
    """An informer of the PodGroupCosts of a namespace, for as long as the context."""
    costs: Informer[PodGroupCost] = Informer(made.client, PodGroupCost, namespace=made.name)
    watching = asyncio.ensure_future(costs.run())
    try:
        await costs.wait_synced()
        yield costs
    finally:
        await cancel(watching)


async def run_twelve(made: CloneSetSandbox, **spec: Any) -> None:
    """Create twelve pods, four in each of three zones, and wait until they are available."""
    await made.nodes(THREE_ZONES)
    await made.create(12, updateStrategy={"maxUnavailable": "100%"}, **spec)
    await made.until(12)
    await made.run_pods(*(name for names in THREE_ZONES.values() for name in names.split()))
    await made.reported(lambda cloneset: cloneset.status.available_replicas == 12)


def zone_sizes(made: CloneSetSandbox) -> list[int]:
    """How many pods are in each zone, by the first letter of the node."""
    places = [pod.spec.node_name.removeprefix(f"{made.name}-")[0] for pod in made.pods.store if pod.active]
    return [places.count(letter) for letter in "abc"]


async def ranks_are_followed(made: CloneSetSandbox) -> None:
    """The workflow of twelve pods in three zones: ranks are written once, and whatever the size, zones are level."""
    async with group_costs(made) as costs:
        await made.govern(delivery="Continuous", carrier="PodGroupCost", strategies=[{"name": "Balance"}])
        await run_twelve(made)
        await within(made.client.clock, PATIENCE, costs.wait_for(lambda store: any(map(_ranks_three_zones, store))))
        first = {name: cost for each in costs.store for name, cost in each.spec.costs.items()}
        for size in (11, 10, 9, 6, 3):
            there = set(made.names)
            await made.scale(size)
            left = await made.until(size)
            assert min(first[name] for name in there - left) >= max(first[name] for name in left)
            assert max(zone_sizes(made)) - min(zone_sizes(made)) <= 1
        for each in costs.store:
            assert each.spec.costs.items() <= first.items(), "no rank was written anew"


def _ranks_three_zones(costs: PodGroupCost) -> bool:
    """Whether it has the ranks of twelve pods in three zones: four values, each for three pods."""
    return sorted(Counter(costs.spec.costs.values()).values()) == [3, 3, 3, 3]


async def recomputed_ranks_are_waited_for(made: CloneSetSandbox) -> None:
    """Each removal is followed by ranks for the pods that are left, and only then by the next one, however quickly
    requests follow one another."""
    ranked: list[frozenset[str]] = []
    avoided = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = template(app="web")
    preferred = [{"weight": 1, "podAffinityTerm": avoided}]
    apart["spec"]["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    async with group_costs(made) as costs:
        costs.subscribe(
            added=lambda new: ranked.append(frozenset(new.spec.costs)),
            updated=lambda _, new: ranked.append(frozenset(new.spec.costs)),
        )
        await made.govern(
            delivery="Continuous",
            carrier="PodGroupCost",
            strategies=[{"name": "AntiAffinity"}],
            whenUnranked={"timeoutSeconds": 600},
        )
        await run_twelve(made, template=apart)
        everyone = frozenset(made.names)
        await within(made.client.clock, PATIENCE, costs.wait_for(lambda _: everyone in ranked))
        for size in (11, 10, 8):
            await made.scale(size)
        await made.until(8)
    steps = [everyone - set(made.gone[:count]) for count in range(4)]
    assert [step for step in ranked if step in steps and len(step) < 12] == steps[1:]
    assert not [event for event in made.events.store if event.reason == "RanksIgnored"]


async def _clean(client: Client, name: str) -> None:
    await client.delete_all(CLONESETS, namespace=name, propagation="Background")
    await client.delete_all(PODS, namespace=name, grace_period_seconds=0)
    await client.delete_all(NODES, label_selector=f"{MARK}={name}")
    with suppress(NotFound):
        await client.delete(Namespace, name)
