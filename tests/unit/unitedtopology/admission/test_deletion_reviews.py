"""Reviews of deletions and evictions: which are announced, and what becomes of the announcement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.unit.unitedtopology.admission.test_pod_reviews import WebhookProcess, review
from tests.unit.unitedtopology.admission.test_status_batcher import PODS, pod, topology
from trimtab.api.admission import AdmissionRequest
from trimtab.api.annotations import SubsetAnnotations
from trimtab.unitedtopology.admission.deletion_reviews import CHECK_AFTER, is_dry_run


@pytest.fixture
async def process() -> AsyncIterator[WebhookProcess]:
    """A webhook process."""
    running = WebhookProcess(None)
    yield running
    await running.close()


async def create_counted(process: WebhookProcess, **metadata: Any) -> None:
    """Create a UnitedTopology whose first subset has one pod, by its status."""
    divided = topology(1, -1)
    divided["metadata"] |= metadata
    divided["status"]["subsetStatuses"][0] = {"name": "a", "replicas": 1}
    await process.create_topology(divided)


def eviction(by_request: str, by_body: str) -> AdmissionRequest:
    """The review of an eviction; it does not contain the pod, only its name."""
    return review("CREATE", {"metadata": {"name": by_body, "namespace": "shop"}}, name=by_request, sub="eviction")


async def test_a_deletion_is_announced_and_checked_later(process: WebhookProcess) -> None:
    """The pod still exists: after a while the entry is reverted."""
    await create_counted(process)
    stored = process.server.put(*PODS, pod("p"))
    assert (await process.ask(review("DELETE", stored, name="p"), 1)).allowed
    assert list(process.row["deleting"]) == ["p"]
    await process.clock.advance(CHECK_AFTER)
    await process.until(lambda: not process.row.get("deleting"))
    assert not process.subsets._deletions._checks  # noqa: SLF001 - a leak shows nowhere else


async def test_a_check_that_is_pending_is_left_to_the_controller(process: WebhookProcess) -> None:
    """When the process ends, it writes nothing more."""
    await create_counted(process)
    stored = process.server.put(*PODS, pod("p"))
    await process.ask(review("DELETE", stored, name="p"), 1)
    await process.close()
    process.server.requests.clear()
    await process.clock.advance(2 * CHECK_AFTER)
    assert process.server.requests == []


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(eviction("p", "p"), id="named by the request"),
        pytest.param(eviction("p", "q"), id="rather than by the body"),
        pytest.param(eviction("", "p"), id="or by the body alone"),
    ],
)
async def test_an_eviction_is_announced(process: WebhookProcess, request_: AdmissionRequest) -> None:
    """The review shows no pod, so it is read."""
    await create_counted(process)
    process.server.put(*PODS, pod("p"))
    assert (await process.ask(request_, 1)).allowed
    assert list(process.row["deleting"]) == ["p"]


OTHER = SubsetAnnotations("other", "a", "of-p").written()
GONE = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(review("DELETE", pod("p"), dryRun=True), id="a dry run"),
        pytest.param(review("UPDATE", pod("p")), id="another operation"),
        pytest.param(review("CREATE", pod("p")), id="a creation"),
        pytest.param(review("CREATE", pod("p"), name="p", sub="binding"), id="a binding"),
        pytest.param(review("DELETE", pod("p"), sub="status"), id="a subresource"),
        pytest.param(review("DELETE", pod("p", deletionTimestamp=GONE)), id="a pod that is terminating"),
        pytest.param(review("DELETE", {**pod("p"), "status": {"phase": "Failed"}}), id="a pod that has finished"),
        pytest.param(review("DELETE", pod("p", annotations={})), id="a pod without annotations"),
        pytest.param(review("DELETE", pod("p", annotations=OTHER)), id="a pod of another UnitedTopology"),
        pytest.param(review("DELETE", pod("p"), namespace="other"), id="a namespace without any UnitedTopology"),
        pytest.param(eviction("p", "p"), id="an eviction of a pod that does not exist"),
        pytest.param(review("CREATE", {"metadata": None}, sub="eviction"), id="an eviction without a name"),
    ],
)
async def test_other_requests_are_admitted_without_an_announcement(
    process: WebhookProcess, request_: AdmissionRequest
) -> None:
    """Nothing is written, and pods are read for evictions only."""
    await create_counted(process)
    process.server.requests.clear()
    assert (await process.ask(request_, 1)).allowed
    assert not process.row.get("deleting")
    allowed = {"GET"} if request_.sub_resource == "eviction" else set()
    assert {request.method for request in process.server.requests} <= allowed


async def test_nothing_is_announced_to_a_united_topology_that_is_being_deleted(process: WebhookProcess) -> None:
    """No pod will be assigned by it any more."""
    await create_counted(process, deletionTimestamp=GONE)
    stored = process.server.put(*PODS, pod("p"))
    process.server.requests.clear()
    assert (await process.ask(review("DELETE", stored, name="p"), 1)).allowed
    assert process.server.requests == []


@pytest.mark.parametrize(
    ("request_of", "want"),
    [
        pytest.param(lambda: review("DELETE", pod("p")), False, id="a deletion"),
        pytest.param(lambda: review("DELETE", pod("p"), dryRun=True), True, id="by the review"),
        pytest.param(lambda: review("DELETE", pod("p"), options={"dryRun": ["All"]}), True, id="by the options"),
        pytest.param(
            lambda: review("CREATE", {"deleteOptions": {"dryRun": ["All"]}}, sub="eviction"),
            True,
            id="by the eviction's body",
        ),
        pytest.param(
            lambda: review("CREATE", {"deleteOptions": {"dryRun": ["All"]}}, sub="eviction", options={}),
            True,
            id="by the eviction's body, whatever the options are",
        ),
        pytest.param(lambda: review("CREATE", {"deleteOptions": None}, sub="eviction"), False, id="an eviction"),
        pytest.param(
            lambda: review("CREATE", {"deleteOptions": {"dryRun": ["All"]}}),
            False,
            id="an object that is no eviction",
        ),
    ],
)
def test_dry_runs_are_recognized(request_of: Callable[[], AdmissionRequest], want: bool) -> None:
    """By any of the fields that can say so."""
    assert is_dry_run(request_of()) is want
