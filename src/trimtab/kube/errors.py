"""One tree of errors, by what they mean to whoever made the call.

```
KubeError
├── ConfigError            the configuration cannot be used, and why
│   └── CredentialsError   … because it yields no credentials (a plugin that fails, a token file that is not there)
├── LeadershipLost         somebody else may act now
└── ApiError               a call that did not succeed
    ├── Unreachable        no answer: `sent` says whether the server may have seen the request
    │   └── Untrusted      the other side is not who it should be
    ├── Malformed          an answer, but not one that Kubernetes gives
    ├── BadRequest 400 · Unauthorized 401 · Forbidden 403 · NotFound 404 · MethodNotAllowed 405
    ├── AlreadyExists 409 · Conflict 409 · Gone 410 · TooLarge 413 · UnsupportedMediaType 415
    ├── Invalid 422        with `causes`, one for each field
    ├── TooManyRequests 429
    └── ServerError 500 ── ServiceUnavailable 503 · Timeout 504, 408, or no answer in time
```

A Status says its reason in a word; the HTTP code alone does not tell `AlreadyExists` from `Conflict`. So the reason
decides, and the code only where the answer is not a Status (a proxy on the way, say). No message ever holds a
credential: they are made of the method, the path and what the server said.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.api import codec
from trimtab.api.admission import Status, StatusCause, StatusDetails
from trimtab.api.errors import InvalidError

_EXCERPT = 200
"""How much of an answer that is not a Status is worth showing."""


class KubeError(Exception):
    """Anything that goes wrong between Trimtab and an API server."""


class ConfigError(KubeError):
    """The configuration cannot be used."""


class CredentialsError(ConfigError):
    """The configuration is fine, but there are no credentials to be had from it."""


class LeadershipLost(KubeError):
    """Another process may act now, so this one must not."""


class ApiError(KubeError):
    """A call that did not succeed; `status` is the HTTP code, or 0 if there was no answer."""

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
        """What exactly was wrong, field by field, where the server says."""
        return self.details.causes if self.details else ()


class Unreachable(ApiError):
    """There was no answer. Unless `sent` is false, nobody knows whether the server did what it was asked."""

    def __init__(self, message: str, *, sent: bool = True, call: str = "") -> None:
        super().__init__(message, call=call)
        self.sent = sent


class Untrusted(Unreachable):
    """The other side does not prove that it is the API server; trying again would not change that."""

    def __init__(self, message: str, *, call: str = "") -> None:
        super().__init__(message, sent=False, call=call)


class Malformed(ApiError):
    """An answer that is not what Kubernetes answers, or an object that its type cannot read."""


class BadRequest(ApiError):
    """The request makes no sense to the server."""


class Unauthorized(ApiError):
    """The server does not know who is asking."""


class Forbidden(ApiError):
    """The server knows who is asking, and says no."""


class NotFound(ApiError):
    """There is no such object, or no such kind."""


class MethodNotAllowed(ApiError):
    """This cannot be done to this kind."""


class AlreadyExists(ApiError):
    """There is one of that name already."""


class Conflict(ApiError):
    """The object has changed since it was read, or is not the one that was meant."""


class Gone(ApiError):
    """That version is too old to continue from; read anew."""


class TooLarge(ApiError):
    """The request is larger than the server takes."""


class UnsupportedMediaType(ApiError):
    """The server does not know patches of this kind."""


class Invalid(ApiError):
    """The object breaks rules; `causes` names fields."""


class TooManyRequests(ApiError):
    """Not now: the server is busy, or a disruption budget holds."""

    @property
    def by_budget(self) -> bool:
        """Whether a disruption budget refused an eviction, which asking again at once does not change."""
        return any(cause.reason == "DisruptionBudget" for cause in self.causes)


class ServerError(ApiError):
    """The server failed."""


class ServiceUnavailable(ServerError):
    """The server, or what stands behind it, is away for the moment."""


class Timeout(ServerError):
    """No answer in time. Nobody knows whether the server did what it was asked."""


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
    """What an HTTP answer means; `headers` may be written in any case."""
    status = _read(body)
    waits = _seconds(next((value for name, value in headers.items() if name.lower() == "retry-after"), ""))
    if status is None:
        return _from_bare(code, body, waits, call)
    return from_status(status, code=code, retry_after=waits, call=call)


def from_status(status: Status, *, code: int = 0, retry_after: float | None = None, call: str = "") -> ApiError:
    """What a Status means: the answer to a call, or the last event of a watch."""
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
    """Retry-After in seconds; API servers never write the form with a date."""
    return float(text) if text.isascii() and text.isdigit() else None
