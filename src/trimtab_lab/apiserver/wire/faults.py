"""Fault injection: faults by method and path, each for a number of requests or with a probability.

    faults = Faults()
    faults.add(Fault("latency", path=r"/api/v1/.*pods", seconds=0.2))
    faults.add(Fault("conflict", methods=("PATCH",), times=3))
    faults.add(Fault("throttle", probability=0.1, seconds=1))
    faults.add(Fault("cut", path=r"/apis/apps/.*"))         # watches, at the next event or at once

The first matching fault is injected; after `latency` the search goes on. With a seeded generator the same requests
get the same faults.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trimtab_lab.apiserver.kinds.errors import MODIFIED, StatusError, status_error


@dataclass(slots=True)
class Fault:
    """One kind of fault. `path` is a regular expression for the whole path; `times` is how often it is injected, None
    for ever.

    `seconds` is how long a `latency` lasts, what a `throttle` asks to wait, or after how long a `cut` breaks a watch.
    """

    kind: str
    path: str = r".*"
    methods: tuple[str, ...] = ()
    watches: bool | None = None
    times: int | None = None
    probability: float = 1.0
    seconds: float = 0.0
    _pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f'"{self.kind}" is not a fault; write one of {", ".join(KINDS)}')
        self._pattern = re.compile(self.path)
        if self.watches is None and self.kind == "cut":
            self.watches = True

    def matches(self, method: str, path: str, *, watch: bool) -> bool:
        """Whether the fault applies to a request."""
        if self.times == 0 or (self.methods and method not in self.methods):
            return False
        return self.watches in (None, watch) and self._pattern.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class Injection:
    """The fault of one request: a delay, then an error, or a watch that is cut after some seconds."""

    delay: float = 0.0
    error: StatusError | None = None
    cut_after: float | None = None


NO_FAULT = Injection()


def _conflict(_fault: Fault) -> StatusError:
    return status_error(409, f"Operation cannot be fulfilled: {MODIFIED}", details={})


def _throttle(fault: Fault) -> StatusError:
    seconds = max(1, round(fault.seconds))
    message = "the server has received too many requests and has asked us to try again later"
    return status_error(429, message, details={"retryAfterSeconds": seconds})


def _gone(_fault: Fault) -> StatusError:
    return status_error(410, "The resourceVersion for the provided watch is too old.", reason="Expired")


def _error(_fault: Fault) -> StatusError:
    return status_error(500, "Internal error occurred: injected", reason="InternalError", details={})


def _unavailable(_fault: Fault) -> StatusError:
    return status_error(503, "the server is currently unable to handle the request", details={})


_ERRORS: Mapping[str, Callable[[Fault], StatusError]] = {
    "conflict": _conflict,
    "throttle": _throttle,
    "gone": _gone,
    "error": _error,
    "unavailable": _unavailable,
}
KINDS: Sequence[str] = ("latency", "cut", *_ERRORS)
"""latency · cut (watches) · conflict 409 · throttle 429 with Retry-After · gone 410 · error 500 · unavailable 503"""


class Faults:
    """The faults of one server."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._faults: list[Fault] = []
        self._rng = rng or random.Random(0)  # noqa: S311 – not security relevant

    def __bool__(self) -> bool:
        return bool(self._faults)

    def add(self, fault: Fault) -> None:
        """Inject a fault from the next request on."""
        self._faults.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def inject(self, method: str, path: str, *, watch: bool) -> Injection:
        """The fault for a request; counts it."""
        delay = 0.0
        for fault in self._faults:
            if not fault.matches(method, path, watch=watch) or self._rng.random() >= fault.probability:
                continue
            if fault.times is not None:
                fault.times -= 1
            if fault.kind == "latency":
                delay += fault.seconds
            elif fault.kind == "cut":
                return Injection(delay, cut_after=fault.seconds)
            else:
                return Injection(delay, _ERRORS[fault.kind](fault))
        return Injection(delay) if delay else NO_FAULT
