"""The view of the cluster: what events do to columns and counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from tests.unit.snapshot.test_counts import WEB, per_node
from trimtab.api import codec, selectors
from trimtab.api.bounded_caches import BoundedCache
from trimtab.api.core import Namespace, Service
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME, ZONE, Node, Taint
from trimtab.api.pods import Pod
from trimtab.placement.domains import domains
from trimtab.snapshot import Snapshot
from trimtab.snapshot.counts import TallyKey
from trimtab.snapshot.nodes import ABSENT
from trimtab.snapshot.pods import _OWN_COLUMNS, NEVER, NOWHERE
from trimtab.snapshot.requests import compute
from trimtab.testing.builders import PodBuilder, cluster, node, pod


def row_of(view: Snapshot, name: str) -> int:
    """The row of a node."""
    return view.nodes.rows.index[name]


def test_a_terminating_pod_still_uses_its_resources() -> None:
    """Spreading does not see a terminating pod; its node still has to feed it."""
    view = cluster("z1: a").snapshot()
    view.put(pod("p").on("a").labels(app="web").requests(cpu="500m").terminating().build())
    everyone = TallyKey(frozenset({"default"}), WEB, terminating=True)
    assert view.tallies.per_node(everyone)[row_of(view, "a")] == 1
    assert view.nodes.requested[row_of(view, "a"), 0] == 500
    assert view.nodes.pods[row_of(view, "a")] == 1


def test_a_pod_may_be_observed_before_its_node() -> None:
    """Events of pods and nodes come in any order; the counts are right when the node appears."""
    view = Snapshot()
    view.put(pod("p").on("late").labels(app="web").build())
    assert not view.nodes.known[row_of(view, "late")]
    assert view.nodes.codes(ZONE)[row_of(view, "late")] == ABSENT
    view.put(node("late", zone="z1").build())
    assert per_node(view) == {"late": 1}
    assert view.nodes.label(ZONE).values == ["z1"]


def test_the_row_of_a_deleted_node_is_kept_for_its_pods() -> None:
    """The row is freed only when the last pod that names the node is deleted."""
    view = cluster("z1: a b").running("a").snapshot()
    view.drop(Node, "", "a")
    assert view.node("a") is None
    assert per_node(view) == {"a": 1}
    view.drop(Pod, "default", "pod-00")
    assert "a" not in view.nodes.rows.index
    view.put(node("c", zone="z9").build())
    assert per_node(view) == {}
    assert view.nodes.label(ZONE).values[view.nodes.codes(ZONE)[row_of(view, "c")]] == "z9"


def test_a_finished_pod_keeps_the_row_of_its_node() -> None:
    """Otherwise it would come to stand on another node."""
    view = cluster("z1: a").snapshot()
    view.put(pod("done").on("a").phase("Succeeded").build())
    view.drop(Node, "", "a")
    view.put(node("b", zone="z1").build())
    assert view.pods.node[view.pods.rows.index["default/done"]] == row_of(view, "a") != row_of(view, "b")


def test_a_namespace_that_is_deleted_is_forgotten() -> None:
    """Terms that select namespaces by labels do not find it any more."""
    view = Snapshot()
    for name in ("shop", "lab"):
        view.put(codec.convert({"metadata": {"name": name, "labels": {"team": name}}}, Namespace))
    view.drop(Namespace, "", "shop")
    assert list(view.namespaces) == ["lab"]


def test_events_may_come_twice() -> None:
    """Repeated events change nothing, and neither does deleting an unknown object."""
    view = cluster("z1: a").running("a").snapshot()
    again = view.pod("default/pod-00")
    assert again is not None
    view.put(again)
    view.drop(Pod, "default", "never-was")
    view.drop(Node, "", "never-was")
    view.drop(Service, "default", "never-was")
    view.drop(Namespace, "", "never-was")
    assert per_node(view) == {"a": 1}
    assert view.nodes.pods[row_of(view, "a")] == 1


def test_columns_of_a_pod() -> None:
    """Phase, readiness and its time, restarts with sidecars apart, cost, owner."""
    view = cluster("z1: a").snapshot()
    made = pod("p").on("a").created("2026-01-01T00:00:00Z").ready(since="2026-01-01T00:00:05Z").restarts(3).cost(-7)
    made.owned_by("web").spec(initContainers=[{"name": "proxy", "restartPolicy": "Always"}, {"name": "init"}])
    tree = made.tree()
    tree["status"]["initContainerStatuses"] = [
        {"name": "proxy", "restartCount": 2},
        {"name": "init", "restartCount": 9},
    ]
    view.put(codec.convert(tree, Pod))
    row = view.pods.rows.index["default/p"]
    got = {
        name: int(view.pods.column(name)[row]) for name in ("phase", "restarts", "sidecar_restarts", "cost", "costed")
    }
    assert got == {"phase": 2, "restarts": 3, "sidecar_restarts": 2, "cost": -7, "costed": 1}
    assert view.pods.column("ready_since")[row] - view.pods.column("created")[row] == 5_000_000_000
    owner = tree["metadata"]["ownerReferences"][0]["uid"]
    assert list(view.pods.owned_by(owner)) == [row]
    assert list(view.pods.owned_by("nobody")) == []


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("10", 10), ("-5", -5), ("0", 0), ("-0", 0), ("-05", -5), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31)),
        ("+10", None), ("008", None), ("00", None), ("", None), (" 5", None), ("1.5", None), ("1e3", None),
        ("2147483648", None), ("-", None), ("ten", None), ("٣", None),
    ],
)  # fmt: skip
def test_a_cost_is_read_as_replicasets_read_it(text: str, want: int | None) -> None:
    """What they do not accept counts as no cost."""
    view = cluster("z1: a").snapshot()
    view.put(pod("p").on("a").cost(text).build())
    row = view.pods.rows.index["default/p"]
    assert bool(view.pods.column("costed")[row]) is (want is not None)
    assert view.pods.column("cost")[row] == (want or 0)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        pytest.param("0001-01-01T00:00:00Z", False, id="the zero time is a time not known"),
        pytest.param("0001-01-01T01:00:00+01:00", False, id="in whatever zone it is written"),
        pytest.param("0001-01-01T00:00:01Z", True, id="a second later is a time like any other"),
        pytest.param("1970-01-01T00:00:00Z", True, id="and so is the epoch"),
    ],
)
def test_only_the_zero_time_is_unknown(text: str, known: bool) -> None:
    """A pod without a known time is deleted before all others, so it matters which times are unknown."""
    view = cluster("z1: a").snapshot()
    view.put(pod("p").on("a").created(text).build())
    assert bool(view.pods.column("created")[view.pods.rows.index["default/p"]] != NEVER) is known


def test_a_negative_number_of_restarts_counts_as_none() -> None:
    """The API server does not check the number, and ReplicaSets look for the most restarts from zero on."""
    view = cluster("z1: a").snapshot()
    tree = pod("p").on("a").restarts(-3).spec(initContainers=[{"name": "proxy", "restartPolicy": "Always"}]).tree()
    tree["status"]["initContainerStatuses"] = [{"name": "proxy", "restartCount": -2}]
    view.put(codec.convert(tree, Pod))
    row = view.pods.rows.index["default/p"]
    assert [int(view.pods.column(name)[row]) for name in ("restarts", "sidecar_restarts")] == [0, 0]


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param("8Ei", id="two such requests are more than 64 bits hold"),
        pytest.param("9223372036854775808", id="one is, and wraps around to the lowest number there is"),
    ],
)
def test_overflowing_requests_are_subtracted_exactly(memory: str) -> None:
    """An API server accepts such requests, and pods with a node name bypass schedulers."""
    view = cluster("z1: a").snapshot()
    for name in ("p", "q"):
        view.put(pod(name).on("a").requests(memory=memory).build())
    for name in ("p", "q"):
        view.drop(Pod, "default", name)
    assert not view.nodes.requested.any()
    assert not view.nodes.assumed.any()


def test_a_pod_with_invalid_quantities_changes_nothing() -> None:
    """An API server accepts it. Half of it in the books would take others' labels off them when it is deleted."""
    view = cluster("z1: a").running("a").snapshot()
    absurd = [{"name": text, "resources": {"requests": {"memory": text}}} for text in ("1e2500", "1")]
    for app in ("web", "other"):
        with pytest.raises(InvalidError, match="too far apart"):
            view.put(pod("absurd").labels(app=app).on("a").spec(containers=absurd).build())
        assert view.pod("default/absurd") is None
        view.drop(Pod, "default", "absurd")
    assert per_node(view) == {"a": 1}
    view.drop(Node, "", "a")
    view.drop(Pod, "default", "pod-00")
    assert len(view.nodes.rows.index) == 0


def test_a_node_with_invalid_quantities_changes_nothing() -> None:
    """Its images and its allocatable resources change together or not at all."""
    view = cluster("z1: a").snapshot()
    before = view.nodes.allocatable.tolist()
    unreadable = node("a").tree()
    unreadable["status"] = {"allocatable": {"cpu": "9" * 3000}, "images": [{"names": ["web:1"], "sizeBytes": 5}]}
    with pytest.raises(InvalidError, match="digits"):
        view.put(codec.convert(unreadable, Node))
    view.put(node("a", zone="z1").build())
    assert view.nodes.allocatable.tolist() == before


def test_assumptions_are_undone() -> None:
    """Inside the block the view is as it would be; after it, as it was."""
    view = cluster("z1: a b").running("a").snapshot()
    before = (per_node(view), view.nodes.requested.tolist(), len(view.pods.rows.index))
    with view.with_assumed(
        placed=[(pod("new").labels(app="web").build(), "b")], gone=["default/pod-00", "default/none"]
    ):
        assert per_node(view) == {"b": 1}
    assert (per_node(view), view.nodes.requested.tolist(), len(view.pods.rows.index)) == before


def test_assumptions_are_undone_after_an_error() -> None:
    """A decision that fails must not leave its assumptions behind."""
    view = cluster("z1: a").running("a").snapshot()
    with pytest.raises(RuntimeError), view.with_assumed(gone=["default/pod-00"]):
        raise RuntimeError
    assert per_node(view) == {"a": 1}


def test_an_observed_pod_replaces_the_assumed_one() -> None:
    """An assumption lasts until the next event of the pod."""
    view = cluster("z1: a b").snapshot()
    made = pod("p").labels(app="web")
    view.assume(made.build(), "a")
    assert view.pods.column("assumed")[view.pods.rows.index["default/p"]]
    view.put(made.on("b").build())
    assert per_node(view) == {"b": 1}
    assert not view.pods.column("assumed")[view.pods.rows.index["default/p"]]


def test_a_predicate_is_evaluated_again_only_for_changed_nodes() -> None:
    """Node affinity is evaluated once a node, not once a pod."""
    view = cluster("z1: a b", "z2: x").snapshot()
    asked: list[str] = []

    def in_z1(candidate: Node) -> bool:
        asked.append(candidate.metadata.name)
        return candidate.metadata.labels[ZONE] == "z1"

    assert view.nodes.evaluate("in z1", in_z1).tolist() == [True, True, False]
    view.put(node("x", zone="z1").build())
    assert view.nodes.evaluate("in z1", in_z1).tolist() == [True, True, True]
    assert asked == ["a", "b", "x", "x"]


def test_extended_resources_get_columns_of_their_own() -> None:
    """A new resource adds a column to the tables."""
    view = cluster("z1: a b").snapshot()
    view.put(node("g", zone="z1").allocatable(**{"example.com/gpu": "4"}).build())
    view.put(pod("p").on("g").requests(**{"example.com/gpu": "1"}).build())
    gpu = view.nodes.resources["example.com/gpu"]
    assert view.nodes.allocatable[:, gpu].tolist() == [0, 0, 4]
    assert view.nodes.requested[:, gpu].tolist() == [0, 0, 1]


GPU = "example.com/gpu"


@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_resource_that_pods_request_first(is_copied: bool, at_once: bool) -> None:
    """What they request counts from when the first node has some of it, less what has been deleted since."""
    view = cluster("z1: a b").snapshot()
    pods = [pod(f"p{n}").on("ab"[n % 2]).requests(**{GPU: str(n + 1)}).build() for n in range(4)]
    if at_once:
        view.put_all(pods)
    else:
        for each in pods:
            view.put(each)
    view.drop(Pod, "default", "p2")
    if is_copied:
        view = view.copy()
    assert GPU not in view.nodes.resources
    view.put(node("b", zone="z1").allocatable(**{GPU: "8"}).build())
    gpu = view.nodes.resources[GPU]
    assert view.nodes.requested[:, gpu].tolist() == [1, 6]
    assert view.nodes.allocatable[:, gpu].tolist() == [0, 8]
    view.drop(Pod, "default", "p0")
    assert view.nodes.requested[:, gpu].tolist() == [0, 6]


def test_pods_add_no_columns_with_resources_that_no_node_has() -> None:
    """Each takes memory for every node; whoever may create pods could request thousands."""
    view = cluster("z1: a").snapshot()
    columns = view.nodes.requested.shape
    view.put(pod("p").on("a").requests(**{f"example.com/r{n}": "1" for n in range(5000)}).build())
    assert view.nodes.requested.shape == columns
    view.drop(Pod, "default", "p")
    assert not view.nodes._unknown  # noqa: SLF001 - nothing stays behind


def test_labels_have_columns_while_they_are_in_use() -> None:
    """Of many labels that nodes have, those that were not asked for longest go, and come back as they were."""
    view = cluster("z1: a b", "z2: c").snapshot()
    before = domains(view.nodes, ZONE).slots.tolist()
    many = {f"example.com/k{n}": "" for n in range(1000)}
    view.put(node("d", zone="z2", kept="", **many).build())
    for key in many:
        domains(view.nodes, key)
        view.nodes.label("kept")
    assert len(view.nodes._labels) == 256  # noqa: SLF001
    assert "kept" in view.nodes._labels  # noqa: SLF001
    assert domains(view.nodes, ZONE).slots.tolist()[:3] == before
    view.put(node("e", zone="z3").build())
    assert len(set(view.nodes.codes(ZONE).tolist())) == 3


def test_a_label_that_no_node_has_takes_no_column() -> None:
    """Users choose topology keys, also thousands that do not exist; once a node has the label, it counts."""
    view = cluster("z1: a b").snapshot()
    for number in range(300):
        assert set(view.nodes.codes(f"example.com/k{number}").tolist()) == {ABSENT}
        assert set(view.nodes.codes((f"example.com/a{number}", f"example.com/b{number}")).tolist()) == {ABSENT}
    assert view.nodes._labels == {}  # noqa: SLF001
    assert view.nodes.copy().codes("rack").tolist() == [ABSENT, ABSENT]
    view.put(node("a", zone="z1", rack="r1").build())
    assert view.nodes.codes("rack").tolist() == [0, ABSENT]
    assert view.nodes.copy().codes(("shelf", "rack")).tolist() == [0, ABSENT]
    view.put(node("a", zone="z1").build())
    assert view.nodes.codes("rack").tolist() == [ABSENT, ABSENT]
    view.put(node("a", zone="z1", shelf="s").build())
    view.drop(Node, "", "a")
    assert view.nodes._label_names == {ZONE: 1, HOSTNAME: 1}  # noqa: SLF001
    for number in range(100):
        view.put(node(f"n{number}").build())
    assert set(view.nodes.codes("rack").tolist()) == {ABSENT}
    assert len(view.nodes.codes("rack")) == len(view.nodes)


def test_nodes_that_come_and_go_leave_nothing_behind() -> None:
    """A label with a value for each node, and a taint: what is kept follows the nodes that there are, and is right."""
    view = cluster("z1: a b").running("a").snapshot()
    nodes = view.nodes
    view.put(node("b", zone="z1").taint("held", value="b").build())
    for number in range(500):
        name = f"n{number}"
        nodes.label(HOSTNAME)
        view.put(node(name, zone="z2").taint("fresh", value=name).build())
        assert nodes.label(HOSTNAME).values[nodes.codes(HOSTNAME)[row_of(view, name)]] == name
        assert [taint.value for taint in nodes.taint_sets[nodes.taints[row_of(view, name)]]] == [name]
        view.drop(Node, "", name)
    assert len(nodes) == 3, "rows are used again"
    assert 3 <= len(nodes.label(HOSTNAME).values) <= 2 * 3 + 65
    assert 2 <= len(nodes.taint_sets) <= 2 * 3 + 65
    assert [nodes.label(HOSTNAME).values[nodes.codes(HOSTNAME)[row_of(view, name)]] for name in "ab"] == ["a", "b"]
    assert [nodes.taint_sets[nodes.taints[row_of(view, name)]] for name in "ab"] == [
        (),
        (Taint(key="held", value="b", effect="NoSchedule"),),
    ]


def test_large_parts_of_pods_that_are_gone_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of templates is limited in bytes: the affinity of a pod may be large, and few pods share it."""
    weights: list[int] = []
    put = BoundedCache.put

    def weighed(cache: Any, key: Any, value: Any, weight: int) -> Any:
        weights.append(weight)
        return put(cache, key, value, weight)

    monkeypatch.setattr(BoundedCache, "put", weighed)
    view = cluster("z1: a").snapshot()
    large = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v" * 50_000]}]},
                }
            ]
        }
    }
    view.put(pod("p").on("a").affinity(large).build())
    assert [weight > 50_000 for weight in weights] == [False, True, True], "requests, shape and usage"


def test_columns_are_contiguous() -> None:
    """Scans read one resource of all nodes: a column's numbers lie side by side, also after it has moved."""
    view = cluster("z1: a").snapshot()
    for number in range(100):
        view.put(node(f"n{number}").allocatable(**{"example.com/gpu": "1"}).build())
    for table in (view.nodes.allocatable, view.nodes.requested, view.nodes.assumed):
        assert all(table[:, column].flags.c_contiguous for column in range(table.shape[1]))


NODES = ("a", "b", "x", "y", "unseen")


@st.composite
def some_pods(draw: st.DrawFn) -> PodBuilder:
    """A pod in any state that counts depend on."""
    made = pod(f"p{draw(st.integers(0, 5))}", namespace=draw(st.sampled_from(["default", "other"])))
    made.labels(app=draw(st.sampled_from(["web", "db"])))
    if draw(st.booleans()):
        made.on(draw(st.sampled_from(NODES)))
    if draw(st.integers(0, 4)) == 0:
        made.terminating()
    if draw(st.integers(0, 4)) == 0:
        made.phase(draw(st.sampled_from(["Succeeded", "Failed", "Pending"])))
    made.requests(cpu=draw(st.sampled_from(["100m", "1", "250m"])), memory=draw(st.sampled_from(["1Gi", "128Mi"])))
    if draw(st.integers(0, 3)) == 0:
        made.host_port(8080)
    if draw(st.integers(0, 3)) == 0:
        made.avoids("zone", selector={"app": "web"})
    return made


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), some_pods()),
        st.tuples(st.just("drop"), st.tuples(st.sampled_from(["default", "other"]), st.integers(0, 5))),
        st.tuples(st.just("node"), st.tuples(st.sampled_from(NODES), st.sampled_from(["z1", "z2"]))),
        st.tuples(st.just("gone"), st.sampled_from(NODES)),
        st.tuples(st.just("ask"), st.sampled_from(["web", "db"])),
    ),
    max_size=40,
)


def recount(view: Snapshot, app: str) -> Counter[str]:
    """How many pods match on each node, counted from the objects."""
    counted: Counter[str] = Counter()
    for candidate in view.pods.objects:
        if candidate is None or not candidate.spec.node_name or not candidate.active:
            continue
        if candidate.metadata.namespace == "default" and candidate.metadata.labels["app"] == app:
            counted[candidate.spec.node_name] += 1
    return counted


def apply(view: Snapshot, events: list[tuple[str, Any]]) -> None:
    """Let these events happen."""
    for kind, what in events:
        if kind == "put":
            view.put(what.build())
        elif kind == "drop":
            view.drop(Pod, what[0], f"p{what[1]}")
        elif kind == "node":
            view.put(node(what[0], zone=what[1]).build())
        elif kind == "gone":
            view.drop(Node, "", what)
        else:
            per_node(view, selectors.parse(f"app={what}"))


def observed(view: Snapshot) -> dict[str, Any]:
    """What decisions see, by names: rows may differ."""
    nodes, pods = view.nodes, view.pods
    rows = dict(nodes.rows.index)
    return {
        "nodes": {
            name: (
                bool(nodes.known[row]),
                int(nodes.pods[row]),
                nodes.requested[row].tolist(),
                nodes.assumed[row].tolist(),
                nodes.label(ZONE).codes[row] == ABSENT or nodes.label(ZONE).values[nodes.label(ZONE).codes[row]],
            )
            for name, row in rows.items()
        },
        "pods": {
            key: (pods.objects[row], nodes.rows.names[pods.node[row]] if pods.node[row] != NOWHERE else "")
            for key, row in pods.rows.index.items()
        },
        "tallies": [per_node(view, selectors.parse(f"app={app}")) for app in ("web", "db")],
        "terms": {
            term: {name: int(view.terms.per_node(term)[row]) for name, row in rows.items()} for term in view.terms
        },
        "ports": {
            port: {nodes.rows.names[row]: dict(taken) for row, taken in found.items()}
            for port, found in view.ports.items()
        },
    }


@settings(max_examples=150, deadline=None)
@given(before=EVENTS, listed=st.lists(some_pods(), max_size=12), later=EVENTS)
def test_pods_that_are_added_together_count_as_one_after_the_other(
    before: list[tuple[str, Any]], listed: list[PodBuilder], later: list[tuple[str, Any]]
) -> None:
    """Also if some of them are known, or are listed twice; and all that is added can be removed again."""
    view, twin = (cluster("z1: a b", "z2: x y").snapshot() for _ in range(2))
    for each in (view, twin):
        apply(each, before)
    view.put_all([made.build() for made in listed])
    for made in listed:
        twin.put(made.build())
    assert observed(view) == observed(twin)
    names = ("ready", "active", "terminating", "phase", "created", "restarts", "cost", "uid_head", "assumed", "owner")
    for name in names:
        assert view.pods.column(name).tolist() == twin.pods.column(name).tolist()
    for each in (view, twin):
        apply(each, later)
    assert observed(view) == observed(twin)


@st.composite
def some_versions(draw: st.DrawFn) -> PodBuilder:
    """A version of one of two pods, of which most are like others but for their status."""
    made = pod(f"p{draw(st.integers(0, 1))}").labels(app=draw(st.sampled_from(["web", "web", "web", "db"])))
    made.on(draw(st.sampled_from(["a", "a", "a", "x"]))).uid(draw(st.sampled_from(["first"] * 7 + ["second"])))
    made.created(draw(st.sampled_from(["2026-03-01T08:00:00Z"] * 7 + ["2026-03-02T08:00:00Z"])))
    made.requests(cpu="250m").phase(draw(st.sampled_from(["Running", "Running", "Pending", "Failed"])))
    if draw(st.booleans()):
        made.ready(f"2026-03-0{draw(st.integers(1, 2))}T09:00:00Z")
    if draw(st.booleans()):
        made.restarts(draw(st.integers(0, 2)))
    if draw(st.booleans()):
        made.cost(draw(st.sampled_from(["-1", "5", "x"])))
    if draw(st.integers(0, 7)) == 0:
        made.terminating()
    if draw(st.booleans()):
        made.owned_by(draw(st.sampled_from(["web", "web", "web", "other"])))
    return made


@settings(max_examples=300, deadline=None)
@given(versions=st.lists(some_versions(), min_size=2, max_size=25), assumed=st.integers(0, 30))
def test_a_version_that_shares_parts_with_the_last_counts_as_any_other(
    versions: list[PodBuilder], assumed: int
) -> None:
    """The informer lets each version share what has not changed; a view that compares everything is the measure."""
    view, twin = (cluster("z1: a b", "z2: x y").snapshot() for _ in range(2))
    former: dict[str, Pod] = {}
    for number, made in enumerate(versions):
        new = view.pool.adopt(made.build(), former.get(made.build().key))
        if number == assumed:
            view.assume(new, "b")
            twin.assume(made.build(), "b")
        view.put(new)
        twin.put(made.build())
        former[new.key] = new
        assert observed(view) == observed(twin)
        for name in (*_OWN_COLUMNS, "assumed", "owner", "labels"):
            assert view.pods.column(name).tolist() == twin.pods.column(name).tolist(), name


def test_a_pod_that_its_owner_releases_is_no_longer_found_by_it() -> None:
    """Also if it shares everything else with the version before."""
    view = cluster("z1: a").snapshot()
    owned = pod("p").on("a").owned_by("web").build()
    view.put(owned)
    owner = owned.metadata.owner_references[0].uid
    assert view.pods.owned_by(owner).tolist() == [view.pods.rows.index["default/p"]]
    metadata = msgspec.structs.replace(owned.metadata, owner_references=())
    view.put(msgspec.structs.replace(owned, metadata=metadata))
    assert view.pods.owned_by(owner).tolist() == []


def test_an_unchanged_pod_takes_the_place_of_an_assumed_one() -> None:
    """Also if it is the object that was assumed."""
    view = cluster("z1: a").snapshot()
    view.assume(pod("p").build(), "a")
    assumed = view.pod("default/p")
    assert assumed is not None
    view.put(assumed)
    assert not view.pods.column("assumed")[view.pods.rows.index["default/p"]]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"spec": {"nodeName": "a", "containers": [{"resources": {"requests": {"cpu": "x"}}}]}}, id="cpu"),
        pytest.param({"metadata": {"creationTimestamp": "2026-03-01T08:00:00"}}, id="time without a zone"),
    ],
)
def test_an_invalid_pod_changes_nothing(wrong: dict[str, Any]) -> None:
    """Neither alone nor together with others: they are then put one by one."""
    view = cluster("z1: a").running("a").snapshot()
    before = observed(view)
    wrong = {**wrong, "metadata": {**wrong.get("metadata", {}), "name": "wrong", "namespace": "default"}}
    wrong.setdefault("spec", {"nodeName": "a"})
    invalid = codec.convert(wrong, Pod)
    with pytest.raises(InvalidError):
        view.put(invalid)
    with pytest.raises(InvalidError):
        view.put_all([pod("p").on("a").build(), invalid])
    assert observed(view) == before
    assert view.nodes.pods[row_of(view, "a")] == 1


def test_amounts_that_overflow_are_added_together_as_one_by_one() -> None:
    """An API server accepts 8Ei, and the total wraps around, as in kube-scheduler."""
    view, twin = cluster("z1: a").snapshot(), cluster("z1: a").snapshot()
    large = [pod(f"p{number}").on("a").requests(memory="8Ei").build() for number in range(3)]
    view.put_all(large)
    for each in large:
        twin.put(each)
    assert view.nodes.requested.tolist() == twin.nodes.requested.tolist()


@settings(max_examples=150, deadline=None)
@given(before=EVENTS, later=EVENTS)
def test_a_copy_and_its_original_do_not_affect_each_other(
    before: list[tuple[str, Any]], later: list[tuple[str, Any]]
) -> None:
    """Each sees its own events, as if it had always been alone."""
    view, twin = (cluster("z1: a b", "z2: x y").snapshot() for _ in range(2))
    apply(view, before)
    apply(twin, before)
    copied = view.copy()
    apply(copied, later)
    assert observed(view) == observed(twin)
    apply(twin, later)
    assert observed(copied) == observed(twin)
    apply(view, later)
    assert observed(view) == observed(copied)


@settings(max_examples=150, deadline=None)
@given(events=EVENTS)
def test_after_any_events_the_counts_equal_a_recount(events: list[tuple[str, Any]]) -> None:
    """Incremental counts of pods, requests, ports and terms never drift from what a recount would give."""
    view = cluster("z1: a b", "z2: x y").snapshot()
    apply(view, events)
    for app in ("web", "db"):
        assert per_node(view, selectors.parse(f"app={app}")) == dict(recount(view, app))
    placed = [p for p in view.pods.objects if p is not None and p.spec.node_name and not p.finished]
    for name, row in view.nodes.rows.index.items():
        here = [p for p in placed if p.spec.node_name == name]
        assert view.nodes.pods[row] == len(here)
        assert view.nodes.requested[row, 0] == sum(compute(p).amounts["cpu"] for p in here)
        assert view.nodes.assumed[row, 1] == sum(compute(p).assumed_memory for p in here)
        assert (("TCP", 8080) in view.ports and row in view.ports["TCP", 8080]) or not any(
            port.host_port for p in here for port in p.spec.containers[0].ports
        )
    held = sum(int(view.terms.per_node(term).sum()) for term in view.terms)
    assert held == sum(p.spec.affinity is not None for p in placed)
    assert set(np.unique(view.pods.node[view.pods.active])) <= {NOWHERE, *view.nodes.rows.index.values()}
    known = {name for name, row in view.nodes.rows.index.items() if view.nodes.known[row]}
    hosts = view.nodes.label(HOSTNAME)
    assert {hosts.values[view.nodes.codes(HOSTNAME)[row_of(view, name)]] for name in known} == known
