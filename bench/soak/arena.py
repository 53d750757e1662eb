"""What faults and checks work with: the lab, Trimtab's processes, the workloads, and requests as users make them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bench.promise import watching
from bench.promise.comparison import JSON
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload
from bench.soak import judging
from bench.soak.installation import Installation
from bench.soak.judging import Failure
from bench.soak.lab import Lab
from bench.soak.ledger import Ledger
from bench.soak.outages import Outages
from bench.soak.players import LIMITS, PLAIN, UNITED
from bench.soak.zones import Zones
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError

T = TypeVar("T")


class NoEffectError(Exception):
    """A fault could not be carried out, because an earlier one was in the way."""


@dataclass
class Arena:
    """Everything about a run."""

    lab: Lab
    installation: Installation
    stage: Stage
    ledger: Ledger
    zones: Zones
    preload: str
    """The library that shifts clocks; empty where there is none."""
    webhook_outages: Outages = field(default_factory=Outages)
    """When a webhooks replica was killed."""
    sizes: dict[str, int] = field(default_factory=dict)
    """The size that each Deployment is to have, by our own watch."""
    history: dict[str, JSON] = field(default_factory=dict)
    """Records of scale-downs of all webhook replicas, by identifier, with when we first saw them."""
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    """Faults that last, and scale-downs that are being watched."""
    seconds: list[float] = field(default_factory=list)
    """How long scale requests took, as users measure it, while the API server was up."""
    _touched: dict[str, float] = field(default_factory=dict)

    @property
    def client(self) -> Client:
        """A client with the administrator's credentials, which does not retry."""
        return self.stage.client

    @property
    def namespace(self) -> str:
        """The namespace of the workloads."""
        return self.stage.namespace

    @property
    def strange(self) -> str:
        """The namespace of objects that cannot be read."""
        return f"{self.stage.run}-strange"

    def touch(self, *names: str) -> None:
        """Note that a fault changes the pods of these workloads now; of all, without names."""
        for name in names or (*PLAIN, UNITED):
            self._touched[name] = time.monotonic()

    def was_touched(self, name: str, since: float) -> bool:
        """Whether a fault has changed the pods of a workload since a moment."""
        return self._touched.get(name, 0.0) > since

    async def request(self, what: str, call: Awaitable[T]) -> T:
        """Make a request as a user does. Raises NoEffectError if it fails; a refusal of ours breaks an invariant."""
        began = time.monotonic()
        try:
            answer = await call
        except ApiError as error:
            reason = judging.failure(error, is_outage=self.lab.outages.overlap(began, time.monotonic()))
            self.ledger.note(f"failed requests: {reason.value}")
            is_ours = reason in (Failure.BY_US, Failure.UNEXPLAINED)
            self.ledger.check(judging.NOT_REFUSED, not is_ours, f"{what}: {type(error).__name__}: {error}")
            raise NoEffectError(f"{what}: {error}") from error
        self.ledger.check(judging.NOT_REFUSED, holds=True)
        return answer

    def handle_pod(self, change: str, pod: JSON) -> None:
        """Take a change of a pod in, and check the limits of subsets with each."""
        self.stage.pods.handle(change, pod)
        if pod["metadata"].get("labels", {}).get(watching.APP) == UNITED:
            self.check_limits()

    def check_limits(self) -> None:
        """Check the limits of subsets."""
        exceeded = judging.exceeded_limits(self.stage.pods.pods[UNITED].values(), LIMITS)
        self.ledger.check(judging.LIMITS, not exceeded, "; ".join(exceeded))

    def handle_deployment(self, change: str, tree: JSON) -> None:
        """Take a change of a Deployment in."""
        if change != "DELETED":
            self.sizes[tree["metadata"]["name"]] = tree["spec"]["replicas"]

    def pods(self) -> list[JSON]:
        """All pods of the run, as our watch has shown them."""
        return [pod for group in self.stage.pods.pods.values() for pod in group.values()]

    def records(self, workload: str, since: float) -> list[JSON]:
        """The records of a workload's scale-downs since a moment."""
        return [each for each in self.history.values() if each["name"] == workload and each["seen"] >= since]

    def start(self, work: Any) -> None:
        """Let something go on beside the next steps; the quiet point waits for it."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.ledger.check(judging.RECOVERS, holds=False, detail=f"{type(error).__name__}: {error}")


def deployment(name: str) -> Workload:
    """The Deployment of this name."""
    return Workload(DEPLOYMENTS, name)


def pick(rng: random.Random, pods: Sequence[JSON]) -> JSON:
    """A pod; the choice depends on the random numbers and on the names."""
    if not pods:
        raise NoEffectError("there is no pod")
    return rng.choice(sorted(pods, key=lambda pod: str(pod["metadata"]["name"])))
