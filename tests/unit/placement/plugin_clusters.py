"""Random small clusters, and the comparison of a plugin with its slow twin on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.unit.placement import plugin_twins as twins
from tests.unit.placement.plugin_twins import ScoresByNode, Verdicts
from tests.unit.placement.samples import SampleCluster
from trimtab.api import codec
from trimtab.api.nodes import HOSTNAME, ZONE, Node
from trimtab.api.pods import Pod
from trimtab.placement.framework import CODE_NAMES, Cycle, Filter, Refusals, Score, Scores
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import node, pod

Tree = dict[str, Any]

NAMES = ("a", "b", "c", "x", "y", "z")
NAMESPACES: Mapping[str, Mapping[str, str]] = {"default": {"team": "one"}, "other": {"team": "two"}, "plain": {}}
APPS = ("web", "db")

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def verdicts(view: Snapshot, refusals: Refusals | None) -> Verdicts | None:
    """A filter's refusals in the twins' form."""
    if refusals is None:
        return None
    return {
        name: (
            CODE_NAMES[refusals.codes[row]],
            tuple(sorted(reason for refused, reason in refusals.reasons if refused[row])),
        )
        for name, row in view.nodes.rows.index.items()
        if view.nodes.known[row]
    }


def marks(view: Snapshot, scores: Scores | None, feasible: Iterable[Node]) -> ScoresByNode | None:
    """A plugin's scores in the twins' form."""
    if scores is None:
        return None
    rows = {n.metadata.name: view.nodes.rows.index[n.metadata.name] for n in feasible}
    return {name: (int(scores.raw[row]), int(scores.normalized[row])) for name, row in rows.items()}


def filtered(plugin: Filter, incoming: Pod, sample: SampleCluster, churn: Iterable[Pod] = ()) -> Verdicts | None:
    """A filter's verdicts on a cluster."""
    view = sample.snapshot(churn)
    return verdicts(view, plugin.filter(Cycle(incoming, view)))


def scored(
    plugin: Score, incoming: Pod, sample: SampleCluster, feasible: list[Node] | None = None, churn: Iterable[Pod] = ()
) -> ScoresByNode | None:
    """A plugin's scores of the feasible nodes of a cluster (all by default)."""
    view = sample.snapshot(churn)
    chosen = sample.nodes if feasible is None else feasible
    mask = np.zeros(len(view.nodes), dtype=np.bool_)
    mask[[view.nodes.rows.index[n.metadata.name] for n in chosen]] = True
    return marks(view, plugin.score(Cycle(incoming, view), mask), chosen)


def agrees(plugin: Any, incoming: Pod, sample: SampleCluster, args: Any = None, churn: Iterable[Pod] = ()) -> None:
    """Check that a plugin agrees with its twin, with every second node feasible and with all."""
    filter_twin, score_twin = twins.FILTERS.get(plugin.name), twins.SCORES.get(plugin.name)
    if filter_twin is not None:
        found = filtered(plugin, incoming, sample, churn)
        expected = filter_twin(incoming, sample, args)
        # A filter that applies to every pod may return None where all nodes pass.
        passes = expected is not None and all(verdict == twins.PASSED for verdict in expected.values())
        assert found == expected or (found is None and passes)
    if score_twin is not None:
        for feasible in (sample.nodes, sample.nodes[::2]):
            assert scored(plugin, incoming, sample, feasible, churn) == score_twin(incoming, sample, feasible, args)


# --- random pieces ---------------------------------------------------------------------------------------------------
#
# Pods and nodes are made beforehand, many of each and all different, and hypothesis chooses among them: that is a
# hundred times faster than letting it invent every field, and a cluster that fails still shrinks to a few objects.


def maybe(rng: Random, chances: Mapping[str, Sequence[Any]], share: float = 0.5) -> Tree:
    """Some of the fields, each with one of its values."""
    return {name: rng.choice(values) for name, values in chances.items() if rng.random() < share}


def several(rng: Random, make: Callable[[Random], Any], most: int, least: int = 0) -> list[Any]:
    """A list of random things."""
    return [make(rng) for _ in range(rng.randint(least, most))]


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
KEYS = ("k", "dedicated", "node.kubernetes.io/unschedulable")
IMAGES = ("app:1", "app:latest", "r:5000/db:latest", "tool@sha256:ab")
SIZES = (0, 10**6, 30_000_001, 700 * 2**20, 5 * 10**9)
ALLOCATABLE: Mapping[str, Sequence[str]] = {
    "cpu": ("0", "500m", "1", "3", "64"),
    "memory": ("0", "256Mi", "1Gi", "3000000000", "1Ti"),
    "ephemeral-storage": ("1Gi", "10Gi"),
    "example.com/gpu": ("0", "1", "4"),
    "hugepages-2Mi": ("4Mi", "0"),
    "odd": ("5",),
}
REQUESTS: Mapping[str, Sequence[str]] = {
    "cpu": ("0", "1m", "250m", "0.5", "2", "100u"),
    "memory": ("0", "1", "100Mi", "1Gi", "1.5Gi", "123456789"),
    "ephemeral-storage": ("1Gi", "500M"),
    "example.com/gpu": ("0", "1", "2"),
    "hugepages-2Mi": ("2Mi",),
    "odd": ("1",),
    "pods": ("1",),
}
SELECTORS: tuple[Tree, ...] = (
    {},
    {"matchLabels": {"app": "web"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
)
NAMESPACE_SELECTORS: tuple[Tree, ...] = (
    {},
    {"matchLabels": {"team": "one"}},
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["two"]}]},
    {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
)
EXPRESSIONS: tuple[Tree, ...] = (
    {"key": "disk", "operator": "In", "values": ["ssd", "hdd"]},
    {"key": "disk", "operator": "NotIn", "values": ["ssd"]},
    {"key": "disk", "operator": "Gt", "values": ["5"]},
    {"key": "rack", "operator": "Exists"},
)
UNREADABLE: Tree = {"key": "rack", "operator": "Near"}


def taint(rng: Random) -> Tree:
    """A taint."""
    return {"key": rng.choice(KEYS), "value": rng.choice(["", "v", "5"]), "effect": rng.choice(EFFECTS)}


def toleration(rng: Random) -> Tree:
    """A toleration."""
    return maybe(
        rng, {"key": KEYS, "value": ("v", "5"), "effect": EFFECTS, "operator": ("", "Equal", "Exists", "Lt")}, 0.6
    )


def image(rng: Random) -> Tree:
    """An image on a node."""
    return {"names": rng.sample(IMAGES, rng.randint(0, 2)), "sizeBytes": rng.choice(SIZES)}


def host_port(rng: Random) -> Tree:
    """A port of a container."""
    every = "0.0.0.0"  # noqa: S104 – how Kubernetes names every address; nothing listens here
    optional = maybe(rng, {"hostIP": (every, "127.0.0.1", "::", "10.0.0.1"), "protocol": ("TCP", "UDP")})
    return {"containerPort": 80, "hostPort": rng.choice([0, 80, 81]), **optional}


def container(rng: Random) -> Tree:
    """A container."""
    made: Tree = {"name": "c", "image": rng.choice(["app", "app:1", "r:5000/db", "tool@sha256:ab", ""])}
    if rng.random() < 0.8:
        made["resources"] = {"requests": maybe(rng, REQUESTS, 0.4)}
    if rng.random() < 0.4:
        made["ports"] = several(rng, host_port, 2)
    return made


def init_container(rng: Random) -> Tree:
    """An init container, or a sidecar."""
    return container(rng) | maybe(rng, {"restartPolicy": ("Always",)})


def pod_term(rng: Random) -> Tree:
    """A term of an affinity between pods."""
    key = rng.choice([HOSTNAME, ZONE, ZONE, "rack", "nowhere"])
    term = {"topologyKey": key, **maybe(rng, {"namespaceSelector": NAMESPACE_SELECTORS}, 0.3)}
    if rng.random() < 0.9:
        term["labelSelector"] = rng.choice(SELECTORS)
    if rng.random() < 0.3:
        term["namespaces"] = rng.sample(sorted(NAMESPACES), rng.randint(0, 2))
    return term


def weighted_pod_term(rng: Random) -> Tree:
    """A preferred term of an affinity between pods."""
    return {"weight": rng.randint(1, 100), "podAffinityTerm": pod_term(rng)}


def pod_affinity(rng: Random) -> Tree:
    """Affinity or anti-affinity between pods."""
    made = {REQUIRED: several(rng, pod_term, 2), PREFERRED: several(rng, weighted_pod_term, 2)}
    return {name: made[name] for name in made if rng.random() < 0.6}


def node_term(rng: Random, *, readable: bool = False) -> Tree:
    """A node affinity term; some are invalid, unless `readable`."""
    chances = EXPRESSIONS if readable else (*EXPRESSIONS, UNREADABLE)

    def name(rng: Random) -> Tree:
        values = rng.sample(NAMES[:3], 1 if readable else rng.randint(1, 2))
        return {"key": "metadata.name", "operator": rng.choice(["In", "NotIn"]), "values": values}

    expressions = several(rng, lambda r: r.choice(chances), 2)
    fields = several(rng, name, 2) if rng.random() < 0.5 else []
    return {"matchExpressions": expressions, "matchFields": fields}


def node_affinity(rng: Random, *, readable: bool = False) -> Tree:
    """A node affinity. Its preferred terms can be read: an API server refuses others."""

    def wish(rng: Random) -> Tree:
        return {"weight": rng.randint(0, 100), "preference": node_term(rng, readable=True)}

    terms = several(rng, lambda r: node_term(r, readable=readable), 2)
    made = {REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: several(rng, wish, 3)}
    return {name: made[name] for name in made if rng.random() < 0.6}


def affinity(rng: Random) -> Tree:
    """All affinities of a pod."""
    makers = {"nodeAffinity": node_affinity, "podAffinity": pod_affinity, "podAntiAffinity": pod_affinity}
    return {name: make(rng) for name, make in makers.items() if rng.random() < 0.6}


FIELDS: Mapping[str, Callable[[Random], Any]] = {
    "initContainers": lambda rng: several(rng, init_container, 2),
    "overhead": lambda rng: rng.choice([{"cpu": "10m"}, {"memory": "5Mi", "cpu": "1"}]),
    "resources": lambda rng: {"requests": maybe(rng, REQUESTS, 0.4)},
    "tolerations": lambda rng: several(rng, toleration, 3),
    "nodeSelector": lambda rng: rng.choice([{"disk": "ssd"}, {"disk": ""}, {"disk": "7", "rack": "r1"}]),
    "affinity": affinity,
    "volumes": lambda rng: rng.choice([[], [{"image": {"reference": "app"}}], [{"configMap": {}}]]),
}
"""The values that a pod's spec may have, by field."""


def random_pod(seed: int, *fields: str, placed: bool) -> Pod:
    """A pod with values in some of these fields; if placed, on any node and in any state."""
    rng = Random(f"{seed} {fields} {placed}")
    tree = pod(f"p{seed}", namespace=rng.choice(sorted(NAMESPACES))).tree()
    tree["metadata"]["labels"] = maybe(rng, {"app": APPS}, 0.8)
    tree["metadata"] |= maybe(rng, {"deletionTimestamp": ("2026-01-01T00:00:00Z",)}, 0.2 if placed else 0)
    tree["spec"] = {"containers": several(rng, container, 2, least=1)}
    tree["spec"] |= {field: FIELDS[field](rng) for field in fields if rng.random() < 0.7}
    if placed:
        tree["spec"]["nodeName"] = rng.choice([*NAMES, *NAMES, "unseen"])
        tree["status"]["phase"] = rng.choice(["Running"] * 5 + ["Succeeded"])
    return codec.convert(tree, Pod)


def random_node(seed: int) -> Node:
    """A node with random values of everything that plugins read."""
    rng = Random(seed)
    name = NAMES[seed % len(NAMES)]
    tree = node(name).tree()
    labels: Mapping[str, Sequence[str]] = {
        HOSTNAME: (name, name, "shared"),
        ZONE: ("z1", "z2"),
        "disk": ("ssd", "hdd", "7", ""),
        "rack": ("r1",),
    }
    tree["metadata"]["labels"] = maybe(rng, labels, 0.8)
    tree["spec"] = {"unschedulable": rng.random() < 0.3, "taints": several(rng, taint, 3)}
    room = {"pods": rng.choice(["0", "1", "3", "110"]), **maybe(rng, ALLOCATABLE, 0.8)}
    tree["status"] = {"allocatable": room, "images": several(rng, image, 3)}
    return codec.convert(tree, Node)


@cache
def many_pods(*fields: str, placed: bool) -> tuple[Pod, ...]:
    """Pods to choose from."""
    return tuple(random_pod(seed, *fields, placed=placed) for seed in range(150))


@cache
def many_nodes() -> tuple[Node, ...]:
    """Nodes to choose from, many of each name."""
    return tuple(random_node(seed) for seed in range(120))


def incoming_pods(*fields: str) -> st.SearchStrategy[Pod]:
    """A pod that is not placed."""
    return st.sampled_from(many_pods(*fields, placed=False))


@st.composite
def sample_clusters(draw: st.DrawFn, *fields: str) -> tuple[SampleCluster, list[Pod]]:
    """A cluster, and the pods of an earlier state of it, some of which were deleted."""
    nodes = draw(st.lists(st.sampled_from(many_nodes()), min_size=1, max_size=5, unique_by=lambda n: n.metadata.name))
    pods = st.lists(st.sampled_from(many_pods(*fields, placed=True)), max_size=7, unique_by=lambda p: p.key)
    placed, before = draw(pods), draw(pods)
    known = draw(st.sets(st.sampled_from(sorted(NAMESPACES))))
    return SampleCluster(nodes, placed, {name: NAMESPACES[name] for name in known}), before
