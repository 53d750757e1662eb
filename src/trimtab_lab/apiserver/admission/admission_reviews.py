"""AdmissionReview: the request that a webhook is sent, and the response that it returns."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from trimtab_lab.apiserver.kinds.errors import StatusError
from trimtab_lab.apiserver.storage.store import Tree

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
REVIEW_VERSIONS = ("v1", "v1beta1")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_OPTIONAL = ("subResource", "requestSubResource", "name", "namespace")


class CallError(Exception):
    """A webhook could not be reached, or did not respond with a valid AdmissionReview."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource in one version, such as `pods` of `/v1`, and the kind of its objects."""

    group: str
    version: str
    name: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """The `request` of an AdmissionReview. `object` and `old` have their `kind` and `apiVersion`.

    `sent_kind` is the type of the request's body where that is no object of the resource (`autoscaling/v1`, `Scale`).
    """

    operation: Operation
    resource: Resource
    object: Tree | None = None
    old: Tree | None = None
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: Tree = field(default_factory=dict)
    options: Tree | None = None
    dry_run: bool = False
    sent_kind: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ReviewResponse:
    """The `response` of an AdmissionReview; `denial` is set if the webhook denied the request."""

    denial: StatusError | None
    patch: list[Tree]
    warnings: list[str]


def build_review(review_version: str, uid: str, request: ReviewRequest, target: Resource) -> Tree:
    """The AdmissionReview for a request whose objects are in the version of `target`, the resource that matched."""
    resource = request.resource
    sent = _kind(request.sent_kind, resource)
    tree: Tree = {
        "uid": uid,
        "kind": _kind(request.sent_kind, target),
        "resource": _resource(target),
        "subResource": request.subresource,
        "requestKind": sent,
        "requestResource": _resource(resource),
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": request.user,
        "object": request.object,
        "oldObject": request.old,
        "dryRun": request.dry_run,
        "options": request.options or _default_options(request),
    }
    present = {key: value for key, value in tree.items() if value != "" or key not in _OPTIONAL}
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{review_version}", "request": present}


def _kind(sent_kind: tuple[str, str] | None, resource: Resource) -> Tree:
    if sent_kind is None:
        return {"group": resource.group, "version": resource.version, "kind": resource.kind}
    api_version, kind = sent_kind
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind}


def _resource(resource: Resource) -> Tree:
    return {"group": resource.group, "version": resource.version, "resource": resource.name}


def _default_options(request: ReviewRequest) -> Tree | None:
    kind = _OPTIONS.get(request.operation)
    if kind is None:
        return None
    options: Tree = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    return options | {"dryRun": ["All"]} if request.dry_run else options


def read_response(data: bytes, uid: str, name: str, review_version: str, *, mutating: bool) -> ReviewResponse:
    """The response of the webhook `name` to the review `uid`. Raises CallError if it is none."""
    try:
        review = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CallError(f"failed to call webhook: couldn't get version/kind; json parse error: {error}") from None
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    if review_version == "v1":
        _check_response(review, response, uid, mutating=mutating)
    patch = _read_patch(response) if mutating else []
    warnings = [str(text) for text in response.get("warnings") or ()]
    denial = None if response.get("allowed") is True else _denial(name, response.get("status"))
    return ReviewResponse(denial, patch, warnings)


def _invalid(problem: str) -> CallError:
    return CallError(f"received invalid webhook response: {problem}")


def _check_response(review: Tree, response: Tree, uid: str, *, mutating: bool) -> None:
    if response.get("uid") != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    api_version, kind = review.get("apiVersion", ""), review.get("kind", "")
    if (api_version, kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise _invalid(
            f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {api_version}, Kind={kind}"
        )
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating and (patch or patch_type is not None):
        raise _invalid(f"validating webhook may not return response.{'patch' if patch else 'patchType'}")
    if mutating and bool(patch) != (patch_type is not None):
        given, missing = ("patch", "patchType") if patch else ("patchType", "patch")
        raise _invalid(f"webhook returned response.{given} but not response.{missing}")
    if patch_type not in (None, "JSONPatch"):
        raise CallError(f'unsupported patch type "{patch_type}"')


def _read_patch(response: Tree) -> list[Tree]:
    encoded = response.get("patch")
    if not encoded:
        return []
    try:
        patch = msgspec.json.decode(base64.b64decode(encoded))
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, TypeError, ValueError) as error:
        raise CallError(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(patch, list):
        raise CallError("received undecodable patch in webhook response: it is not a list of operations")
    return patch


def _denial(name: str, result: Any) -> StatusError:
    """The Status of a denied request: that of the webhook, with the name of the webhook in its message."""
    status: Tree = dict(result) if isinstance(result, dict) else {}
    denied = f'admission webhook "{name}" denied the request'
    reason = status.get("message") or status.get("reason")
    status["message"] = f"{denied}: {reason}" if reason else f"{denied} without explanation"
    code = status.get("code")
    status["code"] = code if isinstance(code, int) and code >= 400 else 400
    if status.get("status") in (None, "", "Success"):
        status["status"] = "Failure"
    return StatusError({"kind": "Status", "apiVersion": "v1", "metadata": {}} | status)
