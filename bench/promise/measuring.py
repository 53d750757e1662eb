"""One scale-down, measured: what was there, what was asked for, what was written, what is left."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.promise.comparison import COST, JSON, SECOND, PodFacts, is_ready, read_pods
from bench.promise.levels import best_layout, skew, written
from bench.promise.outcomes import SMALL, possible_outcomes
from bench.promise.plans import foresight
from bench.promise.stage import PATIENCE, Stage
from bench.promise.watching import EventSeen
from bench.promise.workloads import Workload
from trimtab.kube.errors import ApiError


@dataclass
class Round:
    """A scale-down as it went. Times in seconds; `requested_at` is our monotonic time."""

    workload: str
    kind: str
    before: dict[str, int]
    best: dict[str, int]
    """The most level layout that costs can reach."""
    target: int
    pods: list[dict[str, Any]]
    """The pods when the request was made: node, zone, ages, restarts, readiness, cost."""
    after: dict[str, int] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    costs_before: int = 0
    """Pods that carried a cost before the request."""
    pods_with_cost: int = 0
    """Pods that got a cost between the request and the end."""
    cost_writes: int = 0
    became_unready: int = 0
    """Pods that became unready meanwhile: they go first whatever they cost."""
    request_seconds: float = 0.0
    settle_seconds: float = 0.0
    requested_at: float = 0.0
    error: str = ""
    is_certain: bool | None = None
    """Whether every outcome without costs is as level as possible; None for layouts too large to tell."""
    was_possible: bool | None = None
    """Whether the pods that went, with the costs they had, are a set that the controller could choose."""
    is_foreseen: bool | None = None
    """The same by Trimtab's own plan."""
    is_named: bool | None = None
    """Whether they are the set that the plan names; None where it leaves more than one possible."""
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def skew(self) -> int:
        """The skew that was left."""
        return skew(self.after)

    @property
    def is_unlevel(self) -> bool:
        """Whether the skew is above 1 although 1 was possible."""
        return not self.error and self.skew > max(1, skew(self.best))

    @property
    def is_worse_than_possible(self) -> bool:
        """Whether a smaller skew was possible, even if this one satisfies a maxSkew of 1."""
        return not self.error and self.skew > skew(self.best)

    def tree(self) -> JSON:
        """Everything, for the file of details."""
        return {**asdict(self), "skew": self.skew, "is_unlevel": self.is_unlevel}

    def line(self) -> str:
        """In one line, for people."""
        outcome = self.error or f"{written(self.after)} (possible {written(self.best)})"
        ages = [pod["ready_age"] for pod in self.pods if pod["ready_age"] is not None]
        span = f"ages {min(ages):.1f}–{max(ages):.1f} s, " if ages else ""
        said = f"; {' | '.join((*self.warnings, *self.events))}" if self.warnings or self.events else ""
        unready = f", {self.became_unready} pods became unready" if self.became_unready else ""
        return (
            f"{self.kind}/{self.workload}: {written(self.before)} → {self.target}: {outcome}, {span}"
            f"{self.pods_with_cost} costs{unready}{said}"
        )


class Measurement:
    """A scale-down under way: create it right before the request, then `request`, then `finish`."""

    def __init__(self, stage: Stage, workload: Workload, target: int) -> None:
        self._stage = stage
        self._workload = workload
        self._started = time.time_ns()
        self._pods = list(stage.pods.active(workload.name))
        self._costs: dict[str, str] = {}
        self._facts = read_pods(self._pods, has_related=workload.has_related_pods)
        delete = max(0, len(self._pods) - target)
        self.round = Round(
            workload=workload.name,
            kind=workload.kind.kind,
            before=stage.layout(workload),
            best=best_layout(self._facts, delete, stage.zones),
            target=target,
            pods=[
                _pod_line(pod, facts, stage, self._started) for pod, facts in zip(self._pods, self._facts, strict=True)
            ],
            costs_before=sum(COST in pod["metadata"].get("annotations", {}) for pod in self._pods),
            requested_at=time.monotonic(),
        )

    async def request(self) -> None:
        """Ask for the size, and record the warnings and how long the answer took."""
        self.round.requested_at = time.monotonic()
        try:
            self.round.warnings = await self._stage.scale(self._workload, self.round.target)
        except ApiError as error:
            self.round.error = f"the request failed: {error}"
        self.round.request_seconds = time.monotonic() - self.round.requested_at

    async def finish(self, patience: float = PATIENCE) -> Round:
        """Wait until the workload has its size, and record what is left."""
        try:
            await self._stage.wait_size(self._workload, self.round.target, patience=patience)
        except TimeoutError as error:
            self.round.error = str(error)
        self.record()
        return self.round

    def record(self) -> None:
        """Record what is left now, and what has been written since the request."""
        stage, result = self._stage, self.round
        now = time.monotonic()
        result.settle_seconds = now - result.requested_at
        result.after = stage.layout(self._workload)
        left = {pod["metadata"]["name"] for pod in stage.pods.active(self._workload.name)}
        result.deleted = sorted(pod["metadata"]["name"] for pod in self._pods if pod["metadata"]["name"] not in left)
        self._costs = {}
        for each in stage.pods.cost_writes:
            if each.app == self._workload.name and result.requested_at <= each.at <= now:
                self._costs[each.pod] = each.cost
                result.cost_writes += 1
        result.pods_with_cost = len(self._costs)
        losses = [each for each in stage.pods.readiness_losses if each.app == self._workload.name]
        result.became_unready = sum(result.requested_at <= each.at <= now for each in losses)

    def evaluate(self, window: float | None = None) -> None:
        """Compare with the brute force; slow, so it is done when no round is under way.

        `window` is in how many seconds the controller acts, if that is not what the options say.
        """
        if self.round.error:
            return
        self._compare_with_plan(window)
        if len(self._facts) > SMALL:
            return
        options, delete = self._stage.options, len(self._facts) - self.round.target
        tolerance, length = (round(each * SECOND) for each in (options.tolerance, window or options.window))
        span = (self._started - tolerance, self._started + length + tolerance)
        outcomes = possible_outcomes(self._facts, delete, self._stage.zones, span, random.Random(0))
        self.round.is_certain = max(outcomes.skews) <= skew(self.round.best)
        self.round.was_possible = self._is_possible(delete)

    def _compare_with_plan(self, window: float | None) -> None:
        options, has_related = self._stage.options, self._workload.has_related_pods
        tolerance, length = (round(each * SECOND) for each in (options.tolerance, window or options.window))
        span = (self._started - tolerance, self._started + length + tolerance)
        deleted = frozenset(self.round.deleted)
        found = foresight(self._pods_at_deletion(), deleted, self._stage.zones, span, has_related=has_related)
        self.round.is_foreseen, self.round.is_named = found.is_possible, found.is_named

    def _pods_at_deletion(self) -> list[JSON]:
        """The pods with the costs that were written meanwhile."""
        return [_with_cost(pod, self._costs.get(pod["metadata"]["name"])) for pod in self._pods]

    def _is_possible(self, delete: int) -> bool:
        """Whether upstream's order allows what was deleted, with the costs that were written meanwhile."""
        facts = read_pods(self._pods_at_deletion(), has_related=self._workload.has_related_pods)
        span = (self._started, self._started + round(self.round.settle_seconds * SECOND))
        outcomes = possible_outcomes(facts, delete, self._stage.zones, span, random.Random(0))
        return frozenset(self.round.deleted) in outcomes.sets


def attach_events(rounds: Sequence[Round], seen: Sequence[EventSeen]) -> None:
    """Give each round the events on its workload that came after its request and before the next one's."""
    for each in rounds:
        later = [other.requested_at for other in rounds if other.workload == each.workload]
        end = min((at for at in later if at > each.requested_at), default=float("inf"))
        each.events = [
            f"{event.reason}: {event.message}"
            for event in seen
            if event.app == each.workload and each.requested_at <= event.at < end
        ]


def _with_cost(pod: JSON, cost: str | None) -> JSON:
    if cost is None:
        return pod
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), COST: cost}}}


def _pod_line(pod: JSON, facts: PodFacts, stage: Stage, now: int) -> dict[str, Any]:
    return {
        "name": facts.name,
        "uid": facts.uid,
        "node": facts.node,
        "zone": stage.zones.get(facts.node, ""),
        "ready": is_ready(pod),
        "ready_age": _age(facts.ready_at, now),
        "created_age": _age(facts.created_at, now),
        "restarts": facts.restarts,
        "cost": pod["metadata"].get("annotations", {}).get(COST),
    }


def _age(time_ns: int | None, now: int) -> float | None:
    return None if time_ns is None else round((now - time_ns) / SECOND, 3)
