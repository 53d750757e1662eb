"""Trying again: after which failures, and when."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.admission import StatusCause, StatusDetails
from trimtab.kube import errors
from trimtab.kube.retries import Backoff, RetryPolicy, may_repeat

BUDGET = StatusDetails(causes=(StatusCause(reason="DisruptionBudget"),))


@pytest.mark.parametrize(
    ("error", "any_call", "repeatable_call"),
    [
        pytest.param(errors.TooManyRequests("busy", status=429), True, True, id="busy: nothing was done"),
        pytest.param(
            errors.TooManyRequests("held", status=429, details=BUDGET, retry_after=10),
            False,
            False,
            id="a budget holds",
        ),
        pytest.param(
            errors.ServiceUnavailable("away", status=503, retry_after=1), True, True, id="away, and says when"
        ),
        pytest.param(errors.ServiceUnavailable("away", status=503), False, True, id="away: who knows"),
        pytest.param(errors.ServerError("broken", status=500), False, True, id="broken: who knows"),
        pytest.param(errors.Timeout("late", status=504), False, True, id="late: who knows"),
        pytest.param(errors.Unreachable("cut"), False, True, id="cut: who knows"),
        pytest.param(errors.Unreachable("refused", sent=False), True, True, id="never connected: nothing was done"),
        pytest.param(errors.Untrusted("who?"), False, False, id="a stranger stays a stranger"),
        pytest.param(errors.NotFound("no", status=404), False, False, id="no such object"),
        pytest.param(errors.Conflict("no", status=409), False, False, id="a conflict is the caller's to solve"),
        pytest.param(errors.Invalid("no", status=422), False, False, id="nothing would change"),
        pytest.param(errors.Gone("no", status=410), False, False, id="gone stays gone"),
        pytest.param(errors.Unauthorized("no", status=401), False, False, id="credentials were renewed before"),
        pytest.param(errors.Malformed("what?"), False, False, id="nonsense"),
    ],
)
def test_which_failures_may_be_retried(error: errors.ApiError, any_call: bool, repeatable_call: bool) -> None:
    """What was certainly not done may always be repeated; what may have been done, only where that does no harm."""
    assert may_repeat(error, repeatable=False) is any_call
    assert may_repeat(error, repeatable=True) is repeatable_call


def test_delays_double_up_to_the_cap() -> None:
    """Without jitter a back-off is exact."""
    backoff = Backoff(initial=0.1, cap=1.0)
    assert [backoff.delay(n) for n in (0, 1, 2, 3, 4, 5, 10_000)] == [0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@given(st.integers(1, 200), st.integers())
def test_jitter_is_bounded(failures: int, seed: int) -> None:
    """Jitter only ever prolongs, and never beyond its part."""
    plain, spread = Backoff(initial=0.1, cap=5.0), Backoff(initial=0.1, cap=5.0, jitter=0.5)
    delay = spread.delay(failures, random.Random(seed))
    assert plain.delay(failures) <= delay <= 1.5 * plain.delay(failures)


def test_retry_after_wins_if_longer() -> None:
    """Retry-After is honoured, and does not shorten the back-off."""
    policy, rng = RetryPolicy(backoff=Backoff(initial=2.0, cap=8.0)), random.Random(1)
    assert policy.wait(errors.TooManyRequests("", retry_after=7), 1, repeatable=False, rng=rng) == 7.0
    assert policy.wait(errors.TooManyRequests("", retry_after=1), 1, repeatable=False, rng=rng) == 2.0


def test_patience_and_attempts_are_limits() -> None:
    """A server that asks for an hour gets the failure passed on instead."""
    policy, rng = RetryPolicy(attempts=3, patience=60), random.Random(1)
    assert policy.wait(errors.TooManyRequests("", retry_after=3600), 1, repeatable=True, rng=rng) is None
    assert policy.wait(errors.Unreachable(""), 2, repeatable=True, rng=rng) is not None
    assert policy.wait(errors.Unreachable(""), 3, repeatable=True, rng=rng) is None
