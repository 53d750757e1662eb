"""Node selectors hold where they hold in Kubernetes; numbers are those of the module's list of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api import codec, nodeselectors
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import NodeSelector, PodSpec

LABELS = {"disk": "ssd", "cores": "8", "zone": "z1"}
NODE = codec.convert({"metadata": {"name": "n1", "labels": LABELS}}, Node)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One expression, as it is written."""
    return {"key": key, "operator": operator, "values": list(values)}


def labels(*expressions: dict[str, Any]) -> dict[str, Any]:
    """A term over labels."""
    return {"matchExpressions": list(expressions)}


def fields(*expressions: dict[str, Any]) -> dict[str, Any]:
    """A term over fields."""
    return {"matchFields": list(expressions)}


def requiring(*terms: dict[str, Any], **node_selector: str) -> PodSpec:
    """A pod that must run where one of these terms holds, and with these labels."""
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return codec.convert({"nodeSelector": node_selector, "affinity": {"nodeAffinity": affinity}}, PodSpec)


def preferring(*terms: tuple[int, dict[str, Any]]) -> PodSpec:
    """A pod with these wishes, each with its weight."""
    preferred = [{"weight": weight, "preference": term} for weight, term in terms]
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return codec.convert({"affinity": {"nodeAffinity": affinity}}, PodSpec)


SSD = labels(expression("disk", "In", "ssd"))
HDD = labels(expression("disk", "In", "hdd"))
BAD = labels(expression("disk", "Is", "ssd"))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(PodSpec(), True, id="no requirement holds everywhere"),
        pytest.param(PodSpec(node_selector={"disk": "ssd"}), True, id="a nodeSelector that holds"),
        pytest.param(PodSpec(node_selector={"disk": "hdd"}), False, id="a nodeSelector that does not"),
        pytest.param(PodSpec(node_selector={"no such": "x y"}), False, id="a nodeSelector is not checked"),
        pytest.param(requiring(SSD, disk="hdd"), False, id="both must hold (1)"),
        pytest.param(requiring(BAD, disk="hdd"), False, id="a failed nodeSelector hides a bad term (1)"),
        pytest.param(requiring(), False, id="an empty list of terms holds nowhere (2)"),
        pytest.param(requiring({}), False, id="an empty term holds nowhere (2)"),
        pytest.param(requiring(HDD, SSD), True, id="one term is enough (2)"),
        pytest.param(requiring({}, SSD), True, id="an empty term does not hinder another (2)"),
        pytest.param(
            requiring(labels(expression("disk", "In", "ssd"), expression("zone", "In", "z2"))),
            False,
            id="all expressions must hold (3)",
        ),
        pytest.param(
            requiring({**SSD, **fields(expression("metadata.name", "In", "n2"))}),
            False,
            id="fields must hold as well (3)",
        ),
        pytest.param(requiring(BAD, SSD), True, id="a bad term before a good one (4)"),
        pytest.param(requiring(SSD, BAD), True, id="a bad term after a good one (4)"),
        pytest.param(requiring(fields(expression("metadata.name", "In", "n1"))), True, id="its name (5)"),
        pytest.param(requiring(fields(expression("metadata.name", "NotIn", "n1"))), False, id="not its name (5)"),
        pytest.param(requiring(fields(expression("spec.podCIDR", "In", "n1"))), False, id="another field (5)"),
        pytest.param(requiring(fields(expression("spec.podCIDR", "In", ""))), True, id="other fields are empty (5)"),
        pytest.param(requiring(labels(expression("cores", "Gt", "7"))), True, id="more than 7 (6)"),
        pytest.param(requiring(labels(expression("cores", "Gt", "8"))), False, id="not more than 8 (6)"),
        pytest.param(requiring(labels(expression("cores", "Lt", "10"))), True, id="less than 10, as numbers (6)"),
        pytest.param(requiring(labels(expression("disk", "Gt", "1"))), False, id="a label that is no number (6)"),
        pytest.param(requiring(labels(expression("gpus", "NotIn", "1"))), True, id="NotIn takes an absent label"),
        pytest.param(requiring(labels(expression("gpus", "DoesNotExist"))), True, id="an absent label is absent"),
    ],
)
def test_required(spec: PodSpec, want: bool) -> None:
    """A pod may run on the node, or may not."""
    assert nodeselectors.required(spec).matches(NODE) is want


@pytest.mark.parametrize(
    ("term", "path"),
    [
        pytest.param(BAD, "matchExpressions[0].operator", id="an unknown operator"),
        pytest.param(labels(expression("disk", "In")), "matchExpressions[0].values", id="In without values"),
        pytest.param(labels(expression("disk", "Exists", "a")), "matchExpressions[0].values", id="Exists with a value"),
        pytest.param(labels(expression("a b", "Exists")), "matchExpressions[0].key", id="a key that is none"),
        pytest.param(labels(expression("cores", "Gt", "1", "2")), "matchExpressions[0].values", id="two numbers (6)"),
        pytest.param(
            labels(expression("cores", "Gt", "8", "8")), "matchExpressions[0].values", id="the same twice (6)"
        ),
        pytest.param(labels(expression("cores", "Gt", "many")), "matchExpressions[0].values", id="not a number (6)"),
        pytest.param(labels(expression("cores", "Lt", "-2")), "matchExpressions[0].values[0]", id="no label value (6)"),
        pytest.param(fields(expression("metadata.name", "Exists")), "matchFields[0].operator", id="Exists (5)"),
        pytest.param(fields(expression("metadata.name", "In", "a", "b")), "matchFields[0].values", id="two names (5)"),
        pytest.param(fields(expression("metadata.name", "NotIn")), "matchFields[0].values", id="no name (5)"),
    ],
)
def test_invalid_terms(term: dict[str, Any], path: str) -> None:
    """A bad term is an error where no other term holds (4), and a bad wish is one at once (7); both name the field."""
    required = nodeselectors.required(requiring(HDD, term))
    with pytest.raises(InvalidError) as caught:
        required.matches(NODE)
    prefix = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"
    assert caught.value.path == f"{prefix}.{path}"

    with pytest.raises(InvalidError) as caught:
        nodeselectors.preferred(preferring((1, SSD), (1, term)))
    prefix = "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].preference"
    assert caught.value.path == f"{prefix}.{path}"


def test_a_node_without_a_name_meets_any_field() -> None:
    """Kubernetes does not look at the fields of a node that has none."""
    assert nodeselectors.required(requiring(fields(expression("metadata.name", "In", "n1")))).matches_labels({}, "")


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(PodSpec(), 0, id="no wishes"),
        pytest.param(preferring((5, SSD), (10, HDD), (7, SSD)), 12, id="the weights of what holds are added"),
        pytest.param(preferring((5, {})), 0, id="an empty wish is skipped (7)"),
        pytest.param(preferring((0, BAD), (3, SSD)), 3, id="so is one without weight, even a bad one (7)"),
        pytest.param(preferring((-5, SSD)), -5, id="a negative weight counts"),
        pytest.param(preferring((9, fields(expression("metadata.name", "In", "n1")))), 9, id="a wish for a name"),
    ],
)
def test_preferred(spec: PodSpec, want: int) -> None:
    """A node is worth the sum of the wishes that it fulfils."""
    assert nodeselectors.preferred(spec).score(NODE) == want


def test_only_a_pod_without_requirements_is_unrestricted() -> None:
    """An empty list of terms is a requirement too: one that no node meets."""
    assert nodeselectors.required(PodSpec()).unrestricted
    assert not nodeselectors.required(PodSpec(node_selector={"a": "b"})).unrestricted
    assert not nodeselectors.required(requiring()).unrestricted


def test_equal_requirements_are_one_key() -> None:
    """Pods that say the same share an answer, in whatever order they say it."""
    one = requiring(labels(expression("a", "Exists"), expression("b", "In", "x", "y")), disk="ssd")
    other = requiring(labels(expression("b", "In", "y", "x"), expression("a", "Exists")), disk="ssd")
    assert {nodeselectors.required(one): "seen"}[nodeselectors.required(other)] == "seen"


def test_a_selector_can_stand_alone() -> None:
    """Affinity that an operator adds to all pods has no nodeSelector, and errors start at the selector."""
    selector = codec.convert({"nodeSelectorTerms": [SSD, BAD]}, NodeSelector)
    compiled = nodeselectors.compile(selector)
    assert compiled.matches(NODE)
    assert compiled.problem is not None
    assert compiled.problem[0] == "nodeSelectorTerms[1].matchExpressions[0].operator"


KEYS = st.sampled_from(["disk", "cores", "zone"])
VALUES = st.sampled_from(["ssd", "8", "16", "z1", "", "08"])
EXPRESSIONS = st.one_of(
    st.builds(expression, KEYS, st.sampled_from(["In", "NotIn"]), VALUES, VALUES),
    st.builds(expression, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(expression, KEYS, st.sampled_from(["Gt", "Lt"]), st.sampled_from(["7", "8", "15"])),
)
TERMS = st.lists(EXPRESSIONS, max_size=3).map(lambda expressions: labels(*expressions))
NODE_LABELS = st.dictionaries(KEYS, VALUES)


@given(st.lists(TERMS, max_size=4), NODE_LABELS)
def test_terms_are_alternatives(terms: list[dict[str, Any]], node: Mapping[str, str]) -> None:
    """A list of terms holds where one of them would hold alone (2)."""
    alone = [nodeselectors.required(requiring(term)).matches_labels(node, "n") for term in terms]
    assert nodeselectors.required(requiring(*terms)).matches_labels(node, "n") is any(alone)


@given(st.lists(st.tuples(st.integers(1, 100), TERMS), max_size=4), NODE_LABELS)
def test_a_preferred_term_scores_where_it_would_match_as_required(
    wishes: list[tuple[int, dict[str, Any]]], node: Mapping[str, str]
) -> None:
    """Preferred and required terms are read alike; the score is the sum of the weights that hold."""
    held = [w for w, term in wishes if nodeselectors.required(requiring(term)).matches_labels(node, "n")]
    assert nodeselectors.preferred(preferring(*wishes)).score_labels(node, "n") == sum(held)


@given(TERMS, NODE_LABELS)
def test_an_invalid_term_never_affects_a_matching_one(term: dict[str, Any], node: Mapping[str, str]) -> None:
    """With a bad term beside it, a term holds where it held, and is an error where it did not (4)."""
    required = nodeselectors.required(requiring(BAD, term))
    if nodeselectors.required(requiring(term)).matches_labels(node, "n"):
        assert required.matches_labels(node, "n")
    else:
        with pytest.raises(InvalidError):
            required.matches_labels(node, "n")
