"""The part of a cluster that some callers see is kept current, change by change."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.dashboard.serving import SETTINGS
from tests.unit.inspection.clusters import SOFT, Builder, three_zones
from trimtab.api import codec
from trimtab.api.apps import Deployment
from trimtab.api.core import Namespace
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.dashboard.parts import KEPT_SECONDS, Parts
from trimtab.dashboard.rights import EVERYTHING, Rights, visible
from trimtab.inspection.cluster import Cluster
from trimtab.inspection.overviews import workload_overview
from trimtab.inspection.plans import plan_workload
from trimtab.testing.clocks import VirtualClock

SHOP = frozenset((plural, "shop") for plural in ("pods", "deployments", "replicasets"))
RIGHTS = {
    "a namespace and nodes": Rights(cluster=frozenset({"nodes"}), namespaced=SHOP),
    "a namespace alone": Rights(namespaced=SHOP),
    "everything but nodes": Rights(cluster=frozenset({"pods", "deployments", "replicasets", "namespaces", "services"})),
    "nothing": Rights(),
}
ON = ["a1", "a1", "a2", "b1", "b2", "c1"]


class Followed:
    """A cluster that changes."""

    def __init__(self) -> None:
        builder: Builder = three_zones().namespace("shop").namespace("secret")
        builder.deployment("web", ON, namespace="shop", constraints=[SOFT])
        self.cluster = builder.deployment("vault", ON, namespace="secret", constraints=[SOFT]).build()
        self.clock = VirtualClock()
        self.parts = Parts(lambda: self.cluster, SETTINGS, self.clock)

    def change(self, old: Any, new: Any) -> bool:
        """Replace or remove an object."""
        objects = [new if each is old else each for each in self.cluster.all(type(old))]
        self._replace(type(old), [each for each in objects if each is not None])
        return self.parts.note(old, new)

    def add(self, new: Any) -> bool:
        """Add an object."""
        self._replace(type(new), [*self.cluster.all(type(new)), new])
        return self.parts.note(None, new)

    def _replace(self, kind: type[Any], objects: list[Any]) -> None:
        found = {**self.cluster.objects, kind: objects}
        self.cluster = Cluster(time=self.cluster.time, objects=found, origin=self.cluster.origin)


def moved(pod: Pod, node: str) -> Pod:
    """The pod on another node."""
    tree = codec.to_tree(pod)
    return codec.convert({**tree, "spec": {**tree["spec"], "nodeName": node}}, Pod)


def seen(cluster: Cluster) -> dict[str, Any]:
    """What is decided from a cluster: overviews, and plans for three."""
    found: dict[str, Any] = {}
    for workload in cluster.workloads():
        name = f"{workload.metadata.namespace}/{workload.metadata.name}"
        found[name] = codec.to_tree(workload_overview(cluster, workload, SETTINGS))
        plan = codec.to_tree(plan_workload(cluster, workload, 3, SETTINGS))
        for controller in plan["controllers"]:  # these are sets, in the order of the snapshot's rows
            controller |= {field: sorted(controller.get(field, [])) for field in ("possible", "always")}
        found[f"{name} at 3"] = plan
    return found


@pytest.mark.parametrize("rights", RIGHTS.values(), ids=RIGHTS.keys())
async def test_a_part_stays_what_would_be_put_together_anew(rights: Rights) -> None:
    """After any changes, in visible and in hidden namespaces, of pods and nodes."""
    followed, rng = Followed(), random.Random(25)
    part = await followed.parts.of(rights)
    for _ in range(40):
        if rng.random() < 0.2:
            node = rng.choice(followed.cluster.all(Node))
            tree = codec.to_tree(node)
            labels = {**tree["metadata"]["labels"], "topology.kubernetes.io/zone": rng.choice(["z1", "z2", "z9"])}
            followed.change(node, codec.convert({**tree, "metadata": {**tree["metadata"], "labels": labels}}, Node))
        else:
            pod = rng.choice(followed.cluster.all(Pod))
            followed.change(pod, None if rng.random() < 0.1 else moved(pod, rng.choice(ON)))
        assert seen(part.now()) == seen(visible(followed.cluster, rights))


async def test_changes_that_may_not_be_seen_are_no_changes() -> None:
    """Pages of callers are not even drawn again for them."""
    followed = Followed()
    await followed.parts.of(RIGHTS["a namespace alone"])
    hidden = next(pod for pod in followed.cluster.all(Pod) if pod.metadata.namespace == "secret")
    shown = next(pod for pod in followed.cluster.all(Pod) if pod.metadata.namespace == "shop")
    assert followed.change(hidden, moved(hidden, "c1")) is False
    assert followed.change(shown, moved(shown, "c1")) is True
    assert followed.change(followed.cluster.all(Node)[0], None) is False


async def test_lookups_by_name_and_owner_are_filtered() -> None:
    """Not only lists are."""
    followed = Followed()
    cluster = (await followed.parts.of(RIGHTS["a namespace alone"])).now()
    assert cluster.find(Deployment, "secret", "vault") is None
    assert cluster.find(Deployment, "shop", "web") is not None
    assert cluster.find(Node, "", "a1") is None
    assert cluster.find(Namespace, "", "secret") is None
    vault = followed.cluster.find(Deployment, "secret", "vault")
    assert vault is not None
    assert cluster.sets_of(vault) == []
    (owner,) = followed.cluster.sets_of(vault)
    assert cluster.pods_of(owner.metadata.uid) == []
    assert cluster.orphans_in("secret") == []
    assert cluster.policies_in("secret") == []


async def test_a_part_that_nobody_asks_for_is_dropped() -> None:
    """Whoever comes back gets a new one."""
    followed = Followed()
    for rights in (EVERYTHING, RIGHTS["a namespace alone"]):
        await followed.parts.of(rights)
    await followed.clock.advance(KEPT_SECONDS - 1)
    await followed.parts.of(EVERYTHING)
    await followed.clock.advance(2)
    pod = followed.cluster.all(Pod)[0]
    followed.change(pod, None)
    assert len(followed.parts) == 1
    assert (await followed.parts.of(EVERYTHING)).now() is followed.cluster
