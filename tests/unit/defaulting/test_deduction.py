"""Which new pods get default constraints, with which selector, and what is written into them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.api import codec, selectors
from trimtab.api.annotations import DEFAULT_CONSTRAINTS
from trimtab.api.core import Service
from trimtab.api.meta import LabelSelector
from trimtab.api.patches import json_patch
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.defaulting import deduction
from trimtab.defaulting.deduction import MIRROR, NewPod, Result
from trimtab.defaulting.rules import Rule
from trimtab.testing.builders import PodBuilder, pod

JSON = dict[str, Any]

HASH = "pod-template-hash"
OWN = LabelSelector(match_labels={"app": "web", HASH: "5f7"})
LABELS = {"app": "web", "tier": "front", HASH: "5f7"}
HARD_RACK = TopologySpreadConstraint(max_skew=1, topology_key="rack", when_unsatisfiable="DoNotSchedule")


def new(built: PodBuilder) -> NewPod:
    """A pod as its review shows it."""
    return codec.convert(built.tree(), NewPod)


def service(**selector: str) -> Service:
    """A service that selects these labels."""
    return codec.convert({"metadata": {"name": "web"}, "spec": {"selector": selector}}, Service)


@pytest.mark.parametrize(
    ("built", "result"),
    [
        pytest.param(pod("p").owned_by("web"), None, id="a pod of a ReplicaSet"),
        pytest.param(pod("p"), None, id="a pod without a controller"),
        pytest.param(pod("p").owned_by("web", kind="Rollout", api_version="argoproj.io/v1"), None, id="any other"),
        pytest.param(pod("p").spread("zone"), Result.STATED, id="a pod with constraints"),
        pytest.param(pod("p").labels({DEFAULT_CONSTRAINTS: "disabled"}), Result.EXEMPT, id="a pod that opts out"),
        pytest.param(pod("p").labels({DEFAULT_CONSTRAINTS: "no"}), None, id="another value of that label"),
        pytest.param(pod("p").owned_by("d", kind="DaemonSet"), Result.EXCLUDED, id="a pod of a DaemonSet"),
        pytest.param(pod("p").owned_by("j", kind="Job", api_version="batch/v1"), Result.EXCLUDED, id="a pod of a Job"),
        pytest.param(pod("p").annotations({MIRROR: "hash"}), Result.EXCLUDED, id="a mirror pod"),
    ],
)
def test_which_pods_are_left_alone(built: PodBuilder, result: Result | None) -> None:
    """Rules 1 and 2."""
    assert deduction.is_left_alone(new(built)) == result


@pytest.mark.parametrize(
    ("controller", "services", "want"),
    [
        pytest.param(OWN, [], f"app=web,{HASH}=5f7", id="the controller's, with the revision (rule 4)"),
        pytest.param(OWN, [service(tier="front")], f"app=web,{HASH}=5f7,tier=front", id="a service's too"),
        pytest.param(OWN, [service(tier="back")], f"app=web,{HASH}=5f7", id="a service of other pods"),
        pytest.param(OWN, [service()], f"app=web,{HASH}=5f7", id="a service without a selector"),
        pytest.param(None, [service(app="web"), service(tier="front")], "app=web,tier=front", id="services alone"),
        pytest.param(None, [], None, id="neither"),
        pytest.param(LabelSelector(match_labels={"app": "db"}), [], None, id="it does not match the pod (rule 6)"),
        pytest.param(LabelSelector(match_labels={"app": "not a value!"}), [], None, id="an invalid one"),
        pytest.param(LabelSelector(), [], None, id="one that selects everything"),
    ],
)
def test_the_selector_is_deduced(controller: LabelSelector | None, services: list[Service], want: str | None) -> None:
    """Rule 3."""
    found = deduction.deduced_selector(LABELS, controller, services)
    assert (None if found is None else str(selectors.compile(found))) == want


def test_expressions_of_the_controller_are_kept() -> None:
    """Together with the labels of services."""
    expressions = ({"key": "app", "operator": "In", "values": ["web", "db"]},)
    controller = codec.convert({"matchExpressions": list(expressions)}, LabelSelector)
    found = deduction.deduced_selector(LABELS, controller, [service(tier="front")])
    assert found is not None
    assert codec.to_tree(found) == {"matchLabels": {"tier": "front"}, "matchExpressions": list(expressions)}


def test_the_patch_adds_constraints_and_an_annotation() -> None:
    """Everything else of the pod stays; a repeated review then finds constraints and adds nothing."""
    before = pod("p").labels(LABELS).annotations({"a": "b"}).tree()
    rule = Rule("racks", selectors.EVERYTHING, (HARD_RACK,))
    after = json_patch(before, deduction.patch(codec.convert(before, NewPod), rule, OWN))
    assert after["metadata"]["annotations"] == {"a": "b", DEFAULT_CONSTRAINTS: "racks"}
    (added,) = after["spec"].pop("topologySpreadConstraints")
    assert added == {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web", HASH: "5f7"}},
    }
    assert after["spec"] == before["spec"]
    assert deduction.is_left_alone(codec.convert({**after, "spec": {"topologySpreadConstraints": [added]}}, NewPod))


def test_keys_that_the_selector_holds_are_no_match_label_keys() -> None:
    """Rule 5: whether it holds them as labels or in expressions."""
    keys = (HASH, "app", "controller-revision-hash")
    rule = Rule("racks", selectors.EVERYTHING, (msgspec.structs.replace(HARD_RACK, match_label_keys=keys),))
    written = codec.convert(
        {"matchLabels": {HASH: "5f7"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}, LabelSelector
    )
    operations = deduction.patch(new(pod("p").labels(LABELS)), rule, written)
    assert operations[0]["value"][0]["matchLabelKeys"] == ["controller-revision-hash"]
