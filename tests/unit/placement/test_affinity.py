"""Node selectors and node affinity."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import (
    agrees,
    filtered,
    incoming_pods,
    node_affinity,
    sample_clusters,
    scored,
)
from tests.unit.placement.plugin_twins import NEVER, PASSED, ScoresByNode, Verdicts
from tests.unit.placement.samples import SampleCluster
from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import NodeAffinityArgs
from trimtab.placement.affinity import NodeAffinity
from trimtab.placement.framework import Cycle
from trimtab.testing.builders import PodBuilder, node, pod

Tree = dict[str, Any]

UNSUITED = (NEVER, ("node(s) didn't match Pod's node affinity/selector",))
UNENFORCED = (NEVER, ("node(s) didn't match scheduler-enforced node affinity",))
CONFLICT = (NEVER, ("pod affinity terms conflict",))

CLUSTER = SampleCluster([node("a", disk="ssd").build(), node("b", disk="hdd").build()], [])


def label(key: str, operator: str, *values: str) -> Tree:
    """A term of one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*names: str) -> Tree:
    """A term that requires all these names at once."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


def requiring(*terms: Tree) -> PodBuilder:
    """A pod that requires one of these terms."""
    selector = {"nodeSelectorTerms": list(terms)}
    return pod("p").affinity({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}})


def wishing(*wishes: tuple[int, Tree]) -> PodBuilder:
    """A pod that prefers these terms."""
    written = [{"weight": weight, "preference": term} for weight, term in wishes]
    return pod("p").affinity({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": written}})


def adding(**parts: Any) -> NodeAffinityArgs:
    """Arguments that add an affinity."""
    return codec.convert({"addedAffinity": parts}, NodeAffinityArgs)


ENFORCING = adding(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": [label("disk", "In", "ssd")]})


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(pod("p"), None, id="a pod without affinity is skipped"),
        pytest.param(pod("p").node_selector(disk="ssd"), {"a": PASSED, "b": UNSUITED}, id="a node selector"),
        pytest.param(requiring(label("disk", "NotIn", "ssd")), {"a": UNSUITED, "b": PASSED}, id="a required term"),
        pytest.param(
            requiring(label("disk", "In", "ssd"), label("disk", "In", "hdd")), {"a": PASSED, "b": PASSED}, id="any term"
        ),
        pytest.param(
            requiring(label("disk", "Exists")).node_selector(disk="hdd"),
            {"a": UNSUITED, "b": PASSED},
            id="the selector and the affinity must both hold",
        ),
        pytest.param(requiring(), {"a": UNSUITED, "b": UNSUITED}, id="no terms hold nowhere"),
        pytest.param(requiring({}), {"a": UNSUITED, "b": UNSUITED}, id="an empty term holds nowhere"),
        pytest.param(
            requiring(label("disk", "Near")), {"a": UNSUITED, "b": UNSUITED}, id="an invalid term matches no node"
        ),
        pytest.param(
            requiring(label("disk", "Near"), label("disk", "In", "ssd")),
            {"a": PASSED, "b": UNSUITED},
            id="and does not stop the other terms",
        ),
        pytest.param(requiring(named("b")), {"a": UNSUITED, "b": PASSED}, id="a node by name"),
        pytest.param(requiring(named("gone")), {"a": UNSUITED, "b": UNSUITED}, id="a name that no node has"),
        pytest.param(
            requiring({**named("b"), **label("disk", "In", "ssd")}),
            {"a": UNSUITED, "b": UNSUITED},
            id="the named node must suit in other ways too",
        ),
        pytest.param(requiring(named("a", "b")), {"a": CONFLICT, "b": CONFLICT}, id="two names at once are a conflict"),
        pytest.param(
            requiring(named("a", "b"), named("b")), {"a": UNSUITED, "b": PASSED}, id="unless another term is possible"
        ),
    ],
)
def test_required_affinity(incoming: PodBuilder, want: Verdicts | None) -> None:
    """A node suits if the node selector holds and one of the terms does."""
    assert filtered(NodeAffinity(), incoming.build(), CLUSTER) == want


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(pod("p"), {"a": PASSED, "b": UNENFORCED}, id="also for pods without affinity"),
        pytest.param(
            pod("p").node_selector(disk="hdd"),
            {"a": UNSUITED, "b": UNENFORCED},
            id="its reason comes before the pod's own",
        ),
    ],
)
def test_added_affinity_of_a_profile(incoming: PodBuilder, want: Verdicts) -> None:
    """Every pod of the profile must meet it besides its own."""
    assert filtered(NodeAffinity(ENFORCING), incoming.build(), CLUSTER) == want


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(pod("p"), None, id="a pod without preferences is skipped"),
        pytest.param(
            wishing((30, label("disk", "In", "ssd")), (10, label("disk", "Exists"))),
            {"a": (40, 100), "b": (10, 25)},
            id="the weights of what holds",
        ),
        pytest.param(wishing((5, label("rack", "Exists"))), {"a": (0, 0), "b": (0, 0)}, id="nothing holds: all 0"),
        pytest.param(
            wishing((0, label("disk", "Near")), (7, {})), {"a": (0, 0), "b": (0, 0)}, id="weight 0, and an empty term"
        ),
    ],
)
def test_preferred_affinity(incoming: PodBuilder, want: ScoresByNode | None) -> None:
    """The node where most weights hold scores 100."""
    assert scored(NodeAffinity(), incoming.build(), CLUSTER) == want


def test_added_preferences_of_a_profile() -> None:
    """They count for every pod, and together with its own."""
    wish = {"weight": 10, "preference": label("disk", "In", "hdd")}
    plugin = NodeAffinity(adding(preferredDuringSchedulingIgnoredDuringExecution=[wish]))
    assert scored(plugin, pod("p").build(), CLUSTER) == {"a": (0, 0), "b": (10, 100)}
    assert scored(plugin, wishing((5, label("disk", "In", "ssd"))).build(), CLUSTER) == {"a": (5, 50), "b": (10, 100)}


def test_an_invalid_preferred_term_is_an_error() -> None:
    """It names the field, as the API server would have."""
    with pytest.raises(InvalidError, match=r"preferredDuring.*\[1\]\.preference\.matchExpressions\[0\]\.operator"):
        scored(NodeAffinity(), wishing((1, label("disk", "Exists")), (1, label("disk", "Near"))).build(), CLUSTER)


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        pytest.param(
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [label("disk", "Near")]}},
            "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            ".matchExpressions[0].operator",
            id="a required term",
        ),
        pytest.param(
            {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": label("disk", "In")}]},
            "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values",
            id="a preferred term",
        ),
    ],
)
def test_an_invalid_added_affinity_is_refused(parts: Tree, path: str) -> None:
    """A configuration is checked when it is read, not at the first pod."""
    with pytest.raises(InvalidError) as raised:
        NodeAffinity(adding(**parts))
    assert raised.value.path == path


def test_an_unknown_field_of_an_added_affinity_is_refused() -> None:
    """A configuration is written by people, so a field that does not exist is a mistake."""
    with pytest.raises(InvalidError, match="matchLabels"):
        adding(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": [{"matchLabels": {"a": "b"}}]})


def test_a_changed_node_is_evaluated_again() -> None:
    """Answers are kept for all pods that ask the same, and a node's change makes its own answer void."""
    view = CLUSTER.snapshot()
    incoming = pod("p").node_selector(disk="ssd").build()
    before = NodeAffinity().filter(Cycle(incoming, view))
    view.put(node("b", disk="ssd").build())
    after = NodeAffinity().filter(Cycle(incoming, view))
    assert before is not None
    assert after is not None
    assert before.codes.tolist() == [0, 2]
    assert after.codes.tolist() == [0, 0]


@settings(deadline=None, max_examples=70)
@given(st.data())
def test_affinity_agrees_with_its_twin(data: st.DataObject) -> None:
    """On any cluster, the plugin agrees with its slow twin."""
    sample, _ = data.draw(sample_clusters())
    incoming = data.draw(incoming_pods("affinity", "nodeSelector"))
    agrees(NodeAffinity(), incoming, sample, NodeAffinityArgs())
    args = adding(**node_affinity(Random(data.draw(st.integers(0, 999))), readable=True))
    agrees(NodeAffinity(args), incoming, sample, args)
