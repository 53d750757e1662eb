"""One webhook for several features that change the same objects, so that a request is sent once and has one budget.

Each step reviews the object as the steps before it have changed it. A step that is not ready or fails is skipped and
reported, and what the other steps have changed is kept. If no step has changed anything, a failure is raised: the
server counts it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from trimtab.admission.metrics import ReviewOutcome
from trimtab.admission.server import Hook, OnSkip, size_of
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.documents import JSON, Document
from trimtab.api.patches import json_patch
from trimtab.kube.threads import read_beside

log = logging.getLogger(__name__)


def chain(name: str, path: str, steps: Sequence[Hook], on_skip: OnSkip) -> Hook:
    """The hook of several steps; its budget is the longest of theirs."""
    return Hook(
        name,
        path,
        Chain(steps, on_skip).decide,
        max(step.budget for step in steps),
        is_ready=lambda: any(step.is_ready() for step in steps),
    )


class Chain:
    """Steps that review the same request, one after the other."""

    def __init__(self, steps: Sequence[Hook], on_skip: OnSkip) -> None:
        self._steps = steps
        self._on_skip = on_skip

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """The answer of the first step that refuses; or else one that admits, with the changes of all steps."""
        changes: list[JSON] = []
        warnings: list[str] = []
        failure: Exception | None = None
        for step in self._steps:
            if not step.is_ready():
                self._on_skip(step, request, "the caches have not synced yet", ReviewOutcome.NOT_READY)
                continue
            try:
                response = await step.decide(request)
            except Exception as error:
                log.exception("the %s hook failed for %s/%s", step.name, request.namespace, request.name)
                self._on_skip(step, request, f"{type(error).__name__}: {error}", ReviewOutcome.FAILED)
                failure = error
                continue
            warnings += response.warnings
            if not response.allowed:
                return response
            if response.patch is not None:
                size = len(response.patch) + size_of(request)
                operations, request = await read_beside(size, _changed, request, response.patch)
                changes += operations
        if failure is not None and not changes:
            raise failure
        return _admitted(request, changes, warnings)


def _changed(request: AdmissionRequest, patch: bytes) -> tuple[list[JSON], AdmissionRequest]:
    """The operations of a patch, and the request with its object as they change it."""
    operations: list[JSON] = msgspec.json.decode(patch)
    if request.object is None:
        return operations, request
    changed = Document(json_patch(request.object.tree(), operations))
    return operations, msgspec.structs.replace(request, object=changed)


def _admitted(request: AdmissionRequest, changes: list[JSON], warnings: Sequence[str]) -> AdmissionResponse:
    if not changes:
        return AdmissionResponse(uid=request.uid, allowed=True, warnings=tuple(warnings))
    return AdmissionResponse(
        uid=request.uid,
        allowed=True,
        patch=codec.encode(changes),
        patch_type="JSONPatch",
        warnings=tuple(warnings),
    )
