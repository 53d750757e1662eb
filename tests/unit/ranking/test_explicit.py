"""Explicit ranks: which PodGroupCosts and annotations count, and by whom they were written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api import codec
from trimtab.api.annotations import ALPHA_COST, POLICY_COST, SCALE_PLAN, PolicyCostAnnotation
from trimtab.api.scaledown import PodGroupCost
from trimtab.ranking import explicit
from trimtab.ranking.strategies import View
from trimtab.testing.builders import cluster, pod

OWN: dict[str, Any] = {
    "name": "cloneset-web",
    "annotations": {POLICY_COST: "ScaleDownPolicy shop/web"},
    "ownerReferences": [{"kind": "CloneSet", "name": "web", "uid": "u1"}],
}


def entry(manager: str, *fields: str) -> dict[str, Any]:
    """An entry of managedFields."""
    return {"manager": manager, "operation": "Update", "fieldsV1": {f"f:{field}": {} for field in fields}}


def costs(name: str = "ranks", *, kind: str = "CloneSet", api_version: str = "", **metadata: Any) -> PodGroupCost:
    """A PodGroupCost for the workload web."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "web"}
    tree = {"metadata": {"namespace": "shop", "name": name, **metadata}, "spec": {"owner": owner, "costs": {"p": 1}}}
    return codec.convert(tree, PodGroupCost)


def own(**changes: Any) -> PodGroupCost:
    """The PodGroupCost that a policy's controller wrote, with these fields of its metadata changed."""
    return costs(**{**OWN, **changes})


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(own(), True, id="by its name, its annotation and its owner"),
        pytest.param(own(managedFields=[entry("trimtab", "metadata", "spec")]), True, id="and by its manager"),
        pytest.param(own(managedFields=[entry("kubectl", "metadata")]), True, id="labels may be anyone's"),
        pytest.param(own(name="aaa"), False, id="another name"),
        pytest.param(own(annotations={}), False, id="no annotation"),
        pytest.param(own(ownerReferences=[]), False, id="no owner"),
        pytest.param(own(ownerReferences=[{"uid": "u0"}]), False, id="a predecessor of the owner"),
        pytest.param(own(ownerReferences=[{"uid": "u0"}, {"uid": "u1"}]), True, id="one of two owners"),
        pytest.param(
            own(managedFields=[entry("trimtab", "spec"), entry("kubectl-edit", "spec")]), False, id="costs were edited"
        ),
    ],
)
def test_own(found: PodGroupCost, want: bool) -> None:
    """What a policy's controller wrote is recognized, and nothing else."""
    assert explicit.is_own(found, "CloneSet", "web", "u1") is want


def test_an_object_beside_the_policys_own_is_a_rival_whatever_its_name() -> None:
    """The experiment: an editor created `aaa`, which comes first by name."""
    found = explicit.sort_group_costs([costs("aaa"), own()], "CloneSet", "web", "u1")
    assert found.own == own()
    assert found.names == ("aaa",)


def test_exactly_one_external_object_counts() -> None:
    """Of two none does, and both are named."""
    one = explicit.sort_group_costs([costs("ranks")], "CloneSet", "web", "u1")
    assert (one.external, one.ambiguous) == (costs("ranks"), ())
    two = explicit.sort_group_costs([costs("b"), costs("a")], "CloneSet", "web", "u1")
    assert (two.external, two.ambiguous) == (None, ("a", "b"))


def test_what_a_controller_wrote_is_never_external() -> None:
    """Neither when its policy has gone, nor when it was for a predecessor, nor when it was edited."""
    for left in (own(), own(ownerReferences=[]), own(managedFields=[entry("kubectl", "spec")])):
        assert explicit.sort_group_costs([left], "CloneSet", "web", "u1").others == ()


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(costs(kind="ReplicationController"), "shop/ReplicationController/web", id="as in the proposal"),
        pytest.param(costs(kind="Deployment", api_version="apps/v1"), "shop/Deployment/web", id="with a version"),
        pytest.param(costs(kind="Deployment", api_version="v1"), None, id="with another group's version"),
        pytest.param(costs(kind="StatefulSet"), None, id="of a kind that chooses by other rules"),
        pytest.param(codec.convert({}, PodGroupCost), None, id="without an owner"),
    ],
)
def test_owner(found: PodGroupCost, want: str | None) -> None:
    """The workload that an object ranks."""
    assert explicit.owner_key(found) == want


def policys(cost: int, carrier: str = "AlphaAnnotation") -> str:
    """The annotation beside a policy's cost."""
    return codec.encode(PolicyCostAnnotation(policy="p", carrier=carrier, cost=cost)).decode()


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({ALPHA_COST: "4"}, 4.0, id="a number"),
        pytest.param({ALPHA_COST: "four"}, None, id="no number"),
        pytest.param({ALPHA_COST: "4", POLICY_COST: policys(4)}, None, id="that a policy wrote"),
        pytest.param({ALPHA_COST: "5", POLICY_COST: policys(4)}, 5.0, id="that was written over a policy's"),
        pytest.param({ALPHA_COST: "4", POLICY_COST: policys(4, "Annotation")}, 4.0, id="beside a cost of ours"),
        pytest.param({ALPHA_COST: "4", SCALE_PLAN: "{}"}, 4.0, id="during a scale-down"),
    ],
)
def test_annotated_rank(annotations: dict[str, str], want: float | None) -> None:
    """Ranks of an external component; those of a policy are not."""
    assert explicit.annotated_rank(annotations) == want


def test_ranks_come_from_the_object_or_from_the_annotations() -> None:
    """Not from both."""
    pods = [pod("p").annotations({ALPHA_COST: "7"}).build(), pod("q").annotations({ALPHA_COST: "8"}).build()]
    assert explicit.explicit_ranks(pods, None) == {"default/p": 7.0, "default/q": 8.0}
    assert explicit.explicit_ranks(pods, costs()) == {"default/p": 1.0}


def test_a_policy_of_explicit_ranks_leaves_the_others_unranked() -> None:
    """So that one missing rank is noticed."""
    pods = [pod(name).on("node-a") for name in ("p", "q")]
    snapshot = cluster("zone-1: node-a").with_pods(*pods).snapshot()
    rows = np.array([snapshot.pods.rows.index[f"default/{name}"] for name in ("p", "q")])
    combined = explicit.explicit_policy({"default/p": 3.0}).rank(snapshot, rows, 0)
    assert combined.total[0] == 3.0
    assert combined.unranked_by() == {"default/q": ("Explicit",)}
    assert View(snapshot, rows, 0).values(rows, {"default/p": 3.0})[0] == 3.0


@given(st.sampled_from(["CloneSet", "ReplicaSet"]), st.text("ab-", min_size=1, max_size=300))
def test_names_fit_and_differ(kind: str, name: str) -> None:
    """Two workloads never share a PodGroupCost."""
    found = explicit.group_cost_name(kind, name)
    assert len(found) <= 253
    assert found != explicit.group_cost_name(kind, f"{name}c")


@pytest.mark.parametrize(("length", "is_cut"), [(253 - len("cloneset-"), False), (254 - len("cloneset-"), True)])
def test_a_name_is_cut_where_an_object_cannot_have_it(length: int, is_cut: bool) -> None:
    """At 253 characters, with a fingerprint of the whole."""
    found = explicit.group_cost_name("CloneSet", "w" * length)
    assert len(found) == 253
    assert (found != f"cloneset-{'w' * length}") is is_cut
