"""What breaks an invariant, as functions of what was observed."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from bench.promise.comparison import JSON, is_active
from bench.promise.measuring import Round
from trimtab.api.annotations import RESERVATION, SCALE_PLAN, SUBSET, Reason
from trimtab.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from trimtab.scaledown.metrics import FALLBACKS

LIMITS = "limits of subsets"
NO_COSTS = "no cost left behind"
LEVEL = "decreases level or explained"
NOT_REFUSED = "no request refused"
BUDGET = "no request over budget"
ONE_LEADER = "one leader"
MEMORY = "memory flat"
EVENT_LOOP = "event loop free"
ALIVE = "no process ends by itself"
RECOVERS = "everything recovers"
FORGERY = "forged reviews learn nothing"
INVARIANTS = (LIMITS, NO_COSTS, LEVEL, NOT_REFUSED, BUDGET, ONE_LEADER, MEMORY, EVENT_LOOP, ALIVE, RECOVERS, FORGERY)

HASH = "pod-template-hash"
WARM_UP = 600.0
"""Seconds after which the memory of a process should grow no more."""
_GROWTH = 1.25
_SLACK = 16.0
"""MiB by which it may grow besides: caches of a few hundred objects more."""
_EXPLAINING = frozenset(
    each.value
    for each in (
        Reason.SCALE_DOWN_MISSED,
        Reason.SCALE_DOWN_SKIPPED,
        Reason.SCALE_DOWN_PARTIAL,
        Reason.SCALE_DOWN_DURING_ROLLOUT,
        Reason.COSTS_OVERWRITTEN,
    )
)
"""Reasons of events that say why a result is not level."""
_FALLBACKS = frozenset(each.value for each in FALLBACKS)
_ANNOUNCED = "kept "
"""How a warning begins that promises a level result: it explains no other one."""
_INITIALIZING = "storage is (re)initializing"
"""What an API server answers that is ready again and whose caches are not."""


class Failure(Enum):
    """Why a request of a user failed."""

    RACE = "a race with another fault"
    OUTAGE = "the API server was down"
    BY_US = "refused by Trimtab"
    UNEXPLAINED = "unexplained"


def failure(error: ApiError, *, is_outage: bool) -> Failure:
    """Why a request failed; `is_outage` says whether the API server was paused, down or full meanwhile."""
    if "admission webhook" in error.message and "trimtab" in error.message:
        return Failure.BY_US
    if isinstance(error, (NotFound, Conflict, AlreadyExists, Gone)) or _is_by_budget(error):
        return Failure.RACE
    if isinstance(error, TooManyRequests) and _INITIALIZING in error.message:
        return Failure.OUTAGE
    if is_outage and (isinstance(error, (Unreachable, ServerError, TooManyRequests)) or error.status >= 500):
        return Failure.OUTAGE
    return Failure.UNEXPLAINED


def _is_by_budget(error: ApiError) -> bool:
    return isinstance(error, TooManyRequests) and error.by_budget


def is_refused_as_invalid(error: ApiError) -> bool:
    """Whether the API server, or our validation, called the object invalid, as it may."""
    return isinstance(error, Invalid) or error.status in (400, 403, 413, 422)


def exceeded_limits(pods: Iterable[JSON], limits: Mapping[str, int]) -> list[str]:
    """Subsets that got more pods than they may have: of one revision, active, and admitted with a reservation.

    A pod that was created while no webhook answered has none: it is matched later, and may be one too many.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        annotations = pod["metadata"].get("annotations", {})
        if is_active(pod) and RESERVATION in annotations:
            counts[pod["metadata"].get("labels", {}).get(HASH, ""), annotations.get(SUBSET, "")] += 1
    return [
        f"{count} pods of revision {revision} in {subset}, which may have {limits[subset]}"
        for (revision, subset), count in counts.items()
        if subset in limits and count > limits[subset]
    ]


def costs_left(pods: Iterable[JSON]) -> list[str]:
    """Pods that still have the annotation of a plan."""
    return sorted(
        pod["metadata"]["name"]
        for pod in pods
        if is_active(pod) and SCALE_PLAN in pod["metadata"].get("annotations", {})
    )


def explanation(result: Round, records: Iterable[JSON]) -> str:
    """What says why a decrease did not end level: a warning, an event or a record of the history; empty if nothing."""
    if result.became_unready:
        return f"{result.became_unready} pods became unready, which go first whatever they cost"
    said = [text for text in result.warnings if not text.startswith(_ANNOUNCED)]
    said += [text for text in result.events if text.partition(":")[0] in _EXPLAINING]
    said += [
        f"history: {record['outcome']}, {record.get('result')} {record.get('cause', '')}"
        for record in records
        if record.get("result") == "missed" or record["outcome"] in _FALLBACKS
    ]
    return said[0] if said else ""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram as it is scraped: how many observations are at most so many seconds."""

    buckets: Mapping[float, float]

    @property
    def count(self) -> float:
        """All observations."""
        return self.buckets.get(float("inf"), 0.0)

    def above(self, seconds: float) -> float:
        """Observations above one of the buckets' bounds."""
        return self.count - self.buckets[seconds] if self.buckets else 0.0

    def __add__(self, other: Histogram) -> Histogram:
        bounds = self.buckets.keys() | other.buckets.keys()
        return Histogram({each: self.buckets.get(each, 0.0) + other.buckets.get(each, 0.0) for each in bounds})


@dataclass(frozen=True, slots=True)
class Limit:
    """How long something may take, in one process as long as that lives."""

    most: float
    """Seconds that it never takes."""
    usual: float
    """Seconds above which it is seldom."""
    share: float
    """The share that may be above the usual."""
    enough: int
    """Observations that make a share."""

    def breach(self, found: Histogram) -> str:
        """How a histogram exceeds the limit; empty if it does not."""
        if often := found.above(self.most):
            return f"above {self.most:g} s {often:.0f} times"
        often = found.above(self.usual)
        if found.count >= self.enough and often > self.share * found.count:
            return f"above {self.usual:g} s {often:.0f} times of {found.count:.0f}"
        return ""


_MEASUREMENTS = 5000
"""Measurements of an event loop that make a share: those of a hundred seconds."""
LAG_LIMIT = Limit(most=2.5, usual=0.25, share=0.01, enough=_MEASUREMENTS)
"""How late an event loop may be, on a machine that everything shares: it may have no processor for the process."""
WORK_LIMIT = Limit(most=0.25, usual=0.05, share=0.001, enough=_MEASUREMENTS)
"""How long an event loop may work without a pause. A busy machine is no excuse: it is the CPU time of the thread."""
ANSWER_LIMIT = Limit(most=2.25, usual=2.0, share=0.01, enough=100)
"""How long an answer may take. No budget is above two seconds; beyond it an answer is only if the loop was late at the
end, which is noticed after a quarter of a second at most."""


def over_budget(held_milliseconds: float) -> bool:
    """Whether a request was held for longer than ever happens. How many were late is judged by histogram."""
    return held_milliseconds / 1000 > ANSWER_LIMIT.most


def growth(samples: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The memory of one process after the warm-up and at the end; None for a process that is too young.

    A sample has seconds since the process started, and MiB. Medians of a minute keep single peaks out.
    """
    if not samples or samples[-1][0] < 2 * WARM_UP:
        return None
    warm = [size for at, size in samples if WARM_UP <= at < WARM_UP + 60]
    last = [size for at, size in samples if at > samples[-1][0] - 60]
    return (statistics.median(warm), statistics.median(last)) if warm and last else None


def is_flat(warm: float, last: float) -> bool:
    """Whether the memory of a process has not grown since the warm-up."""
    return last <= warm * _GROWTH + _SLACK
