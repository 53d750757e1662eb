"""Trying again: how long to wait, and after which failures it is allowed at all.

A failed call falls into one of three groups:

1. The server did *not* do it, and says so: 429, 503 with Retry-After, or the request never left. Any call may be made
   again.
2. *Nobody knows*: no answer, 500, 502, 504. Only a call that may happen twice without harm is made again.
3. The answer is an answer (404, 409, 422, …). Nothing would change.

An eviction that a disruption budget refuses is a 429 too, but belongs to the third group: the budget decides, not the
load.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from trimtab.kube.errors import ApiError, ServerError, ServiceUnavailable, TooManyRequests, Unreachable, Untrusted

_MOST_DOUBLINGS = 62


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that grow with each failure up to a cap; `jitter` is the share that chance may add."""

    initial: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, rng: random.Random | None = None) -> float:
        """Seconds to wait after so many failures in a row; none for none."""
        if failures <= 0:
            return 0.0
        delay = min(self.cap, self.initial * self.factor ** min(failures - 1, _MOST_DOUBLINGS))
        return delay * (1 + self.jitter * rng.random()) if rng else delay


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is made at most, and how long to wait in between.

    A server may ask for more patience with Retry-After. Beyond `patience` seconds the failure is handed to the caller.
    """

    attempts: int = 5
    backoff: Backoff = Backoff(initial=0.1, cap=5.0, jitter=0.5)
    patience: float = 60.0

    def wait(self, error: ApiError, attempt: int, *, repeatable: bool, rng: random.Random) -> float | None:
        """Seconds until the next attempt, or None if there must not be one."""
        if attempt >= self.attempts or not may_repeat(error, repeatable=repeatable):
            return None
        if error.retry_after is not None and error.retry_after > self.patience:
            return None
        return max(error.retry_after or 0.0, self.backoff.delay(attempt, rng))


RETRIES = RetryPolicy()
NO_RETRIES = RetryPolicy(attempts=1)


def may_repeat(error: ApiError, *, repeatable: bool) -> bool:
    """Whether a call that failed so may be made again; `repeatable` says that making it twice does no harm."""
    if was_not_executed(error):
        return True
    return repeatable and isinstance(error, (ServerError, Unreachable)) and not isinstance(error, Untrusted)


def was_not_executed(error: ApiError) -> bool:
    """Whether it is certain that the server did nothing, and worth asking again."""
    if isinstance(error, TooManyRequests):
        return not error.by_budget
    if isinstance(error, ServiceUnavailable):
        return error.retry_after is not None
    return isinstance(error, Unreachable) and not error.sent and not isinstance(error, Untrusted)
