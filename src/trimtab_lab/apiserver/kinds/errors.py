"""API errors: a Kubernetes Status with code, reason, message and details.

`StatusError` is the exception that the server turns into a response. The functions below create the errors that
Kubernetes has a function for, with its messages.
"""

from __future__ import annotations

from typing import Any

from trimtab_lab.apiserver.kinds import validation
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.validation import Cause

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
REJECTED = "the server rejected our request due to an error in our request"

REASONS: dict[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The default reason of a code."""


class StatusError(Exception):
    """An error response; `status` is the Status object."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", ""))
        self.status = status

    @property
    def code(self) -> int:
        """The HTTP status code."""
        code: int = self.status["code"]
        return code

    @property
    def retry_after(self) -> int:
        """Seconds after which the client should retry; 0 if none are stated."""
        seconds: int = self.status.get("details", {}).get("retryAfterSeconds", 0)
        return seconds


def status_error(
    code: int, message: str, *, reason: str | None = None, details: dict[str, Any] | None = None, token: str = ""
) -> StatusError:
    """An error with this code. Its reason follows from the code unless one is given; an empty reason is left out."""
    reason = REASONS.get(code, "") if reason is None else reason
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {"continue": token} if token else {}}
    status |= {"status": "Failure", "message": message}
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = details
    return StatusError(status | {"code": code})


def success(**details: str) -> dict[str, Any]:
    """A Status of success, for responses without an object."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | {"details": details} if details else status


def bad_request(message: str) -> StatusError:
    """400: the request is malformed."""
    return status_error(400, message)


def unauthorized() -> StatusError:
    """401: the user is not authenticated."""
    return status_error(401, "Unauthorized")


def forbidden(kind: Kind, name: str, message: str, *causes: dict[str, str]) -> StatusError:
    """403: the request is valid but not allowed."""
    details = object_details(kind, name) | ({"causes": list(causes)} if causes else {})
    return status_error(403, f'{kind.group_resource} "{name}" is forbidden: {message}', details=details)


def path_not_found() -> StatusError:
    """404: nothing is served under the path."""
    return status_error(404, "the server could not find the requested resource", details={})


def method_not_allowed() -> StatusError:
    """405: the path does not support the method."""
    return status_error(405, "the server does not allow this method on the requested resource", details={})


def not_found(kind: Kind, name: str) -> StatusError:
    """404: the object does not exist."""
    return status_error(404, f'{kind.group_resource} "{name}" not found', details=object_details(kind, name))


def already_exists(kind: Kind, name: str, *, deleting: bool = False) -> StatusError:
    """409: an object with the name exists."""
    message = f'{kind.group_resource} "{name}" already exists'
    prefix = "object is being deleted: " if deleting else ""
    return status_error(409, prefix + message, reason="AlreadyExists", details=object_details(kind, name))


def conflict(kind: Kind, name: str, message: str = MODIFIED, *, resource: str = "") -> StatusError:
    """409: the object is not in the state that the client expects. Some messages name the kind instead of the
    resource."""
    named = resource or kind.plural
    full = f"{named}.{kind.group}" if kind.group else named
    details = object_details(kind, name) | {"kind": named}
    return status_error(409, f'Operation cannot be fulfilled on {full} "{name}": {message}', details=details)


def invalid(group: str, kind: str, name: str, causes: list[Cause]) -> StatusError:
    """422: the object is invalid; every cause names a field."""
    return StatusError(validation.invalid(group, kind, name, causes))


def invalid_options(kind: str, causes: list[Cause]) -> StatusError:
    """422: the options of a request are invalid."""
    return invalid("meta.k8s.io", kind, "", causes)


def internal_error(message: str) -> StatusError:
    """500: an error of the server, or of a webhook that it depends on."""
    details = {"causes": [{"message": message}]}
    return status_error(500, f"Internal error occurred: {message}", reason="InternalError", details=details)


def object_details(kind: Kind, name: str) -> dict[str, Any]:
    """The details that name an object. Kubernetes puts the resource where one expects the kind."""
    details = {"name": name} if name else {}
    return details | ({"group": kind.group} if kind.group else {}) | {"kind": kind.plural}
