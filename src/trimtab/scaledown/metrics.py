"""Metrics of scale-downs: requests that were held, plans and their effect on the skew, costs, and misses.

Skews are observed as histograms, one sample for each plan and topology key, so that the share of scale-downs that ended
level can be read from the bucket for 1.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from trimtab.ranking.hedges import Unhedged
from trimtab.ranking.plan import Plan
from trimtab.scaledown.results.levels import LevelCheck, LevelResult

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.35, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 2.25, 3.0)
_SKEWS = (0, 1, 2, 3, 5, 10, 20, 50, 100, 1000)


class HoldOutcome(StrEnum):
    """What came of a request to scale down."""

    PLANNED = "planned"
    """All costs that the plan needs were written."""
    PARTIAL = "partial"
    """Some costs were written; then the budget was spent, or a write failed."""
    AS_STOCK = "as-stock"
    """Nothing to improve: the controller's own choice is as level, or all pods are deleted."""
    REPEATED = "repeated"
    """The costs are in place already."""
    NO_POLICY = "no-policy"
    """No policy applies to the workload."""
    CONFLICT = "conflict"
    """Another workload selects the same pods."""
    MANAGED = "managed"
    """The workload is a ReplicaSet that its Deployment resizes."""
    STALE = "stale"
    """The review does not describe the workload as it is."""
    OBSERVED = "observed"
    """The policy's mode is Observe: nothing was written, and the result is recorded."""
    OTHER_DELIVERY = "other-delivery"
    """The policy's costs are delivered another way: kept current at all times, or by another carrier."""
    ROLLOUT = "rollout"
    """Pods are of several revisions, and the rollout decides which are deleted: those of a CloneSet, or those of a
    workload none of whose ReplicaSets the request shrinks."""
    CREATING = "creating"
    """Pods are still being created: there are no more than are to stay, and which of those to come go is not known."""
    FOREIGN_COSTS = "foreign-costs"
    """Costs of other programs leave no choice."""
    UNRANKED = "unranked"
    """A strategy could not rank every pod in time: the controller's own order decides."""
    RATE_LIMITED = "rate-limited"
    """Too many requests in too short a time."""
    BUSY = "busy"
    """Earlier requests for the same workload took too long."""
    NOT_SYNCED = "not-synced"
    """The caches have not synced yet, or are behind the API server."""
    FAILED = "failed"
    """An error."""
    LATE = "late"
    """The caller stopped waiting: the request was admitted without a decision."""


FALLBACKS = frozenset(
    {
        HoldOutcome.PARTIAL,
        HoldOutcome.FOREIGN_COSTS,
        HoldOutcome.CONFLICT,
        HoldOutcome.ROLLOUT,
        HoldOutcome.CREATING,
        HoldOutcome.UNRANKED,
        HoldOutcome.RATE_LIMITED,
        HoldOutcome.BUSY,
        HoldOutcome.NOT_SYNCED,
        HoldOutcome.FAILED,
    }
)
"""Outcomes after which the controller's own order decides, wholly or in part, although a policy applies.

Requests that the server admits without a decision are counted by `record_fallback`.
"""


class MissCause(StrEnum):
    """Why a pod was deleted that a plan kept."""

    LAG = "lag"
    """The controller had not seen the costs yet."""
    EARLIER_CRITERION = "earlier-criterion"
    """A pod that was to stay had become unready, or had never been ready, or was of an older revision of its CloneSet:
    controllers compare these before costs."""
    DELETED = "deleted"
    """A pod that was to stay was deleted by another program, and its controller needed one victim fewer."""
    UNWRITTEN = "unwritten"
    """Not all costs had been written in time."""
    OVERLAP = "overlap"
    """Two requests for the workload arrived together: one was stored after its costs were replaced by the other's."""


class Metrics:
    """The metrics of scale-downs in one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._held = self._histogram(
            "held_seconds", _SECONDS, "Seconds for which a request to scale down was held, by outcome.", "outcome"
        )
        self._holding = self._gauge("requests_held", "Requests to scale down that are being held.")
        self._requests = self._counter("requests", "Requests to scale down, by outcome.", "outcome")
        self._fallbacks = self._counter(
            "fallbacks",
            "Scale-downs in which the controller's own order decided although a policy applies, by reason.",
            "reason",
        )
        self._unprepared = self._counter(
            "unprepared_requests",
            "Requests to scale down that were planned before all costs of their subsets were written: late or failed.",
            "reason",
        )
        self._skew = self._histogram(
            "skew",
            _SKEWS,
            "The difference between the fullest and the emptiest domain: before a scale-down, as planned, as an "
            "unmodified controller may leave it, and after.",
            *("topology_key", "state", "mode"),
        )
        self._written = self._counter("costs_written", "Costs that were written to pods.")
        self._unhedged = self._counter(
            "unhedged_plans",
            "Plans without costs for the case that starting pods become ready before the controller acts, by reason.",
            "reason",
        )
        self._reverted = self._counter("costs_reverted", "Costs that were reverted, by reason.", "reason")
        self._not_reverted = self._counter(
            "costs_not_reverted",
            "Costs that were not reverted before a request was admitted that is to do without them: late or failed.",
            "reason",
        )
        self._misses = self._counter("misses", "Pods that were deleted although the plan kept them, by cause.", "cause")
        self._results = self._counter(
            "results",
            "Scale-downs by how level they ended; those that ended less level than was possible by cause.",
            *("mode", "result", "cause"),
        )
        self._deleted = self._counter(
            "pods_deleted", "Pods that were deleted as planned, by what decided it.", "decision"
        )
        self._settle = self._gauge(
            "settle_seconds",
            "Seconds that a request is held after our own watch has shown its costs, for the controller to see them.",
        )
        self._ages = self._gauge("oldest_cost_seconds", "The age of the oldest cost that a plan has written.")
        self._pods = self._gauge("pods", "Pods to which policies apply, by whether they have a rank.", "rank")
        self._samples = self._gauge(
            "oldest_sample_seconds", "The age of the oldest value that ranks are computed from, by source.", "source"
        )
        self._unreported = self._counter(
            "unreported_plans",
            "Scale-downs with costs that are kept current whose plan is not in the policy's status, by reason.",
            "reason",
        )
        self._source_failures = self._counter(
            "source_failures", "Requests to a source of signals that failed, by source.", "source"
        )
        self._ranks = self._gauge(
            "oldest_ranks_seconds", "Seconds since the costs of a group were last computed, for the oldest group."
        )

        self._rivals = self._gauge(
            "rival_costs",
            "PodGroupCosts that do not count: beside that of a policy, or several for one workload.",
        )

    # Read at each scrape.

    def watch_settle_time(self, seconds: Callable[[], float]) -> None:
        """Report the settle time."""
        self._settle.set_function(seconds)

    def watch_cost_age(self, seconds: Callable[[], float]) -> None:
        """Report the age of the oldest cost of a plan."""
        self._ages.set_function(seconds)

    def watch_pods(self, rank: str, count: Callable[[], float]) -> None:
        """Report how many pods have a rank (`known`), or none (`missing`)."""
        self._pods.labels(rank).set_function(count)

    def watch_samples(self, source: str, seconds: Callable[[], float]) -> None:
        """Report the age of the oldest sample of a source."""
        self._samples.labels(source).set_function(seconds)

    def watch_ranks(self, seconds: Callable[[], float]) -> None:
        """Report the age of the oldest ranks of a group whose costs are kept current."""
        self._ranks.set_function(seconds)

    def watch_rivals(self, count: Callable[[], float]) -> None:
        """Report how many PodGroupCosts do not count."""
        self._rivals.set_function(count)

    # Recorded when it happens.

    def record_source_failure(self, source: str) -> None:
        """A source of signals gave no values when it was asked."""
        self._source_failures.labels(source).inc()

    def add_held_requests(self, count: int) -> None:
        """So many requests more, or less, are being held."""
        self._holding.inc(count)

    def record_request(self, outcome: HoldOutcome, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(outcome.value).inc()
        self._held.labels(outcome.value).observe(seconds)
        if outcome in FALLBACKS:
            self._fallbacks.labels(outcome.value).inc()

    def record_fallback(self, outcome: HoldOutcome) -> None:
        """The server admitted a request without a decision."""
        self._fallbacks.labels(outcome.value).inc()

    def record_unprepared(self, reason: str) -> None:
        """Not all costs of subsets were written before a request was planned."""
        self._unprepared.labels(reason).inc()

    def record_unranked_fallback(self) -> None:
        """Costs that were kept current were reverted, because some pods had no rank."""
        self._fallbacks.labels(HoldOutcome.UNRANKED.value).inc()

    def record_skews(self, check: LevelCheck, mode: str) -> None:
        """The skews of a scale-down that has ended."""
        states = (("before", check.before), ("planned", check.possible), ("stock", check.stock), ("after", check.skew))
        for state, skew in states:
            self._skew.labels(check.topology_key, state, mode).observe(skew)

    def record_planned_skews(self, plan: Plan) -> None:
        """The skews of a scale-down by costs that are kept current, whose result is not checked."""
        for each in plan.levelings:
            for state, skew in (("before", each.skew_before), ("planned", each.skew_after), ("stock", each.skew_stock)):
                self._skew.labels(each.topology_key, state, "enforce").observe(skew)

    def record_unreported_plan(self, reason: str) -> None:
        """Count a scale-down whose plan is not reported."""
        self._unreported.labels(reason).inc()

    def record_costs_written(self, count: int) -> None:
        """So many costs were written."""
        self._written.inc(count)

    def record_unhedged(self, reason: Unhedged) -> None:
        """A plan was delivered without costs for the case that starting pods become ready."""
        self._unhedged.labels(reason.value).inc()

    def record_costs_reverted(self, count: int, reason: str) -> None:
        """So many costs were reverted."""
        if count:
            self._reverted.labels(reason).inc(count)

    def record_costs_not_reverted(self, count: int, reason: str) -> None:
        """So many costs were not reverted in time."""
        if count:
            self._not_reverted.labels(reason).inc(count)

    def record_misses(self, cause: MissCause, count: int) -> None:
        """So many pods were deleted that were to stay."""
        if count:
            self._misses.labels(cause.value).inc(count)

    def record_result(self, result: LevelResult, cause: str, mode: str) -> None:
        """A scale-down has ended."""
        self._results.labels(mode, result.value, cause).inc()

    def record_deletion(self, decision: str) -> None:
        """A pod was deleted as planned."""
        self._deleted.labels(decision).inc()

    # Constructors.

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"trimtab_scaledown_{name}_total", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"trimtab_scaledown_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, buckets: tuple[float, ...], text: str, *labels: str) -> Histogram:
        return Histogram(f"trimtab_scaledown_{name}", text, labels, buckets=buckets, registry=self.registry)
