"""The error tree, by what an error means to the caller.

```
KubeError
├── ConfigError            the configuration cannot be used
│   └── CredentialsError   … because it gives no credentials (a plugin fails, a token file is missing)
├── LeadershipLost         this process no longer holds the lease
└── ApiError               a call failed
    ├── Unreachable        no response: `sent` says whether the server may have received the request
    │   └── Untrusted      the server's certificate is not trusted
    ├── Malformed          the response is not what Kubernetes sends
    ├── IncompleteSweep    some of many objects could not be changed
    ├── BadRequest 400 · Unauthorized 401 · Forbidden 403 · NotFound 404 (InvalidName) · MethodNotAllowed 405
    ├── AlreadyExists 409 · Conflict 409 · Gone 410 · TooLarge 413 · UnsupportedMediaType 415
    ├── Invalid 422        with `causes`, one for each field
    ├── TooManyRequests 429
    └── ServerError 500 ── ServiceUnavailable 503 · Timeout 504, 408, or no response in time
```

The reason of a Status decides, because the HTTP code alone does not distinguish `AlreadyExists` from `Conflict`; the
code decides only if the response is not a Status (from a proxy, for example). Messages never contain credentials: they
consist of the method, the path and the server's message.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.api import codec
from trimtab.api.admission import Status, StatusCause, StatusDetails
from trimtab.api.errors import InvalidError

_EXCERPT = 200
"""How many bytes of a response that is not a Status are shown."""


class KubeError(Exception):
    """Any failure between Trimtab and an API server."""


class ConfigError(KubeError):
    """The configuration cannot be used."""


class CredentialsError(ConfigError):
    """The configuration is valid but gives no credentials."""


class LeadershipLost(KubeError):
    """This process does not hold the lease and must not act: another process may."""


class ApiError(KubeError):
    """A failed call; `status` is the HTTP code, or 0 if there was no response."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        details: StatusDetails | None = None,
        retry_after: float | None = None,
        call: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.details = details
        self.retry_after = retry_after
        self.call = call

    def __str__(self) -> str:
        words = " ".join(str(word) for word in (self.status or "", self.reason) if word)
        text = f"{self.message} ({words})" if words else self.message
        return f"{self.call}: {text}" if self.call else text

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The errors of single fields, if the server lists them."""
        return self.details.causes if self.details else ()

    @property
    def is_namespace_terminating(self) -> bool:
        """Whether a creation was refused because its namespace is terminating: retrying is pointless."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)


class Unreachable(ApiError):
    """No response. Unless `sent` is false, it is unknown whether the server executed the request."""

    def __init__(self, message: str, *, sent: bool = True, call: str = "") -> None:
        super().__init__(message, call=call)
        self.sent = sent


class Untrusted(Unreachable):
    """The server's certificate is not trusted; retrying does not help."""

    def __init__(self, message: str, *, call: str = "") -> None:
        super().__init__(message, sent=False, call=call)


class Malformed(ApiError):
    """A response that is not what Kubernetes sends, or an object that does not fit its type."""


class IncompleteSweep(ApiError):
    """Of many objects that were to be changed, some could not; all were tried."""

    def __init__(self, failed: Mapping[str, str], *, count: int = 0) -> None:
        key, reason = next(iter(failed.items()))
        super().__init__(f"{len(failed)} objects could not be changed, {key} among them: {reason}")
        self.failed = failed
        """Why, by the key of the object."""
        self.count = count
        """How many were changed."""


class BadRequest(ApiError):
    """The server cannot parse the request."""


class Unauthorized(ApiError):
    """The server does not accept the credentials."""


class Forbidden(ApiError):
    """The user lacks the permission, or admission refused the request."""


class NotFound(ApiError):
    """The object or its kind does not exist."""


class InvalidName(NotFound, ValueError):
    """A name that no object can have, and that would lead to another path; no request is sent."""


class MethodNotAllowed(ApiError):
    """The kind does not support this verb."""


class AlreadyExists(ApiError):
    """An object of that name exists already."""


class Conflict(ApiError):
    """The object has changed since it was read, or a precondition does not hold."""


class Gone(ApiError):
    """The resourceVersion or continue token is too old; list again."""


class TooLarge(ApiError):
    """The request is larger than the server accepts."""


class UnsupportedMediaType(ApiError):
    """The server does not support this type of patch for the kind."""


class Invalid(ApiError):
    """The object is invalid; `causes` names the fields."""


class TooManyRequests(ApiError):
    """The server is overloaded, or a disruption budget refuses an eviction."""

    @property
    def by_budget(self) -> bool:
        """Whether a disruption budget refused an eviction; an immediate retry does not help."""
        return any(cause.reason == "DisruptionBudget" for cause in self.causes)


class ServerError(ApiError):
    """The server failed."""


class ServiceUnavailable(ServerError):
    """The server or its backend is temporarily unavailable."""


class Timeout(ServerError):
    """No response in time. It is unknown whether the server executed the request."""


BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "BadRequest": BadRequest,
    "Conflict": Conflict,
    "Expired": Gone,
    "Forbidden": Forbidden,
    "Gone": Gone,
    "InternalError": ServerError,
    "Invalid": Invalid,
    "MethodNotAllowed": MethodNotAllowed,
    "NotFound": NotFound,
    "RequestEntityTooLarge": TooLarge,
    "ServerTimeout": ServerError,
    "ServiceUnavailable": ServiceUnavailable,
    "Timeout": Timeout,
    "TooManyRequests": TooManyRequests,
    "Unauthorized": Unauthorized,
    "UnsupportedMediaType": UnsupportedMediaType,
}

BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    408: Timeout,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    503: ServiceUnavailable,
    504: Timeout,
}


def from_response(code: int, headers: Mapping[str, str], body: bytes, *, call: str = "") -> ApiError:
    """The error for an HTTP response; the names of `headers` may be in any case."""
    status = _read(body)
    waits = _seconds(next((value for name, value in headers.items() if name.lower() == "retry-after"), ""))
    if status is None:
        return _from_bare(code, body, waits, call)
    return from_status(status, code=code, retry_after=waits, call=call)


def from_status(status: Status, *, code: int = 0, retry_after: float | None = None, call: str = "") -> ApiError:
    """The error for a Status: the response to a call, or the ERROR event of a watch."""
    code = code or status.code
    kind = BY_REASON.get(status.reason) or _by_code(code)
    if retry_after is None and status.details and status.details.retry_after_seconds > 0:
        retry_after = float(status.details.retry_after_seconds)
    return kind(
        status.message or status.reason or f"HTTP {code}",
        status=code,
        reason=status.reason,
        details=status.details,
        retry_after=retry_after,
        call=call,
    )


def _from_bare(code: int, body: bytes, retry_after: float | None, call: str) -> ApiError:
    text = " ".join(body[:_EXCERPT].decode("utf-8", "replace").split())
    return _by_code(code)(text or f"HTTP {code}", status=code, retry_after=retry_after, call=call)


def _by_code(code: int) -> type[ApiError]:
    return BY_STATUS.get(code) or (ServerError if code >= 500 else ApiError)


def _read(body: bytes) -> Status | None:
    if b'"Status"' not in body:
        return None
    try:
        return codec.decode(body, Status)
    except InvalidError:
        return None


def _seconds(text: str) -> float | None:
    """Retry-After in seconds; API servers never send a date."""
    return float(text) if text.isascii() and text.isdigit() else None
