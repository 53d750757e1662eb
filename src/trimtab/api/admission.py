"""Admission reviews (`admission.k8s.io/v1`), and the Status of a failed request.

The objects under review stay raw: they must keep every field. Only `metadata.managedFields`, which nothing reads, is
left out where it is nested too deep: the rest of such an object can be decided about.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from trimtab.api import codec, complexity
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ListMeta
from trimtab.api.model import Model


class StatusCause(Model):
    """One cause of a failure, and its field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Model):
    """The object of a Status, the causes, and when to retry."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Model):
    """The result of a request that does not return an object."""

    api_version: str = "v1"
    kind: str = "Status"
    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class GroupVersionKind(Model):
    """The identity of a kind."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(Model):
    """The identity of a resource."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Model):
    """The user of a request."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class AdmissionRequest(Model):
    """A request under review."""

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
    arrived: int | None = None
    """When its first byte arrived, on the monotonic clock of the server. Not part of a review: the server sets it,
    whatever a review says."""


class AdmissionResponse(Model):
    """The response: whether the request is allowed, a JSON patch (base64), and warnings for the user."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch: bytes | None = None
    patch_type: Literal["JSONPatch"] | None = None
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = {}


class AdmissionReview(Model, omit_defaults=False):
    """The envelope of request and response; apiVersion and kind are always written."""

    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"
    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None


class _WireRequest(AdmissionRequest):
    """A request whose objects are not decoded: they may be large, and a hook reads a few fields of them."""

    object: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]
    old_object: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]
    options: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


class _WireReview(Model):
    api_version: str = ""
    kind: str = ""
    request: _WireRequest | None = None


class UnreadableObjectError(InvalidError):
    """A review of an object that is too complex, or is not an object. `request` has everything else.

    `was_stored` is whether an object is updated that already was: its finalizers must be removable.
    """

    def __init__(self, path: str, reason: str, request: AdmissionRequest, *, was_stored: bool = False) -> None:
        super().__init__(path, reason)
        self.request = request
        self.was_stored = was_stored


def read_review(body: bytes) -> AdmissionRequest:
    """The request of a review. Raises InvalidError with the path of the wrong value, or UnreadableObjectError."""
    review = _decoded(body)
    if (review.api_version, review.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise InvalidError("apiVersion", f'"{review.api_version}" is not admission.k8s.io/v1')
    if review.request is None:
        raise InvalidError("request", "is missing")
    return _with_documents(review.request) if isinstance(review.request, _WireRequest) else review.request


def read_head(body: bytes) -> AdmissionRequest | None:
    """The request of a review without its objects, which API servers write behind all that identifies it.

    None if there is no such head. It is short: what is longer is not read.
    """
    end = body.find(b',"object":', 0, _HEAD)
    if end < 0:
        return None
    try:
        review = codec.decode_exactly(body[:end] + b"}}", _WireReview)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if review.request is None else _with_documents(review.request)


_HEAD = 1 << 14
"""Bytes in which the objects of a review begin. Names are short; of a user's groups there may be hundreds."""


def _decoded(body: bytes) -> _WireReview | AdmissionReview:
    """A review. One that does not fit is searched for the reason, unless it is large: no API server sends it."""
    try:
        try:
            return codec.decode_exactly(body, _WireReview)
        except RecursionError:
            return codec.decode_exactly(complexity.cut(body), _WireReview)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if len(body) > _SEARCHED:
            raise InvalidError("", f"cannot be read: {error}") from error
    return codec.decode(body, AdmissionReview)


_SEARCHED = 65_536
"""Bytes of a review up to which the reason is searched for."""


def _with_documents(wire: _WireRequest) -> AdmissionRequest:
    fields = msgspec.structs.asdict(wire)
    raws = {name: bytes(fields.pop(name)) for name in ("object", "old_object", "options")}
    problems: dict[str, str] = {}
    for name, raw in raws.items():
        try:
            fields[name] = None if raw == b"null" else _document(raw)
        except ValueError as error:
            fields[name], problems[name] = None, str(error)
    # An object that was stored before there were limits, or while there was no webhook, may be corrected.
    was_stored = wire.operation == "UPDATE" and problems.pop("old_object", "") != ""
    for name, problem in problems.items():
        left = AdmissionRequest(**{**fields, **dict.fromkeys(raws)})
        raise UnreadableObjectError(f"request.{name}", problem, left, was_stored=was_stored)
    return AdmissionRequest(**fields)


def _document(raw: bytes) -> Document:
    try:
        return Document.of_text(raw)
    except ValueError as error:
        if str(error) != complexity.TOO_DEEP:
            raise
    return Document.of_text(_without_managed_fields(raw))


def _without_managed_fields(raw: bytes) -> bytes:
    """An object without `metadata.managedFields`. What else is too deep is shortened, and still too deep."""
    try:
        whole = codec.decode_exactly(complexity.cut(raw), _PARTS)
        metadata = codec.decode_exactly(whole["metadata"], _PARTS)
        del metadata["managedFields"]
    except (KeyError, msgspec.DecodeError):
        return raw
    return codec.encode({**whole, "metadata": metadata})


_PARTS = dict[str, msgspec.Raw]


def answer(response: AdmissionResponse) -> dict[str, Any]:
    """The review with a response, as plain values: `allowed` is written even if it is false."""
    body = msgspec.to_builtins(response, enc_hook=lambda value: msgspec.Raw(value.text))
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": body}
