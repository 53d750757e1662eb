"""Matching, compared with the twin that compiles every term and merges every patch; and how little of that is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.unit.subsets import twins
from tests.unit.subsets.topologies import subset, topology
from trimtab.api import codec, nodeselectors
from trimtab.api.annotations import SubsetAnnotations
from trimtab.api.bounded_caches import BoundedCache
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import Subset
from trimtab.subsets import matching, members, shaping
from trimtab.subsets.matching import Match, match
from trimtab.subsets.members import slices
from trimtab.testing.builders import node, pod

JSON = dict[str, Any]

words = st.sampled_from(["", "a", "b", "1"])
names = st.sampled_from(["main", "side", ""])
directives = st.sampled_from(
    [
        {"$patch": "delete"},
        {"$patch": "replace"},
        {"$patch": "merge"},
        {"$retainKeys": ["labels", "containers", "name"]},
        {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
    ]
)
odd = st.sampled_from([None, 1, 1.5, True, [], {}, ["a"], [None], {"$patch": "delete"}, [{"$patch": "replace"}]])


def index_of(subject: Pod, its_node: Node | None, subsets: Sequence[Subset]) -> int | None:
    """The index of the subset that a pod is matched with."""
    return match(subject, its_node, subsets).index


def objects(fields: dict[str, st.SearchStrategy[Any]], *, is_patch: bool) -> st.SearchStrategy[JSON]:
    """Objects with some of these fields; in a patch, anything may be null, odd, or beside a directive."""
    if not is_patch:
        return st.fixed_dictionaries({}, optional=fields)
    unusual = st.integers(0, 9).flatmap(lambda roll: directives if roll == 0 else st.just({}))
    parts = {
        name: st.integers(0, 9).flatmap(lambda roll, part=part: odd if roll == 0 else part)  # type: ignore[misc]
        for name, part in fields.items()
    }
    return st.builds(lambda some, more: {**some, **more}, st.fixed_dictionaries({}, optional=parts), unusual)


def containers(*, is_patch: bool) -> st.SearchStrategy[list[JSON]]:
    """Containers; those of a pod have images most of the time."""
    quantities = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2", 1, 2.0]), max_size=2)
    ports = st.lists(objects({"containerPort": st.integers(1, 2), "hostPort": st.integers(0, 1)}, is_patch=is_patch))
    fields: dict[str, st.SearchStrategy[Any]] = {
        "name": names,
        "image": words,
        "resources": objects({"requests": quantities, "limits": quantities}, is_patch=is_patch),
        "ports": ports,
        "restartPolicy": words,
    }
    if is_patch:
        mount = {"name": "v", "mountPath": "/v"}
        fields |= {"env": st.just([{"name": "A", "value": "1"}]), "volumeMounts": st.just([mount])}
        return st.lists(objects(fields, is_patch=True), max_size=2)
    usual = st.fixed_dictionaries({"name": st.just("main"), "image": st.just("a")}, optional={"ports": ports})
    return st.lists(usual | objects(fields, is_patch=False), max_size=2)


def pods(*, is_patch: bool) -> st.SearchStrategy[JSON]:
    """Pods, or patches of pods: fields of every kind that patches are compared by."""
    labels = objects({"tier": words, "zone": words}, is_patch=is_patch)
    costs = objects({"controller.kubernetes.io/pod-deletion-cost": words, "note": words}, is_patch=is_patch)
    toleration = objects({"key": words, "operator": words, "tolerationSeconds": st.integers(0, 1)}, is_patch=is_patch)
    constraint = st.fixed_dictionaries(
        {"maxSkew": st.integers(1, 2), "topologyKey": words, "whenUnsatisfiable": st.just("DoNotSchedule")}
    )
    expression = st.fixed_dictionaries({"key": st.just("k"), "operator": st.just("In"), "values": st.just(["a"])})
    terms = st.lists(st.fixed_dictionaries({}, optional={"matchExpressions": st.just([]) | st.lists(expression)}))
    required = objects({"nodeSelectorTerms": terms}, is_patch=is_patch)
    affinity = {
        "nodeAffinity": objects({"requiredDuringSchedulingIgnoredDuringExecution": required}, is_patch=is_patch)
    }
    times = st.sampled_from(["2026-03-01T12:00:00Z", "2026-03-01T13:00:00+01:00", "2026-03-01T14:00:00Z"])
    metadata: dict[str, st.SearchStrategy[Any]] = {
        "labels": labels,
        "annotations": costs,
        "creationTimestamp": times,
        "finalizers": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        "generateName": words,
    }
    spec: dict[str, st.SearchStrategy[Any]] = {
        "containers": containers(is_patch=is_patch),
        "initContainers": containers(is_patch=is_patch),
        "tolerations": st.lists(toleration, max_size=2),
        "topologySpreadConstraints": st.lists(constraint, max_size=2),
        "nodeSelector": labels,
        "affinity": objects(affinity, is_patch=is_patch),
        "hostNetwork": st.booleans(),
        "priority": st.integers(0, 1),
        "schedulerName": words,
        "volumes": st.lists(st.fixed_dictionaries({"name": words}, optional={"rbd": st.just({})}), max_size=2),
        "resources": objects({"requests": st.just({"cpu": "1"})}, is_patch=is_patch),
    }
    if is_patch:
        spec |= {"priorityClassName": words, "terminationGracePeriodSeconds": st.integers(0, 9)}
    parts = {
        "metadata": objects(metadata, is_patch=is_patch),
        "spec": objects(spec, is_patch=is_patch),
        "status": objects({"phase": words}, is_patch=is_patch),
    }
    return objects(parts, is_patch=is_patch)


MAIN: JSON = {"spec": {"containers": [{"name": "main", "image": "a"}]}}
BOTH: JSON = {"spec": {"containers": [*MAIN["spec"]["containers"], {"name": "side", "image": "b"}]}}
CREATED: JSON = {"metadata": {"creationTimestamp": "2026-03-01T12:00:00Z"}}
TERMS = [
    {},
    {"matchExpressions": [{"key": "k", "operator": "In", "values": ["a"]}]},
    {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["many"]}]},
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
]
TOLERATIONS = [[], [{"key": "a"}], [{"key": "a", "operator": "b"}, {}]]


@st.composite
def cases(draw: st.DrawFn) -> tuple[JSON, list[JSON], bool]:
    """A pod, subsets, and whether its node is known. Some patches are parts of the pod, which it therefore has."""
    tree = draw(pods(is_patch=False))
    if draw(st.booleans()):  # one that a patch can be merged into
        tree = {**tree, "spec": {**tree.get("spec", {}), **MAIN["spec"], "initContainers": []}}
    own = st.sampled_from([{part: tree[part]} for part in tree] + [{}])
    fields = {
        "nodeSelectorTerm": st.sampled_from(TERMS),
        "tolerations": st.sampled_from(TOLERATIONS),
        "patch": own | pods(is_patch=True),
    }
    subsets = draw(st.lists(st.fixed_dictionaries({}, optional=fields), min_size=1, max_size=4))
    if draw(st.booleans()):
        tree = {**tree, "spec": {**tree.get("spec", {}), "nodeName": "n"}}
    return tree, subsets, draw(st.booleans())


def patched_container(**fields: Any) -> JSON:
    """A patch of one container twice; the latter counts."""
    return {"patch": {"spec": {"containers": [{"name": "main", "image": "b"}, {"name": "main", **fields}]}}}


def expected(subject: Pod, on: Node | None, subsets: list[Subset]) -> int | None:
    """The twin's answer. It has none for patches that no validated UnitedTopology has, such as a number for labels."""
    try:
        return twins.match(subject, on, subsets)
    except (AttributeError, TypeError):
        return reject()


@given(cases())
@example((MAIN, [{}, patched_container(image="a")], False))
@example((BOTH, [{"patch": {"spec": {"containers": [{"name": "side", "image": "b"}]}}}], False))
@example((MAIN | CREATED, [{"patch": CREATED}], False))
@example((MAIN, [{"patch": {"spec": {"hostNetwork": False, "schedulerName": "", "tolerations": []}}}], False))
@example((MAIN, [{"patch": {"spec": {"affinity": {"$patch": "delete"}, "nodeSelector": {"a": None}}}}], False))
@settings(deadline=None, max_examples=150)
def test_a_pod_is_matched_as_by_the_twin(case: tuple[JSON, list[JSON], bool]) -> None:
    """The same subset of all; and of each subset, whether the pod has its changes."""
    tree, trees, has_node = case
    subject = codec.convert(tree, Pod)
    subsets = [subset(f"s{index}", **fields) for index, fields in enumerate(trees)]
    on = node("n").labels(k="a").build() if has_node else None
    assert expected(subject, on, subsets) == index_of(subject, on, subsets)
    for each in subsets:
        pair = [subset("other", tolerations=[{"key": "of no pod"}]), structs.replace(each, node_selector_term=None)]
        assert expected(subject, on, pair) == index_of(subject, on, pair)


def zones(count: int) -> list[Subset]:
    """Subsets in as many zones."""
    expressions = [{"key": "zone", "operator": "In", "values": [f"z{index}"]} for index in range(count)]
    return [subset(f"s{each['values'][0]}", nodeSelectorTerm={"matchExpressions": [each]}) for each in expressions]


def test_a_term_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all pods and nodes, and for an equal UnitedTopology that was decoded anew."""
    compiled: list[Any] = []
    compile_ = nodeselectors.compile

    def counted(selector: Any) -> nodeselectors.RequiredNodeAffinity:
        compiled.append(selector)
        return compile_(selector)

    monkeypatch.setattr(nodeselectors, "compile", counted)
    monkeypatch.setattr(matching, "_terms", BoundedCache())  # other tests have compiled terms
    for name in ("n1", "n2", "n3"):
        on = node(name).labels(zone="z3").build()
        assert [index_of(pod(f"p{index}").on(name).build(), on, zones(5)) for index in range(3)] == [3, 3, 3]
    assert len(compiled) == 5


PATCHES: dict[str, Callable[[int], JSON]] = {
    "of a label": lambda index: {"metadata": {"labels": {"tier": f"t{index}"}}},
    "of an annotation": lambda index: {"metadata": {"annotations": {"tier": f"t{index}"}}},
    "of a container": lambda index: {
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": f"{index + 7}"}}}]}
    },
    "of tolerations": lambda index: {"spec": {"tolerations": [{"key": f"t{index}", "operator": "Exists"}]}},
    "that adds a volume": lambda index: {"spec": {"volumes": [{"name": f"v{index}", "emptyDir": {}}]}},
}


@pytest.mark.parametrize("kind", PATCHES)
def test_a_patch_that_the_pod_lacks_is_not_merged(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fields that it names show that."""
    merged: list[Any] = []
    monkeypatch.setattr(matching, "patched", lambda *given, **_: merged.append(given))
    subsets = [subset(f"s{index}", patch=PATCHES[kind](index)) for index in range(20)]
    tree = pod("p").labels(tier="gold").tree()
    tree["spec"] |= {"containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}
    assert index_of(codec.convert(tree, Pod), None, subsets) == 0
    assert merged == []


def test_a_pod_becomes_a_tree_once_and_the_first_patch_that_it_has_is_the_last_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Patches of fields that no type has are merged: nothing else tells whether they apply."""
    trees: list[Any] = []
    to_tree = codec.to_tree

    def counted(value: Any) -> Any:
        trees.append(value)
        return to_tree(value)

    merged: list[Any] = []
    patched = shaping.patched

    def merging(tree: JSON, of: Any, **more: Any) -> JSON:
        merged.append(of.name)
        return patched(tree, of, **more)

    monkeypatch.setattr(codec, "to_tree", counted)
    monkeypatch.setattr(matching, "patched", merging)
    absent = {"spec": {"containers": [{"$patch": "delete", "name": "main"}]}}
    present = {"spec": {"terminationGracePeriodSeconds": 5}}
    patches = [absent, absent, present, present, absent]
    tree = {**pod("p").tree(), **MAIN}
    trees.clear()
    assert (
        index_of(codec.convert(tree, Pod), None, [subset(f"s{at}", patch=each) for at, each in enumerate(patches)]) == 2
    )
    assert (len(trees), merged) == (1, ["s0", "s1", "s2"])


def test_few_patches_are_merged_with_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes long where the pod is large; the others count as patches that it does not have."""
    merged: list[Any] = []

    def merging(tree: JSON, of: Any, **_: Any) -> JSON:
        merged.append(of.name)
        return {**tree, "metadata": {"name": "other"}}

    monkeypatch.setattr(matching, "patched", merging)
    absent = {"spec": {"containers": [{"$patch": "delete", "name": "main"}]}}
    subsets = [subset(f"s{at}", patch=absent) for at in range(80)]
    subject = codec.convert({**pod("p").tree(), **MAIN}, Pod)
    assert match(subject, None, subsets) == Match(0, ignores_patches=True), (
        "it may have one of the others, which is reported"
    )
    assert len(merged) == matching.MAX_MERGED
    assert match(subject, None, subsets[: matching.MAX_MERGED]) == Match(0)


def test_the_terms_of_many_subsets_are_compiled_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first pod is compared with all of them."""
    compiled: list[int] = []
    monkeypatch.setattr(members, "prepare", lambda subsets: compiled.append(len(subsets)))
    pods = [pod(f"p{at}").build() for at in range(3)]
    found = [(list(compiled), len(part)) for part in slices(pods, topology(*zones(250)))]
    assert found[:3] == [([100], 0), ([100, 100], 0), ([100, 100, 50], 0)]
    assert sum(size for _, size in found) == 3
    assert list(slices([], topology(*zones(250)))) == []
    assert [len(part) for part in slices(pods, topology(*zones(2)))] == [3]


def unannotated(count: int) -> list[Pod]:
    """As many pods that have to be matched."""
    return [pod(f"p{at}").build() for at in range(count)]


@pytest.mark.parametrize(
    ("patches", "others", "sizes"),
    [
        pytest.param(0, 20, [50, 10], id="without patches, comparisons count"),
        pytest.param(1, 19, [20, 20, 20], id="with one patch, so many pods as merges"),
        pytest.param(4, 200, [4] * 15, id="comparisons count where they are more"),
        pytest.param(6, 0, [3] * 20, id="the merges of a further pod would be too many"),
        pytest.param(20, 0, [1] * 60, id="one pod has all merges of a part"),
        pytest.param(80, 0, [1] * 60, id="one pod has more"),
    ],
)
def test_a_part_has_few_comparisons_and_few_merges(patches: int, others: int, sizes: list[int]) -> None:
    """Only a subset with a patch needs a merge."""
    change = {"spec": {"terminationGracePeriodSeconds": 5}}
    subsets = [*(subset(f"p{at}", patch=change) for at in range(patches)), *(subset(f"o{at}") for at in range(others))]
    pods = unannotated(60)
    parts = [part for part in slices(pods, topology(*subsets)) if part]
    assert [len(part) for part in parts] == sizes
    assert [each for part in parts for each in part] == pods


def test_pods_with_subsets_need_no_merges() -> None:
    """So that counting many of them takes few steps; those of another UnitedTopology or a former subset do."""
    patched = topology(*(subset(f"s{at}", patch={"metadata": {"labels": {"a": "b"}}}) for at in range(20)))
    marks = [("spread", "s1", 60), ("other", "s1", 2), ("spread", "gone", 2)]
    pods = [
        pod(f"{of}-{name}-{at}").annotations(SubsetAnnotations(of, name).written()).build()
        for of, name, count in marks
        for at in range(count)
    ]
    assert [len(part) for part in slices(pods, patched)] == [50, 11, 1, 1, 1]
