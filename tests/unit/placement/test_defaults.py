"""Default constraints: which, among which pods, and what an operator may not write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.unit.placement import spread_twin as twin
from tests.unit.placement.samples import SampleCluster
from tests.unit.placement.spread_clusters import incoming_pods, sample_clusters
from trimtab.api import codec
from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import ReplicationController, Service
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import DEPRECATED_ZONE, HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.placement import defaults
from trimtab.placement.framework import Cycle
from trimtab.placement.spread import PodTopologySpread
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import PodBuilder, cluster, node, pod

Tree = dict[str, Any]

META = {"name": "web", "namespace": "default"}


def service(selector: Tree | None, *, name: str = "web", namespace: str = "default") -> Service:
    """A service that selects these labels."""
    tree = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}
    return codec.convert(tree, Service)


def workload(kind: type[ReplicaSet] | type[StatefulSet], selector: Tree | None) -> ReplicaSet | StatefulSet:
    """A workload with this label selector."""
    return codec.convert({"metadata": META, "spec": {"selector": selector}}, kind)


CONTROLLER = codec.convert({"metadata": META, "spec": {"selector": {"app": "web", "tier": "x"}}}, ReplicationController)
REPLICA_SET = workload(ReplicaSet, {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]})
CLONE_SET = codec.convert(
    {"metadata": META, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {}}}, CloneSet
)
KRUISE = "apps.kruise.io/v1alpha1"
STATEFUL_SET = workload(StatefulSet, {"matchLabels": {"app": "web"}})
LABELLED = {"app": "web", "tier": "front"}


@pytest.mark.parametrize(
    ("incoming", "groups", "want"),
    [
        pytest.param(pod("p").labels(LABELLED), [], "", id="a pod that belongs to nothing"),
        pytest.param(pod("p").labels(LABELLED), [service({"app": "web"})], "app=web", id="a service"),
        pytest.param(
            pod("p").labels(LABELLED),
            [service({"app": "web"}), service({"tier": "front"}, name="other")],
            "app=web,tier=front",
            id="several services together",
        ),
        pytest.param(pod("p").labels(LABELLED), [service({"app": "db"})], "", id="a service of others"),
        pytest.param(pod("p").labels(LABELLED), [service(None)], "", id="a service without a selector"),
        pytest.param(
            pod("p").labels(LABELLED), [service({"app": "web"}, namespace="other")], "", id="a service elsewhere"
        ),
        pytest.param(
            pod("p").labels(LABELLED).owned_by("web"), [REPLICA_SET], "app in (web)", id="a replica set's expressions"
        ),
        pytest.param(
            pod("p").labels(LABELLED).owned_by("web"),
            [REPLICA_SET, service({"tier": "front"})],
            "app in (web),tier=front",
            id="a replica set and a service",
        ),
        pytest.param(
            pod("p").labels(LABELLED).owned_by("web", kind="StatefulSet"),
            [STATEFUL_SET],
            "app=web",
            id="a stateful set",
        ),
        pytest.param(
            pod("p").labels(LABELLED).owned_by("web", kind="CloneSet", api_version=KRUISE),
            [CLONE_SET],
            "app=web",
            id="a CloneSet",
        ),
        pytest.param(
            pod("p").labels(LABELLED).owned_by("web", kind="ReplicationController", api_version="v1"),
            [CONTROLLER, service({"tier": "front"})],
            "app=web,tier=x",
            id="a replication controller has the last word on a label",
        ),
        pytest.param(pod("p").labels(LABELLED).owned_by("web"), [], "", id="a replica set that does not exist"),
        pytest.param(
            pod("p").labels(LABELLED).owned_by("web", api_version="extensions/v1beta1"),
            [REPLICA_SET],
            "",
            id="a replica set of another API",
        ),
        pytest.param(
            pod("p").labels(LABELLED).owned_by("web"),
            [workload(ReplicaSet, None), service({"app": "web"})],
            "app=web",
            id="a replica set without a selector adds nothing",
        ),
        pytest.param(
            pod("p").labels(LABELLED).owned_by("web"),
            [workload(ReplicaSet, {"matchExpressions": [{"key": "app", "operator": "Near"}]}), service({"app": "web"})],
            "app=web",
            id="neither does one whose selector is invalid",
        ),
    ],
)
def test_the_selector_is_deduced_from_services_and_controller(
    incoming: PodBuilder, groups: list[Any], want: str
) -> None:
    """Services and the controller, all together."""
    view = Snapshot()
    for group in groups:
        view.put(group)
    selector = defaults.selector_of(incoming.build(), view)
    assert (str(selector), selector.empty) == (want, not want)


@settings(deadline=None, max_examples=60)
@given(sample=sample_clusters(), incoming=incoming_pods(own=False))
def test_the_deduced_selector_equals_the_twins(sample: SampleCluster, incoming: Pod) -> None:
    """Whatever a pod belongs to."""
    assert defaults.selector_of(incoming, sample.snapshot()) == twin.deduced(incoming, sample)


def args(**fields: Any) -> PodTopologySpreadArgs:
    """Arguments of the plugin, as they are written."""
    return codec.convert(fields, PodTopologySpreadArgs)


def constraint(**fields: Any) -> Tree:
    """A default constraint that is right but for these fields."""
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}


@pytest.mark.parametrize(
    ("given_args", "want"),
    [
        pytest.param(args(), [(3, HOSTNAME), (5, ZONE)], id="System by default"),
        pytest.param(args(defaultingType="Proposal"), [(1, HOSTNAME), (1, DEPRECATED_ZONE)], id="Proposal"),
        pytest.param(args(defaultingType="List"), [], id="an empty list"),
        pytest.param(args(defaultingType="List", defaultConstraints=[constraint()]), [(1, "zone")], id="List"),
    ],
)
def test_constraints_by_defaulting_type(given_args: PodTopologySpreadArgs, want: list[tuple[int, str]]) -> None:
    """By the defaulting type."""
    defaults.check(given_args)
    assert [(c.max_skew, c.topology_key) for c in defaults.constraints(given_args)] == want


@pytest.mark.parametrize(
    ("written", "path"),
    [
        pytest.param([constraint(maxSkew=0)], "defaultConstraints[0].maxSkew", id="a skew of 0"),
        pytest.param([constraint(topologyKey="")], "defaultConstraints[0].topologyKey", id="no key"),
        pytest.param([constraint(topologyKey="a b")], "defaultConstraints[0].topologyKey", id="a bad key"),
        pytest.param(
            [constraint(), constraint(whenUnsatisfiable="Panic")],
            "defaultConstraints[1].whenUnsatisfiable",
            id="an unknown action",
        ),
        pytest.param([constraint(labelSelector={})], "defaultConstraints[0].labelSelector", id="a selector"),
        pytest.param(
            [constraint(), constraint(whenUnsatisfiable="ScheduleAnyway"), constraint(maxSkew=2)],
            "defaultConstraints[2]",
            id="the same key and action again",
        ),
    ],
)
def test_invalid_default_constraints(written: list[Tree], path: str) -> None:
    """The error has the path."""
    with pytest.raises(InvalidError) as caught:
        defaults.check(args(defaultingType="List", defaultConstraints=written))
    assert caught.value.path == path


@pytest.mark.parametrize("kind", ["System", "Proposal"])
def test_only_the_type_list_takes_constraints(kind: str) -> None:
    """The other types have fixed constraints."""
    with pytest.raises(InvalidError, match=f'defaultingType: "{kind}" has fixed constraints; set "List"'):
        PodTopologySpread(args(defaultingType=kind, defaultConstraints=[constraint()]))


def grouped(*nodes: str) -> Snapshot:
    """Two zones, a service, and pods of it on these nodes."""
    view = cluster("z1: a b", "z2: x y").running(*nodes).snapshot()
    view.put(service({"app": "web"}))
    return view


def normalized(plugin: PodTopologySpread, incoming: Pod, view: Snapshot) -> dict[str, int]:
    """The plugin's scores of all nodes."""
    given_scores = plugin.score(Cycle(incoming, view), np.ones(len(view.nodes), dtype=np.bool_))
    assert given_scores is not None
    return {name: int(given_scores.normalized[row]) for name, row in view.nodes.rows.index.items()}


def test_defaults_apply_only_to_pods_without_any_constraint() -> None:
    """One constraint of its own, and a pod gets none of the defaults."""
    hard = PodTopologySpread(args(defaultingType="List", defaultConstraints=[constraint(topologyKey=ZONE)]))
    web = pod("p").labels(app="web")
    assert hard.filter(Cycle(web.build(), grouped("a"))) is not None
    assert hard.filter(Cycle(web.spread("host", hard=False).build(), grouped("a"))) is None


def test_defaults_do_not_apply_to_pods_without_service_and_controller() -> None:
    """They have no group to be spread among."""
    plugin = PodTopologySpread()
    assert plugin.score(Cycle(pod("p").labels(app="db").build(), grouped("a")), np.ones(4, dtype=np.bool_)) is None


def test_defaults_are_computed_once_and_never_written_to_the_pod() -> None:
    """Filter and score use the same constraints, kept with the attempt."""
    plugin = PodTopologySpread()
    incoming = pod("p").labels(app="web").build()
    cycle = Cycle(incoming, grouped("a"))
    plugin.filter(cycle)
    first = plugin.constraints(cycle)
    plugin.score(cycle, np.ones(4, dtype=np.bool_))
    assert plugin.constraints(cycle) is first
    assert incoming.spec.topology_spread_constraints == ()


def test_system_defaults_spread_over_nodes_where_there_are_no_zones() -> None:
    """A missing zone label does not make a node worthless; for a list it does."""
    view = Snapshot()
    for name in ("a", "b"):
        view.put(node(name).build())
    view.put(service({"app": "web"}))
    view.put(pod("q").labels(app="web").on("a").build())
    incoming = pod("p").labels(app="web").build()
    listed = [
        {"maxSkew": 3, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
        {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"},
    ]
    assert normalized(PodTopologySpread(), incoming, view) == {"a": 66, "b": 100}
    assert normalized(PodTopologySpread(args(defaultingType="Proposal")), incoming, view) == {"a": 0, "b": 100}
    strict = PodTopologySpread(args(defaultingType="List", defaultConstraints=listed))
    assert normalized(strict, incoming, view) == {"a": 0, "b": 0}


@pytest.mark.parametrize("key", [ZONE, DEPRECATED_ZONE])
def test_the_deprecated_zone_label_is_an_alias_in_a_configuration(key: str) -> None:
    """The proposal's rules spread over zones, whichever of the two labels nodes carry."""
    view = Snapshot()
    for name, zone in {"a": "z1", "b": "z1", "x": "z2"}.items():
        view.put(node(name).labels({key: zone}).build())
    view.put(service({"app": "web"}))
    view.put(pod("q").labels(app="web").on("a").build())
    incoming = pod("p").labels(app="web").build()
    plugin = PodTopologySpread(args(defaultingType="Proposal"))
    found = normalized(plugin, incoming, view)
    assert found["a"] < found["b"] < found["x"]


def test_a_pods_own_constraint_uses_exactly_the_label_it_names() -> None:
    """As everywhere in Kubernetes: the alias is for configurations."""
    view = cluster("z1: a", "z2: x").snapshot()
    refusals = PodTopologySpread().filter(Cycle(pod("p").labels(app="web").spread(DEPRECATED_ZONE).build(), view))
    assert refusals is not None
    assert refusals.codes.tolist() == [2, 2]
