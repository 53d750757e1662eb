"""What an API server asks a webhook, and what it is answered (`admission.k8s.io/v1`); and the Status it answers others.

The objects under review stay raw: what is admitted must keep every field.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from trimtab.api.documents import Document
from trimtab.api.meta import ListMeta
from trimtab.api.model import Model


class StatusCause(Model):
    """One of the reasons of a refusal, and the field that it is about."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Model):
    """Which object a Status is about, its causes, and when to come back."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Model):
    """How a request ended, where it did not end with an object."""

    api_version: str = "v1"
    kind: str = "Status"
    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class GroupVersionKind(Model):
    """Names a kind."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(Model):
    """Names a resource."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Model):
    """Who asks."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class AdmissionRequest(Model):
    """A request that an API server wants to have looked at."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = UserInfo()
    object: Document | None = None
    old_object: Document | None = None
    dry_run: bool = False
    options: Document | None = None


class AdmissionResponse(Model):
    """The answer: whether, with which patch (base64 of a JSON patch), and what to tell the user."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch: bytes | None = None
    patch_type: Literal["JSONPatch"] | None = None
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = {}


class AdmissionReview(Model, omit_defaults=False):
    """The envelope of both; its type must always be stated."""

    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"
    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None


def answer(response: AdmissionResponse) -> dict[str, Any]:
    """The review that carries a response, as plain values: `allowed` is stated even when it is false."""
    body = msgspec.to_builtins(response, enc_hook=lambda value: msgspec.Raw(value.text))
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": body}
