"""Which reviews are requests to shrink, and what they say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.lab.rollouts import KIND, OWNERS
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionReview
from trimtab.api.errors import InvalidError
from trimtab.install import reviews
from trimtab.install.options import Options
from trimtab.scaledown.intent.requests import HoldResult, ScaleDownRequest
from trimtab.scaledown.intent.reviews import ScaleReviews, scale_down_request
from trimtab.scaledown.metrics import HoldOutcome

JSON = dict[str, Any]


def workload(replicas: int | None, *, template: JSON | None = None, named: Any = (), **metadata: Any) -> JSON:
    """A workload as a review shows it; `named` are pods that a CloneSet is to delete."""
    spec = {"replicas": replicas, "template": template or {"spec": {"containers": []}}}
    spec |= {"scaleStrategy": {"podsToDelete": list(named)}} if named else {}
    return {"metadata": {"name": "web", "namespace": "shop", "uid": "u1", **metadata}, "spec": spec}


def scale(replicas: int | None) -> JSON:
    """A Scale; what is 0 is left out."""
    spec = {"replicas": replicas} if replicas else {}
    return {"kind": "Scale", "metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec}


def review(
    old: JSON | None,
    new: JSON | None,
    *,
    resource: str = "deployments",
    group: str = "apps",
    sub: str = "",
    operation: str = "UPDATE",
    dry_run: bool = False,
    name: str = "web",
) -> AdmissionRequest:
    """A review as an API server sends it."""
    tree = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r1",
            "resource": {"group": group, "version": "v1", "resource": resource},
            "subResource": sub,
            "name": name,
            "namespace": "shop",
            "operation": operation,
            "userInfo": {"username": "jane"},
            "oldObject": old,
            "object": new,
            "dryRun": dry_run,
        },
    }
    request = codec.decode(codec.encode(tree), AdmissionReview).request
    assert request is not None
    return request


SHRINKS = ScaleDownRequest("Deployment", "shop", "web", "u1", 5, 3, "jane")
OWNED: JSON = {"ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "d", "controller": True}]}
MANAGED: JSON = {"ownerReferences": [{"kind": "Rollout", "name": "web", "uid": "d", "controller": True}]}
OTHER = {"spec": {"containers": [{"name": "new"}]}}


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(review(workload(5), workload(3)), SHRINKS, id="an update that makes it smaller"),
        pytest.param(review(scale(5), scale(3), sub="scale"), SHRINKS, id="a smaller scale"),
        pytest.param(review(workload(5), workload(3), name=""), SHRINKS, id="one that is named by its object alone"),
        pytest.param(review(workload(5), workload(5)), None, id="an update of something else"),
        pytest.param(review(workload(3), workload(5)), None, id="an update that makes it larger"),
        pytest.param(review(scale(3), scale(5), sub="scale"), None, id="a larger scale"),
        pytest.param(review(workload(5), workload(3), dry_run=True), None, id="a dry run"),
        pytest.param(review(None, workload(3), operation="CREATE"), None, id="a creation"),
        pytest.param(review(workload(5), None, operation="DELETE"), None, id="a deletion"),
        pytest.param(review(workload(5), workload(3), sub="status"), None, id="a status"),
        pytest.param(review(workload(5), workload(3, template=OTHER)), None, id="a rollout"),
        pytest.param(
            review(workload(5, template={"a": 1, "b": None}), workload(3, template={"a": 1})),
            SHRINKS,
            id="a template that says the same in other words",
        ),
        pytest.param(
            review(workload(5, **OWNED), workload(3, **OWNED), resource="replicasets"),
            None,
            id="a Deployment's own write",
        ),
        pytest.param(
            review(workload(5, **MANAGED), workload(3, **MANAGED), resource="replicasets"),
            ScaleDownRequest("ReplicaSet", "shop", "web", "u1", 5, 3, "jane"),
            id="a ReplicaSet of some other controller",
        ),
        pytest.param(
            review(workload(5, deletionTimestamp="2026-01-01T00:00:00Z"), workload(3)), None, id="one that is going"
        ),
        pytest.param(review(workload(5), workload(3), resource="statefulsets"), None, id="a kind that chooses itself"),
        pytest.param(review(workload(5), workload(3), group="other"), None, id="another group's deployments"),
        pytest.param(
            review(scale(5), scale(None), sub="scale"),
            ScaleDownRequest("Deployment", "shop", "web", "u1", 5, 0, "jane"),
            id="to 0",
        ),
        pytest.param(
            review(workload(5), workload(None)),
            ScaleDownRequest("Deployment", "shop", "web", "u1", 5, 1, "jane"),
            id="to unsaid",
        ),
        pytest.param(review({"spec": {"replicas": "five"}}, workload(3)), None, id="what cannot be read"),
        pytest.param(
            review(workload(5), workload(3), resource="replicationcontrollers", group=""),
            ScaleDownRequest("ReplicationController", "shop", "web", "u1", 5, 3, "jane"),
            id="a ReplicationController",
        ),
        pytest.param(
            review(scale(5), scale(3), sub="scale", resource="clonesets", group="apps.kruise.io"),
            ScaleDownRequest("CloneSet", "shop", "web", "u1", 5, 3, "jane"),
            id="a CloneSet",
        ),
        pytest.param(
            review(workload(5), workload(3, named=["web-x"]), resource="clonesets", group="apps.kruise.io"),
            None,
            id="a CloneSet whose user says who goes",
        ),
        pytest.param(
            review(
                workload(5, named=["web-x"]),
                workload(3, named=["web-x"]),
                resource="clonesets",
                group="apps.kruise.io",
            ),
            ScaleDownRequest("CloneSet", "shop", "web", "u1", 5, 3, "jane"),
            id="a CloneSet whose user has said before who goes",
        ),
    ],
)
def test_which_reviews_are_requests_to_scale_down(request_: AdmissionRequest, want: ScaleDownRequest | None) -> None:
    """Only what makes a workload smaller, and is not another's to decide."""
    assert scale_down_request(request_) == want


ROLLOUT: JSON = {
    "ownerReferences": [
        {"apiVersion": "rollouts.example.com/v1", "kind": "Rollout", "name": "web", "uid": "d", "controller": True}
    ]
}


def test_an_update_of_what_cannot_be_read_is_an_error() -> None:
    """Whether the workload shrinks is unknown: the server admits it without a decision."""
    with pytest.raises(InvalidError, match=r"^request\.oldObject: cannot be read"):
        scale_down_request(review(None, workload(3)))
    assert scale_down_request(review(None, workload(3), operation="CREATE")) is None
    assert scale_down_request(review(None, None)) is None


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(
            review(scale(5), scale(3), sub="scale", resource="rollouts", group=KIND.group),
            ScaleDownRequest("Rollout", "shop", "web", "u1", 5, 3, "jane"),
            id="a smaller scale",
        ),
        pytest.param(
            review(workload(5), workload(3), resource="rollouts", group=KIND.group),
            ScaleDownRequest("Rollout", "shop", "web", "u1", 5, 3, "jane"),
            id="an update that makes it smaller",
        ),
        pytest.param(
            review(workload(5), workload(3, template=OTHER), resource="rollouts", group=KIND.group),
            None,
            id="a rollout",
        ),
        pytest.param(review(scale(5), scale(3), sub="scale", resource="rollouts"), None, id="another group's"),
        pytest.param(
            review(workload(5, **ROLLOUT), workload(3, **ROLLOUT), resource="replicasets"),
            None,
            id="its controller's own write, whichever version it names",
        ),
        pytest.param(
            review(workload(5, **MANAGED), workload(3, **MANAGED), resource="replicasets"),
            ScaleDownRequest("ReplicaSet", "shop", "web", "u1", 5, 3, "jane"),
            id="a ReplicaSet of another group's Rollout",
        ),
    ],
)
def test_reviews_of_a_kind_that_the_configuration_names(
    request_: AdmissionRequest, want: ScaleDownRequest | None
) -> None:
    """They are read as those of a Deployment; without the configuration, Trimtab knows nothing of them."""
    assert scale_down_request(request_, OWNERS) == want
    if want is not None and want.kind == "Rollout":
        assert scale_down_request(request_) is None


RESULT = HoldResult(HoldOutcome.PLANNED, ("kept 1/1/1; stock would leave 2/1/0",))


async def test_the_warnings_are_in_the_response() -> None:
    """As a warning, which kubectl prints; the request is admitted."""
    seen = []

    async def hold(intent: ScaleDownRequest) -> HoldResult:
        seen.append(intent)
        return RESULT

    (hook,) = ScaleReviews(hold).hooks
    response = await hook.decide(review(workload(5), workload(3)))
    assert (response.uid, response.allowed, response.warnings) == ("r1", True, RESULT.warnings)
    assert seen == [SHRINKS]


async def test_a_request_to_scale_down_has_the_arrival_of_its_review() -> None:
    """From which its budget counts."""
    seen = []

    async def hold(intent: ScaleDownRequest) -> HoldResult:
        seen.append(intent.arrived)
        return RESULT

    (hook,) = ScaleReviews(hold).hooks
    await hook.decide(msgspec.structs.replace(review(workload(5), workload(3)), arrived=7))
    assert seen == [7]


def test_the_hook_is_served_where_the_webhook_configuration_points() -> None:
    """Its name and path are in the objects of an installation, and in the metrics."""

    async def hold(intent: ScaleDownRequest) -> HoldResult:
        raise AssertionError(intent)

    (hook,) = ScaleReviews(hold, budget=2.0).hooks
    assert (hook.name, hook.path, hook.budget) == ("scale", "/scale", 1.98)
    assert "did not plan this scale-down" in hook.skip_warning
    printed = reviews.configurations(Options().read(), reviews.by_url("https://trimtab.invalid"), labels={})
    urls = [webhook["clientConfig"]["url"] for each in printed for webhook in each["webhooks"]]
    assert f"https://trimtab.invalid{hook.path}" in urls


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(review(workload(3), workload(5)), id="a larger size"),
        pytest.param(review(None, workload(3), operation="CREATE"), id="a creation"),
        pytest.param(review(workload(5), None, operation="DELETE"), id="a deletion"),
    ],
)
async def test_other_reviews_are_admitted_at_once(request_: AdmissionRequest) -> None:
    """Without holding them."""

    async def hold(intent: ScaleDownRequest) -> HoldResult:
        raise AssertionError(intent)

    (hook,) = ScaleReviews(hold).hooks
    response = await hook.decide(request_)
    assert response.allowed
    assert response.warnings == ()
