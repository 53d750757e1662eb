"""Decisions with values that were kept from earlier ones are the same as decisions that are computed anew."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import NAMES, many_nodes, many_pods
from trimtab.api import schedulerconfig
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.placement.decisions import Decision
from trimtab.placement.engine import place
from trimtab.placement.profiles import Profile, default_profile, profiles
from trimtab.snapshot import Snapshot, kept
from trimtab.testing.builders import PodBuilder, node, pod

FIELDS = ("initContainers", "overhead", "resources", "tolerations", "nodeSelector")
SHAPE = [{"utilization": 0, "score": 10}, {"utilization": 60, "score": 2}, {"utilization": 100, "score": 0}]
STRATEGIES: dict[str, Any] = {
    "MostAllocated": {},
    "RequestedToCapacityRatio": {"requestedToCapacityRatio": {"shape": SHAPE}},
}


def profile_of(strategy: str) -> Profile:
    """The default profile with another strategy of NodeResourcesFit."""
    args = {"scoringStrategy": {"type": strategy, **STRATEGIES[strategy]}}
    written = {"schedulerName": "other", "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return profiles(schedulerconfig.read(header | {"profiles": [written]}))["other"]


PROFILES = (default_profile(), *map(profile_of, STRATEGIES))

Step = Callable[[Snapshot], None]


def facts(decision: Decision) -> Any:
    """Everything that a decision says about the nodes that exist, and its arrays for all rows."""
    scores = {
        plugin: (each.weight, each.scores.raw.tolist(), each.scores.normalized.tolist())
        for plugin, each in decision.scores.items()
    }
    refusals = [
        (each.plugin, each.codes.tolist(), [(mask.tolist(), reason) for mask, reason in each.reasons])
        for each in decision.refusals
    ]
    said = (decision.node, decision.message, decision.verdicts(), decision.totals())
    return said, decision.feasible.tolist(), decision.total.tolist(), scores, refusals


def templates() -> list[Pod]:
    """Pods of which many are placed: with and without constraints and requests, one of them with a huge one."""
    made = [
        web().requests(cpu="300m", memory="1Gi"),
        web().requests(cpu="1", memory="512Mi").spread("zone", hard=False).spread("host", hard=False),
        web().requests(memory="7Ei"),
        web(),
    ]
    return [each.build() for each in made]


def web() -> PodBuilder:
    """A pod of a workload."""
    return pod("web").labels(app="web")


def roomy_nodes() -> list[Node]:
    """Nodes of three sizes, several of each name."""
    sizes = ({"cpu": "4", "memory": "8Gi"}, {"cpu": "8", "memory": "16Gi"}, {"cpu": "2", "memory": "8Ei"})
    return [
        node(name, zone=f"z{number % 2}").allocatable(pods="20", **size).build()
        for number, name in enumerate(NAMES)
        for size in sizes
    ]


def renamed(template: Pod, name: str) -> Pod:
    """Another pod of the template."""
    return msgspec.structs.replace(template, metadata=msgspec.structs.replace(template.metadata, name=name))


def placing(template: Pod, profile: Profile, times: int, seed: int) -> Step:
    """Place pods of a template one after the other, and compare each decision with that on a copy of the snapshot."""

    def run(view: Snapshot) -> None:
        for _ in range(times):
            one = renamed(template, f"new-{len(view.pods)}")
            decision = place(one, view, profile, random.Random(seed))
            assert facts(decision) == facts(place(one, view.copy(), profile, random.Random(seed)))
            if decision.node is not None:
                view.assume(one, decision.node)

    return run


def deleting(number: int) -> Step:
    """Delete one of the pods, if there are any."""

    def run(view: Snapshot) -> None:
        keys = sorted(view.pods.rows.index)
        if keys:
            view.drop(Pod, *keys[number % len(keys)].split("/"))

    return run


def steps() -> st.SearchStrategy[Step]:
    """A change of the cluster, or placing pods of one template."""
    times, seeds = st.integers(1, kept.MAX_LEVELS + 3), st.integers(0, 3)
    places = st.builds(placing, st.sampled_from(templates()), st.sampled_from(PROFILES), times, seeds)
    nodes, pods = st.sampled_from((*roomy_nodes(), *many_nodes()[:6])), many_pods(*FIELDS, placed=True)
    others = (
        st.builds(lambda a_node: lambda view: view.put(a_node), nodes),
        st.builds(lambda name: lambda view: view.drop(Node, "", name), st.sampled_from(NAMES)),
        st.builds(lambda a_pod: lambda view: view.put(a_pod), st.sampled_from(pods)),
        st.builds(deleting, st.integers(0, 50)),
        st.builds(deleting, st.just(-1)),
    )
    return st.one_of(places, places, places, *others)


@settings(deadline=None, max_examples=40)
@given(
    nodes=st.lists(st.sampled_from(roomy_nodes()), min_size=2, max_size=6),
    run=st.lists(steps(), min_size=3, max_size=12),
)
def test_kept_values_do_not_change_decisions(nodes: list[Node], run: list[Step]) -> None:
    """Whatever happens between them: the snapshot's copy keeps nothing, and decides the same."""
    view = Snapshot()
    for each in nodes:
        view.put(each)
    for step in run:
        step(view)
