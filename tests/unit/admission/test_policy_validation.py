"""The hook that validates ScaleDownPolicies: bad ones are refused with the field and what to write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kube.fakes import ScriptedTransport
from trimtab.admission.validation import Validation, checks
from trimtab.api.admission import AdmissionRequest, AdmissionResponse, GroupVersionKind
from trimtab.api.documents import Document
from trimtab.kube.client import Client
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.ranking.strategies.age import Youngest

KIND = GroupVersionKind(group="trimtab.dev", version="v1alpha1", kind="ScaleDownPolicy")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CLONESET = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}


async def review(
    spec: dict[str, Any], *, old: dict[str, Any] | None = None, strategies: dict[str, Factory] | None = None
) -> AdmissionResponse:
    """The answer to a review of a policy."""
    metadata = {"name": "web", "namespace": "default"}
    request = AdmissionRequest(
        uid="u",
        kind=KIND,
        name="web",
        namespace="default",
        operation="CREATE" if old is None else "UPDATE",
        object=Document({"metadata": metadata, "spec": spec}),
        old_object=None if old is None else Document({"metadata": metadata, "spec": old}),
    )
    found = checks() if strategies is None else checks({**STRATEGIES, **strategies})
    return await Validation(Client(ScriptedTransport()), found).decide(request)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"targetRef": TARGET}, id="one that keeps pods level"),
        pytest.param({"selector": {"matchLabels": {"app": "web"}}, "delivery": "Continuous"}, id="by a selector"),
        pytest.param(
            {
                "targetRef": TARGET,
                "strategies": [{"name": "Balance", "threshold": 9}, {"name": "Probe", "threshold": 9, "weight": 3}],
            },
            id="several strategies, each with a threshold",
        ),
        pytest.param(
            {"targetRef": TARGET, "strategies": [{"name": "AntiAffinity"}]}, id="recomputed ranks, on scale intent"
        ),
        pytest.param(
            {"targetRef": CLONESET, "strategies": [{"name": "AntiAffinity"}], "delivery": "Continuous"},
            id="recomputed ranks that a CloneSet waits for",
        ),
        pytest.param(
            {
                "targetRef": TARGET,
                "strategies": [{"name": "AntiAffinity"}],
                "delivery": "Continuous",
                "carrier": "PodGroupCost",
            },
            id="recomputed ranks for another program",
        ),
    ],
)
async def test_a_good_policy_is_admitted(spec: dict[str, Any]) -> None:
    """Without a word."""
    assert (await review(spec)).allowed


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        pytest.param({}, "spec", "write a targetRef or a selector", id="no target"),
        pytest.param(
            {"targetRef": TARGET, "strategies": [{"name": "Balanced"}]},
            "spec.strategies[0].name",
            '"Balanced" is not a strategy; known are AntiAffinity, Balance,',
            id="an unknown strategy",
        ),
        pytest.param(
            {"targetRef": TARGET, "strategies": [{"name": "Balance", "weight": -1}]},
            "spec.strategies[0].weight",
            ">= 1",
            id="a negative weight",
        ),
        pytest.param(
            {"targetRef": TARGET, "strategies": [{"name": "Balance"}, {"name": "Taints", "threshold": 1}]},
            "spec.strategies[0].threshold",
            "is required with several strategies",
            id="several strategies without thresholds",
        ),
        pytest.param(
            {"targetRef": {**TARGET, "kind": "StatefulSet"}},
            "spec.targetRef.kind",
            "removes its highest ordinal first",
            id="a StatefulSet",
        ),
        pytest.param(
            {"targetRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "x"}},
            "spec.targetRef.kind",
            "does not choose its victims by cost",
            id="a Job",
        ),
        pytest.param(
            {"targetRef": TARGET, "strategies": [{"name": "Probe", "args": {"path": "http://elsewhere/"}}]},
            "spec.strategies[0].args.path",
            "is not a plain path",
            id="a probe of another host",
        ),
        pytest.param(
            {"selector": {"matchLabels": {"a b": "c"}}},
            "spec.selector.matchLabels[a b]",
            "is not a label key",
            id="a selector that no pod can match",
        ),
        pytest.param(
            {"targetRef": TARGET, "strategies": [{"name": "AntiAffinity"}], "delivery": "Continuous"},
            "spec.delivery",
            "cannot be used with AntiAffinity: the ranks must be recomputed after each removal, and the controller of "
            "a Deployment does not wait for that; write OnScaleIntent, or a targetRef that names a CloneSet",
            id="recomputed ranks that no controller waits for",
        ),
        pytest.param(
            {
                "selector": {"matchLabels": {"app": "web"}},
                "strategies": [{"name": "Balance", "threshold": 9}, {"name": "Scheduled", "threshold": 100}],
                "delivery": "Continuous",
            },
            "spec.delivery",
            "cannot be used with Scheduled: the ranks must be recomputed after each removal, and the controller of a "
            "built-in kind does not wait",
            id="the same for whatever a selector matches",
        ),
    ],
)
async def test_a_bad_policy_is_refused(spec: dict[str, Any], field: str, words: str) -> None:
    """With the field that is wrong, and what to write there."""
    response = await review(spec)
    assert not response.allowed
    assert response.status is not None
    assert response.status.details is not None
    assert [cause.field for cause in response.status.details.causes] == [field]
    assert words in response.status.details.causes[0].message


async def test_a_strategy_of_an_installed_package_is_known() -> None:
    """Policies may name what the process was given."""
    spec = {"targetRef": TARGET, "strategies": [{"name": "Mine"}]}
    assert not (await review(spec)).allowed
    assert (await review(spec, strategies={"Mine": Youngest.configured})).allowed


async def test_a_bad_policy_that_is_there_can_still_be_labelled() -> None:
    """A change outside the spec is not validated."""
    assert (await review({}, old={})).allowed
