"""The tree of errors: what an answer means."""

from __future__ import annotations

import json

import pytest

from tests.unit.kube.fakes import status
from trimtab.api.admission import Status
from trimtab.kube import errors


@pytest.mark.parametrize(
    ("code", "reason", "want"),
    [
        pytest.param(400, "BadRequest", errors.BadRequest, id="a request that makes no sense"),
        pytest.param(401, "Unauthorized", errors.Unauthorized, id="an unknown caller"),
        pytest.param(403, "Forbidden", errors.Forbidden, id="a caller without the right"),
        pytest.param(404, "NotFound", errors.NotFound, id="an object that is not there"),
        pytest.param(405, "MethodNotAllowed", errors.MethodNotAllowed, id="a verb that the kind does not have"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="a name that is taken"),
        pytest.param(409, "Conflict", errors.Conflict, id="a version that is not current"),
        pytest.param(410, "Expired", errors.Gone, id="a version that is too old"),
        pytest.param(410, "Gone", errors.Gone, id="a version that is gone"),
        pytest.param(413, "RequestEntityTooLarge", errors.TooLarge, id="a body that is too large"),
        pytest.param(415, "UnsupportedMediaType", errors.UnsupportedMediaType, id="a patch of an unknown kind"),
        pytest.param(422, "Invalid", errors.Invalid, id="an object that breaks rules"),
        pytest.param(429, "TooManyRequests", errors.TooManyRequests, id="a busy server"),
        pytest.param(500, "InternalError", errors.ServerError, id="a server that failed"),
        pytest.param(500, "ServerTimeout", errors.ServerError, id="a server that gave up"),
        pytest.param(503, "ServiceUnavailable", errors.ServiceUnavailable, id="a server that is away"),
        pytest.param(504, "Timeout", errors.Timeout, id="a server that took too long"),
        pytest.param(404, "", errors.NotFound, id="no reason: the code decides"),
        pytest.param(409, "SomethingNew", errors.Conflict, id="an unknown reason: the code decides"),
        pytest.param(502, "", errors.ServerError, id="any other code of a failing server"),
        pytest.param(418, "", errors.ApiError, id="a code that means nothing in particular"),
    ],
)
def test_a_status_becomes_its_error(code: int, reason: str, want: type[errors.ApiError]) -> None:
    """The reason decides, then the code; all are ApiErrors and KubeErrors."""
    body = json.dumps(status(code, reason, "why")).encode()
    error = errors.from_response(code, {}, body, call="GET /x")
    assert type(error) is want
    assert isinstance(error, errors.KubeError)
    assert (error.status, error.reason, error.message) == (code, reason, "why")


@pytest.mark.parametrize(
    ("code", "want"),
    [(code, kind) for code, kind in errors.BY_STATUS.items()],
)
def test_a_response_without_status_is_classified_by_its_code(code: int, want: type[errors.ApiError]) -> None:
    """A proxy on the way answers with a page of its own."""
    error = errors.from_response(code, {}, b"<html>\n  busy </html>")
    assert type(error) is want
    assert str(error) == f"<html> busy </html> ({code})"


def test_a_long_response_is_truncated() -> None:
    """A log line must not contain a whole page."""
    assert len(str(errors.from_response(502, {}, b"x" * 10_000))) < 300


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"kind":"Status","code":"many"}', b'{"kind":"Status"', b"\xff\xfe"])
def test_any_response_becomes_an_api_error(body: bytes) -> None:
    """A body that cannot be read must not hide the failure."""
    assert type(errors.from_response(404, {}, body)) is errors.NotFound


def test_causes_name_the_fields() -> None:
    """An Invalid says which fields are wrong, and why."""
    cause = {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}
    body = json.dumps(status(422, "Invalid", "no", name="p", kind="Pod", causes=[cause])).encode()
    error = errors.from_response(422, {}, body)
    assert [(c.field, c.message) for c in error.causes] == [("spec.containers", "Required value")]
    assert error.details is not None
    assert error.details.name == "p"


@pytest.mark.parametrize(
    ("headers", "details", "want"),
    [
        pytest.param({"Retry-After": "7"}, {}, 7.0, id="the header"),
        pytest.param({"retry-after": "0"}, {}, 0.0, id="the header in any case"),
        pytest.param({}, {"retryAfterSeconds": 3}, 3.0, id="the status"),
        pytest.param({"Retry-After": "2"}, {"retryAfterSeconds": 3}, 2.0, id="the header before the status"),
        pytest.param({"Retry-After": "soon"}, {}, None, id="nonsense is nothing"),
        pytest.param({"Retry-After": "-1"}, {}, None, id="a negative time is nothing"),
        pytest.param({}, {}, None, id="nothing"),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], details: dict[str, int], want: float | None) -> None:
    """From the header, or from the details of the Status."""
    body = json.dumps(status(429, "TooManyRequests", "busy", **details)).encode()
    assert errors.from_response(429, headers, body).retry_after == want


def test_a_budget_is_distinguished_from_overload() -> None:
    """Both are 429; the cause distinguishes them."""
    busy = errors.from_status(Status(reason="TooManyRequests", code=429))
    body = json.dumps(status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget", "message": "b"}])).encode()
    held = errors.from_response(429, {}, body)
    assert isinstance(busy, errors.TooManyRequests)
    assert isinstance(held, errors.TooManyRequests)
    assert (busy.by_budget, held.by_budget) == (False, True)


def test_messages_contain_the_request_and_the_response() -> None:
    """One line for a log."""
    body = json.dumps(status(404, "NotFound", 'pods "a" not found')).encode()
    error = errors.from_response(404, {}, body, call="GET /api/v1/namespaces/n/pods/a")
    assert str(error) == 'GET /api/v1/namespaces/n/pods/a: pods "a" not found (404 NotFound)'


def test_unreachable_says_whether_the_request_was_sent() -> None:
    """What was never sent can be sent again without a thought."""
    assert errors.Unreachable("cut").sent
    assert not errors.Untrusted("who are you").sent
    assert isinstance(errors.Untrusted("who are you"), errors.Unreachable)
    assert str(errors.Unreachable("cut", call="GET /x")) == "GET /x: cut"
