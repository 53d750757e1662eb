"""Several hooks as one: each sees what the ones before have changed, and none loses what the others did."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.admission.chains import chain
from trimtab.admission.metrics import ReviewOutcome
from trimtab.admission.server import Hook, admitted
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.documents import Document

JSON = dict[str, Any]
REQUEST = AdmissionRequest(uid="u", operation="CREATE", object=Document({"spec": {"a": 1}}))


class Skips(list[tuple[str, ReviewOutcome]]):
    """The steps that were skipped."""

    def __call__(self, hook: Hook, _: AdmissionRequest, reason: str, outcome: ReviewOutcome) -> None:
        assert reason
        self.append((hook.name, outcome))


def setting(name: str, field: str, *, ready: bool = True) -> Hook:
    """A hook that sets a field to how many fields there are."""

    async def decide(request: AdmissionRequest) -> AdmissionResponse:
        assert request.object is not None
        count = len(request.object.tree()["spec"])
        patch = codec.encode([{"op": "add", "path": f"/spec/{field}", "value": count}])
        return AdmissionResponse(uid=request.uid, allowed=True, patch=patch, patch_type="JSONPatch", warnings=(name,))

    return Hook(name, f"/{name}", decide, 1.0, is_ready=lambda: ready)


async def _fail(_: AdmissionRequest) -> AdmissionResponse:
    raise ValueError("a bug")


async def _admit(request: AdmissionRequest) -> AdmissionResponse:
    return admitted(request)


FAILING = Hook("failing", "/failing", _fail, 2.0)
IDLE = Hook("idle", "/idle", _admit, 0.5)


async def patched(*steps: Hook) -> tuple[list[JSON], Skips]:
    """The operations of the answer, and the steps that were skipped."""
    skips = Skips()
    response = await chain("pods", "/pods", steps, skips).decide(REQUEST)
    assert response.allowed
    return msgspec.json.decode(response.patch or b"[]"), skips


async def test_a_step_sees_what_the_earlier_ones_have_changed() -> None:
    """The patches are applied in the same order by the API server."""
    operations, skips = await patched(setting("one", "b"), IDLE, setting("two", "c"))
    assert [(each["path"], each["value"]) for each in operations] == [("/spec/b", 1), ("/spec/c", 2)]
    assert skips == []


async def test_a_step_that_fails_or_is_not_ready_is_skipped_and_reported() -> None:
    """What the other steps have changed is kept."""
    operations, skips = await patched(setting("one", "b"), FAILING, setting("late", "d", ready=False))
    assert [each["path"] for each in operations] == ["/spec/b"]
    assert skips == [("failing", ReviewOutcome.FAILED), ("late", ReviewOutcome.NOT_READY)]


async def test_a_failure_is_raised_where_nothing_is_changed() -> None:
    """The server counts it and admits the request."""
    with pytest.raises(ValueError, match="a bug"):
        await patched(FAILING, IDLE)


async def test_a_chain_is_ready_with_its_first_step_and_has_one_budget() -> None:
    """One feature does not wait for another."""
    made = chain("pods", "/pods", [setting("late", "d", ready=False), IDLE], Skips())
    assert made.is_ready()
    assert made.budget == 1.0
    assert not chain("pods", "/pods", [setting("late", "d", ready=False)], Skips()).is_ready()


async def test_a_refusal_ends_the_chain() -> None:
    """Later steps reserve nothing for an object that is not stored."""

    async def refuse(request: AdmissionRequest) -> AdmissionResponse:
        return AdmissionResponse(uid=request.uid, allowed=False)

    steps = [Hook("refusing", "/refusing", refuse, 1.0), FAILING]
    assert not (await chain("pods", "/pods", steps, Skips()).decide(REQUEST)).allowed
