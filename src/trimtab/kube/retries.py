"""Retries: which failures may be retried, and after which delay.

1. The server did *not* execute the call: 429, 503 with Retry-After, or the request was never sent. Any call may be
   retried.
2. It is *unknown* whether it did: no response, 500, 502, 504. Only a repeatable call is retried.
3. The response is final (404, 409, 422, …). A retry would not change it.

An eviction that a disruption budget refuses is also a 429, but belongs to group 3: the budget decides, not the load.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from trimtab.kube.errors import ApiError, ServerError, ServiceUnavailable, TooManyRequests, Unreachable, Untrusted

_MAX_DOUBLINGS = 62


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off up to a cap; `jitter` is the largest random addition, as a share of the delay."""

    initial: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, rng: random.Random | None = None) -> float:
        """Seconds to wait after so many consecutive failures; 0 for none."""
        if failures <= 0:
            return 0.0
        delay = min(self.cap, self.initial * self.factor ** min(failures - 1, _MAX_DOUBLINGS))
        return delay * (1 + self.jitter * rng.random()) if rng else delay


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The maximum number of attempts, and the delay between them.

    A server may ask for a longer delay with Retry-After. If that is beyond `patience` seconds, the error is raised.
    """

    attempts: int = 5
    backoff: Backoff = Backoff(initial=0.1, cap=5.0, jitter=0.5)
    patience: float = 60.0

    def wait(self, error: ApiError, attempt: int, *, repeatable: bool, rng: random.Random) -> float | None:
        """Seconds until the next attempt, or None if the error is to be raised."""
        if attempt >= self.attempts or not may_repeat(error, repeatable=repeatable):
            return None
        if error.retry_after is not None and error.retry_after > self.patience:
            return None
        return max(error.retry_after or 0.0, self.backoff.delay(attempt, rng))


RETRIES = RetryPolicy()
NO_RETRIES = RetryPolicy(attempts=1)


def may_repeat(error: ApiError, *, repeatable: bool) -> bool:
    """Whether a call that failed like this may be retried; `repeatable` calls may be executed twice without harm."""
    if was_not_executed(error):
        return True
    return repeatable and isinstance(error, (ServerError, Unreachable)) and not isinstance(error, Untrusted)


def was_not_executed(error: ApiError) -> bool:
    """Whether the server certainly did not execute the call, and a retry may succeed."""
    if isinstance(error, TooManyRequests):
        return not error.by_budget
    if isinstance(error, ServiceUnavailable):
        return error.retry_after is not None
    return isinstance(error, Unreachable) and not error.sent and not isinstance(error, Untrusted)
