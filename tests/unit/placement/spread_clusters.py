"""Random small clusters with everything that spreading reads."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.unit.placement.samples import SampleCluster
from trimtab.api import codec
from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.core import ReplicationController, Service
from trimtab.api.nodes import DEPRECATED_ZONE, HOSTNAME, REGION, ZONE, Node
from trimtab.api.pods import Pod
from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.testing.builders import pod

Tree = dict[str, Any]

NAMES = ("a", "b", "c", "d", "e")
RACK = "example.com/rack"
KEYS = (ZONE, HOSTNAME, RACK)
POLICIES = st.sampled_from([None, "Honor", "Ignore"])
LABELS = st.fixed_dictionaries({}, optional={"app": st.sampled_from(["web", "db"]), "tier": st.just("front")})


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """A node that lacks labels now and then, or has an empty one."""
    values = {ZONE: ["z1", "z2", ""], RACK: ["r1", "r2"], REGION: ["r"], DEPRECATED_ZONE: ["z1", "z3"]}
    labels = {key: draw(st.sampled_from(values[key])) for key in values if draw(st.booleans())}
    if draw(st.sampled_from([True, True, True, False])):
        labels[HOSTNAME] = draw(st.sampled_from([name, name, "shared"]))
    effect = draw(st.sampled_from([None, None, "NoSchedule", "PreferNoSchedule"]))
    taints = [{"key": "dedicated", "effect": effect}] if effect else []
    return codec.convert({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}, Node)


@st.composite
def running_pods(draw: st.DrawFn, number: int) -> Pod:
    """A pod on a node, which may not exist; perhaps finished or terminating."""
    made = pod(f"pod-{number}", namespace=draw(st.sampled_from(["default", "default", "other"])))
    made.labels(draw(LABELS)).on(draw(st.sampled_from([*NAMES, "gone"])))
    made.phase(draw(st.sampled_from(["Running", "Running", "Pending", "Succeeded"])))
    if draw(st.sampled_from([False, False, False, True])):
        made.terminating()
    return made.build()


@st.composite
def constraints(draw: st.DrawFn, *, own: bool) -> Tree:
    """A constraint, a pod's own or one of a configuration."""
    made: Tree = {
        "maxSkew": draw(st.integers(1, 3)),
        "topologyKey": draw(st.sampled_from(KEYS if own else (*KEYS, DEPRECATED_ZONE))),
        "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
        "nodeAffinityPolicy": draw(POLICIES),
        "nodeTaintsPolicy": draw(POLICIES),
        "minDomains": draw(st.sampled_from([None, None, 1, 2, 3])),
    }
    if own:
        made["labelSelector"] = draw(st.sampled_from([None, {}, {"matchLabels": {"app": "web"}}]))
        made["matchLabelKeys"] = draw(st.sampled_from([None, ["tier"]]))
    return {key: value for key, value in made.items() if value is not None}


@st.composite
def incoming_pods(draw: st.DrawFn, *, own: bool) -> Pod:
    """A pod to be placed, with constraints of its own or without."""
    made = pod("incoming").labels(draw(LABELS))
    if draw(st.booleans()):
        made.tolerates("dedicated")
    if draw(st.sampled_from([False, False, True])):
        made.node_selector({RACK: "r1"})
    if own:
        made.spec(topologySpreadConstraints=draw(st.lists(constraints(own=True), min_size=1, max_size=3)))
    elif draw(st.booleans()):
        kind, version = draw(st.sampled_from([*GROUPS, ("ReplicaSet", "extensions/v1beta1")]))
        made.owned_by("owner", kind=kind, api_version=version)
    return made.build()


GROUPS = [("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")]


@st.composite
def sample_clusters(draw: st.DrawFn) -> SampleCluster:
    """Nodes, pods, services and workloads."""
    present = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    meta = {"name": "owner", "namespace": "default"}
    workload = {"metadata": meta, "spec": {"selector": draw(st.sampled_from([None, {"matchLabels": {"app": "web"}}]))}}
    controller = {"metadata": meta, "spec": {"selector": {"app": "web"}}}
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": draw(LABELS)}}
    there = draw(st.booleans())
    return SampleCluster(
        nodes=[draw(nodes(name)) for name in present],
        pods=[draw(running_pods(number)) for number in range(draw(st.integers(0, 8)))],
        services=[codec.convert(service, Service)] if draw(st.booleans()) else [],
        controllers=[codec.convert(controller, ReplicationController)] if there else [],
        replica_sets=[codec.convert(workload, ReplicaSet)] if there else [],
        stateful_sets=[codec.convert(workload, StatefulSet)] if there else [],
    )


def unrepeated(given: list[Tree]) -> list[Tree]:
    """Constraints of a configuration may not repeat key and action."""
    return list({(c["topologyKey"], c["whenUnsatisfiable"]): c for c in given}.values())


arguments = st.one_of(
    st.sampled_from([{"defaultingType": "System"}, {"defaultingType": "Proposal"}]),
    st.lists(constraints(own=False), max_size=3).map(
        lambda given: {"defaultingType": "List", "defaultConstraints": unrepeated(given)}
    ),
).map(lambda tree: codec.convert(tree, PodTopologySpreadArgs))
"""Arguments of the plugin."""
