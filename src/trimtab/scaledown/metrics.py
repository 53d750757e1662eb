"""What operators graph of scale-downs: what was held and planned, what it was worth, and what went another way.

Skews are observed as histograms, a sample a plan and topology key, so that the share of scale-downs that ended level
can be read from the bucket for 1.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.35, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
_SKEWS = (0, 1, 2, 3, 5, 10, 20, 50, 100, 1000)


class Outcome(StrEnum):
    """What came of a request to shrink."""

    PLANNED = "planned"
    """Costs were written, all that were needed."""
    PARTIAL = "partial"
    """Some costs were written, and then the budget was spent, or a write failed."""
    AS_STOCK = "as-stock"
    """Nothing to improve: the controller's own choice is as level, or everything goes."""
    REPEATED = "repeated"
    """The costs stand already."""
    UNGOVERNED = "ungoverned"
    """No policy speaks for the workload."""
    CONTESTED = "contested"
    """Another workload claims the same pods: whoever chose for one would choose against the other."""
    MANAGED = "managed"
    """A ReplicaSet that its Deployment resizes."""
    STALE = "stale"
    """What the review says is not so, or not any more."""
    ELSEWHERE = "elsewhere"
    """The policy's costs are delivered another way: kept current all the time, or by another carrier."""
    ROLLOUT = "rollout"
    """The pods of a CloneSet are of several revisions: the older ones go first, whatever they cost."""
    FOREIGN = "foreign"
    """Costs that others have set leave no choice."""
    UNRANKED = "unranked"
    """A strategy could not rank every pod in time: the controller chooses by itself."""
    LIMITED = "limited"
    """Too many requests in too short a time."""
    UNREADY = "unready"
    """The cluster has not been seen yet."""
    FAILED = "failed"
    """Something went wrong."""
    LATE = "late"
    """Whoever asked did not wait any longer: the edge let the request go on."""


FALLBACKS = frozenset(
    {Outcome.PARTIAL, Outcome.FOREIGN, Outcome.UNRANKED, Outcome.LIMITED, Outcome.UNREADY, Outcome.FAILED}
)
"""Outcomes after which the controller's own choice decides, wholly or in part, although a policy speaks.

What is late is counted when the edge says so: see `let_go`.
"""


class Cause(StrEnum):
    """Why another pod went than the plan said."""

    LAG = "lag"
    """The controller had not seen the costs yet."""
    STANDING = "standing"
    """A pod that was to stay had become unready, or had never been ready, or was of an older revision of its CloneSet:
    those go first, whatever they cost."""
    DELETED = "deleted"
    """A pod that was to stay was deleted by somebody else, and its controller needed one victim fewer."""
    UNWRITTEN = "unwritten"
    """Not all costs had been written in time."""


class Metrics:
    """The metrics of scale-downs in one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._held = self._histogram(
            "held_seconds", _SECONDS, "Seconds that a request to shrink was held, by what came of it.", "outcome"
        )
        self._holding = self._gauge("requests_under_way", "Requests to shrink that are being held.")
        self._plans = self._counter("plans", "Requests to shrink, by what came of them.", "outcome")
        self._fallbacks = self._counter(
            "fallbacks", "Scale-downs that were left to the controller although a policy speaks for them.", "reason"
        )
        self._skew = self._histogram(
            "skew",
            _SKEWS,
            "The fullest domain's lead over the emptiest: before a plan, after it, and as stock would have left it.",
            *("topology_key", "state"),
        )
        self._written = self._counter("costs_written", "Costs that were written to pods.")
        self._taken_back = self._counter("costs_taken_back", "Costs that were taken back, and why.", "reason")
        self._misses = self._counter("misses", "Pods that went although the plan kept them, and why.", "cause")
        self._deleted = self._counter(
            "pods_deleted", "Pods that went as planned, by what decided that they do.", "decision"
        )
        self._settle = self._gauge(
            "settle_seconds", "How long a request waits, after its costs were seen, for the controller to see them."
        )
        self._ages = self._gauge("oldest_cost_seconds", "The age of the oldest cost that a scale-down has written.")
        self._pods = self._gauge("pods", "Pods that policies speak for, by whether they have a rank.", "rank")
        self._samples = self._gauge(
            "oldest_sample_seconds",
            "The age of the oldest value that ranks are made from, by where it comes from.",
            "source",
        )

        self._ranks = self._gauge(
            "oldest_ranks_seconds",
            "How long ago the costs of a group that are kept current were worked out, where that is longest.",
        )

    # What is read when somebody looks.

    def watch_settle(self, seconds: Callable[[], float]) -> None:
        """The settle time."""
        self._settle.set_function(seconds)

    def watch_ages(self, seconds: Callable[[], float]) -> None:
        """How old the oldest cost is that still stands."""
        self._ages.set_function(seconds)

    def watch_pods(self, rank: str, count: Callable[[], float]) -> None:
        """How many pods have a rank (`known`), or none (`missing`)."""
        self._pods.labels(rank).set_function(count)

    def watch_samples(self, source: str, seconds: Callable[[], float]) -> None:
        """How old the oldest sample of a source is."""
        self._samples.labels(source).set_function(seconds)

    def watch_ranks(self, seconds: Callable[[], float]) -> None:
        """How old the oldest ranks are that costs are kept by."""
        self._ranks.set_function(seconds)

    # What is counted when it happens.

    def holding(self, sign: int) -> None:
        """One request more or less is being held."""
        self._holding.inc(sign)

    def planned(self, outcome: Outcome, seconds: float) -> None:
        """A request was answered."""
        self._plans.labels(outcome.value).inc()
        self._held.labels(outcome.value).observe(seconds)
        if outcome in FALLBACKS:
            self._fallbacks.labels(outcome.value).inc()

    def let_go(self) -> None:
        """The edge admitted a request that was not decided in time."""
        self._fallbacks.labels("late").inc()

    def fell_back(self) -> None:
        """Costs that were kept current were taken back, because some pods had no rank."""
        self._fallbacks.labels(Outcome.UNRANKED.value).inc()

    def levelled(self, topology_key: str, before: int, after: int, stock: int) -> None:
        """A plan's skews."""
        for state, skew in (("before", before), ("after", after), ("stock", stock)):
            self._skew.labels(topology_key, state).observe(skew)

    def costs_written(self, count: int) -> None:
        """So many costs were written."""
        self._written.inc(count)

    def costs_taken_back(self, count: int, reason: str) -> None:
        """So many costs were taken back."""
        if count:
            self._taken_back.labels(reason).inc(count)

    def missed(self, cause: Cause, count: int) -> None:
        """So many pods went that were to stay."""
        if count:
            self._misses.labels(cause.value).inc(count)

    def deleted(self, decision: str) -> None:
        """A pod went as planned."""
        self._deleted.labels(decision).inc()

    # How they are made.

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"trimtab_scaledown_{name}_total", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"trimtab_scaledown_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, buckets: tuple[float, ...], text: str, *labels: str) -> Histogram:
        return Histogram(f"trimtab_scaledown_{name}", text, labels, buckets=buckets, registry=self.registry)
