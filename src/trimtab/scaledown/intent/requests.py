"""The values that a request to scale down passes through: the request, its budget of time, the plan, and the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trimtab.kube.clocks import SECOND, Clock
from trimtab.ranking.plan import Plan
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.scaledown.view import Workload

if TYPE_CHECKING:
    from trimtab.scaledown.results.open_plans import OpenPlan

BUDGET = 2.0
"""Seconds for which a request is held at most; the API server is configured to wait a second longer."""
ANSWER = 0.1
"""Seconds of the budget that are left for answering: nothing is waited for in them."""


@dataclass(frozen=True, slots=True)
class ScaleDownRequest:
    """A request to reduce the size of a workload, as a review describes it. Nothing in it has been verified."""

    kind: str
    """Deployment, ReplicaSet, ReplicationController, CloneSet, or one that the configuration names."""
    namespace: str
    name: str
    uid: str
    """The workload's; reviews of `/scale` have it too."""
    before: int
    after: int
    user: str = ""
    resource_version: str = ""
    """Of the workload that the review is about; empty where it is not known."""
    arrived: int | None = field(default=None, compare=False)
    """When the review arrived, on the monotonic clock; None if its budget counts from when it is held."""

    @property
    def workload(self) -> str:
        """The workload as plans name it: `Deployment/web`."""
        return f"{self.kind}/{self.name}"

    @property
    def key(self) -> str:
        """`namespace/Kind/name`."""
        return f"{self.namespace}/{self.workload}"


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """The time that a request may take, from its arrival."""

    clock: Clock
    started: int
    """On the monotonic clock."""
    seconds: float

    def elapsed(self) -> float:
        """Seconds since the request arrived."""
        return (self.clock.monotonic() - self.started) / SECOND

    def left(self, seconds: float) -> float:
        """How many of the first `seconds` of the budget are left."""
        return max(0.0, seconds - self.elapsed())

    def until_answer(self) -> float:
        """Seconds for which something may be waited for."""
        return self.left(self.seconds - ANSWER)

    def moment(self, seconds: float) -> int:
        """The moment, on the monotonic clock, at which so many seconds have passed."""
        return self.started + round(seconds * SECOND)


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request whose workload was verified (see `gate`), and the policy that applies to it.

    `skip` says why it is not to be planned, where it is not.
    """

    request: ScaleDownRequest
    workload: Workload
    policy: EffectivePolicy
    budget: TimeBudget
    skip: HoldOutcome | None = None
    skip_warnings: tuple[str, ...] = ()
    """More about why it was not planned, where it was not."""
    notes: tuple[str, ...] = ()
    """Warnings for its user, whatever comes of it."""

    @property
    def key(self) -> str:
        """`namespace/Kind/name` of the workload."""
        return self.request.key

    @property
    def identity(self) -> tuple[str, int, int]:
        """The same for all repeats of a request: nothing about the workload has changed in between."""
        metadata = self.workload.metadata
        return metadata.uid, metadata.generation, self.request.after


@dataclass(frozen=True, slots=True)
class HoldResult:
    """The outcome of holding a request, and the warnings for its user."""

    outcome: HoldOutcome
    warnings: tuple[str, ...] = ()
    error: str = ""
    """For the policy's status: more detailed than the warnings."""
    plan: OpenPlan | None = None
    """The plan whose result will be checked, if there is one."""
    costs_written: int = 0


@dataclass(frozen=True, slots=True)
class DeliveredPlan:
    """A plan whose costs were written, for reports."""

    policy: EffectivePolicy
    kind: str
    namespace: str
    name: str
    before: int
    after: int
    plans: tuple[Plan, ...]
    """One, or one for each ReplicaSet."""
    at: int
    """The time of day, in nanoseconds."""
    error: str = ""
    """Why not all of its costs could be written."""
