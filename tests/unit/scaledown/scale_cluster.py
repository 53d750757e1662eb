"""A cluster in which requests to scale down are held: the lab's API server calls Trimtab's hook, without a socket.

cluster = ScaleCluster()
await cluster.start()
await cluster.add_zones(a=3, b=3)              # nodes
await cluster.deploy(6)                        # placed on the nodes by turns, and ready
await cluster.scale(4)                         # requests, waits while it is held, and runs the controllers
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

from tests.lab.holding import VALIDATING, configuration
from tests.lab.rollouts import KIND
from tests.unit.scaledown.policy_cluster import KINDS
from trimtab.admission.certificates import CONFIGURATIONS
from trimtab.admission.server import AdmissionServer, admitted
from trimtab.api import codec
from trimtab.api.admission import AdmissionReview, answer
from trimtab.api.annotations import DELETION_COST, PlanAnnotation, plan_annotation
from trimtab.api.apps import Deployment
from trimtab.api.meta import ObjectReference
from trimtab.api.nodes import ZONE, Node
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock, cancel
from trimtab.kube.transport import Request
from trimtab.scaledown.intent.gate import MatchPods, Tiers, no_match, no_tiers
from trimtab.scaledown.intent.hold_settings import HoldSettings
from trimtab.scaledown.intent.holder import ScaleDownHolder
from trimtab.scaledown.intent.planner import PolicyOf, strategies_of
from trimtab.scaledown.intent.requests import DeliveredPlan, ScaleDownRequest
from trimtab.scaledown.intent.reviews import ScaleReviews
from trimtab.scaledown.policy.defaults import LEVEL_EVERYONE, Defaults
from trimtab.scaledown.view import View
from trimtab_lab.apiserver.admission.admission_reviews import CallError
from trimtab_lab.testing import InMemoryLab, Wire
from trimtab_lab.testing.labs import JSON

T = TypeVar("T")
RULES = [
    {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["*", "*/scale"]},
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["replicationcontrollers/*"]},
    {"apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["clonesets/scale"]},
    {"apiGroups": [KIND.group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*", "*/scale"]},
]


class NoCertificates:
    """For an edge without connections."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    synced = True
    problems: list[str] = []

    async def ready(self) -> None:
        """It never listens."""

    async def run(self) -> None:
        """There is nothing to keep."""


class Ahead:
    """A clock whose time of day is so many seconds ahead of another's."""

    def __init__(self, clock: Clock, seconds: int) -> None:
        self._clock = clock
        self._seconds = seconds

    def now(self) -> int:
        """The time of day."""
        return self._clock.now() + self._seconds * SECOND

    def monotonic(self) -> int:
        """As the other clock."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """As the other clock does."""
        await self._clock.sleep(seconds)


class ScaleCluster(InMemoryLab):
    """A cluster whose API server calls Trimtab before a workload shrinks."""

    def __init__(
        self,
        *,
        seed: int = 1,
        defaults: Defaults = LEVEL_EVERYONE,
        policy_of: PolicyOf = strategies_of,
        tiers: Tiers = no_tiers,
        match_pods: MatchPods = no_match,
        owners: ReplicaSetOwners = DEPLOYMENTS,
        **settings: Any,
    ) -> None:
        super().__init__(seed=seed, kinds=KINDS, call=self._ask)
        self.owners = owners
        self.settings = HoldSettings(**settings)
        self.defaults = defaults
        self.policy_of = policy_of
        self.tiers = tiers
        self.match_pods = match_pods
        self.product = self.connect()
        self.asked = 0
        self.answers: list[tuple[str, ...]] = []
        """The warnings of every answer."""
        self.unasked = False
        """Whether requests are admitted without calling Trimtab."""
        self.reading = 0.0
        """Seconds for which a review has been read when it is decided."""
        self.storing = 0.0
        """Seconds from an answer of Trimtab until the API server stores the request."""
        self.events: list[tuple[str, str]] = []
        """The reasons and messages of events on workloads."""
        self.place_on("node-0")
        self._tasks: list[asyncio.Future[None]] = []

    # Trimtab.

    async def prepare(self) -> None:
        """Let the API server call Trimtab."""
        asks = configuration("default", "https://trimtab.invalid/scale", RULES)
        await self.user.create(CONFIGURATIONS[VALIDATING], asks)

    async def start(self) -> None:
        """Start the workload controllers and Trimtab."""
        await super().start()
        await self.start_product()

    def record(self, about: ObjectReference, severity: str, reason: str, message: str) -> None:  # noqa: ARG002
        """Keep an event, as an event recorder would write it."""
        self.events.append((reason, message))

    async def start_product(self) -> None:
        """Start Trimtab, with nothing remembered."""
        self.product = self.connect()
        client = self.product_client = self.client(self.product)
        self.view = View(client, owners=self.owners, rng=random.Random(1))
        self.delivered: list[DeliveredPlan] = []
        self.holder = ScaleDownHolder(
            client,
            self.view,
            defaults=self.defaults,
            settings=self.settings,
            policy_of=self.policy_of,
            on_plan=self.delivered.append,
            tiers=self.tiers,
            match_pods=self.match_pods,
            recorder=self,
        )
        self.edge = AdmissionServer(
            ScaleReviews(self.holder.hold, owners=self.owners).hooks,
            certificates=NoCertificates(),
            host="",
            port=0,
            clock=self.clock,
        )
        self._tasks = [asyncio.ensure_future(part) for part in (self.view.run(), self.holder.run())]
        await self.settle()

    @contextlib.asynccontextmanager
    async def replica(self, *, ahead: int = 0) -> AsyncIterator[ScaleDownHolder]:
        """Another process of Trimtab, whose clock is so many seconds ahead."""
        client = Client(Wire(self.cluster), clock=Ahead(self.clock, ahead), rng=random.Random(2))
        view = View(client, rng=random.Random(2))
        holder = ScaleDownHolder(client, view, defaults=self.defaults, settings=self.settings, policy_of=self.policy_of)
        tasks = [asyncio.ensure_future(part) for part in (view.run(), holder.run())]
        await self.settle()
        try:
            yield holder
        finally:
            await cancel(*tasks)

    async def resume(self) -> None:
        """Start the workload controllers again, and let them do what they have to do."""
        await super().start()
        await self.run_pods()

    async def stop_product(self, *, killed: bool = False) -> None:
        """End Trimtab; killed, whatever it was about to write is lost."""
        self.product.dead = killed
        await cancel(*self._tasks)
        self._tasks = []

    async def close(self) -> None:
        """End everything."""
        await self.stop_product()
        await super().close()

    async def _ask(self, config: JSON, body: bytes, timeout: float) -> bytes:  # noqa: ARG002 - a Call
        """Call the hook as an API server does; it fails where Trimtab is not running."""
        if not self._tasks or self.product.dead:
            raise CallError("connection refused")
        request = codec.decode(body, AdmissionReview).request
        assert request is not None
        if self.unasked:
            return codec.encode(answer(admitted(request)))
        self.asked += 1
        arrived = self.clock.monotonic() - round(self.reading * SECOND)
        response = await self.edge.decide(self.edge.hooks["/scale"], request, timeout=timeout, arrived=arrived)
        self.answers.append(tuple(response.warnings))
        if self.storing:
            await self.clock.sleep(self.storing)
        return codec.encode(answer(response))

    # What a test does.

    async def held(self, request: Awaitable[T]) -> tuple[T, float]:
        """What a request gives, and how many seconds it was held."""
        task = asyncio.ensure_future(request)
        started = self.clock.now()
        while not task.done():
            await self.clock.advance(0.01)
        took = (self.clock.now() - started) / 1e9
        await self.settle()
        return task.result(), took

    async def grow(self, replicas: int, *nodes: str) -> None:
        """Scale up; the new pods are placed on these nodes by turns, a while after the others."""
        await self.clock.advance(3600)
        self.place_on(*nodes)
        await self.user.resize(Deployment, "web", replicas, namespace="default")
        await self.settle()
        await self.run_pods()

    async def scale(self, replicas: int, name: str = "web", kind: type[Any] = Deployment) -> float:
        """`kubectl scale`, and wait until the pods have come or gone; how long it was held."""
        _, took = await self.held(self.user.resize(kind, name, replicas, namespace="default"))
        await self.run_pods()
        return took

    async def request(
        self, after: int, *, name: str = "web", kind: str = "Deployment", **changes: Any
    ) -> ScaleDownRequest:
        """What a review of a workload as it is would say."""
        resource = {"Deployment": Deployment}[kind]
        live = await self.get(resource, name)
        fields = {
            "kind": kind,
            "namespace": "default",
            "name": name,
            "uid": live.metadata.uid,
            "before": live.spec.replicas,
            "after": after,
        }
        return ScaleDownRequest(**{**fields, **changes})

    async def spread(self) -> tuple[int, ...]:
        """How many pods each zone has, by the zones' names."""
        nodes = (await self.user.list(Node)).items
        zone = {each.metadata.name: each.metadata.labels.get(ZONE, "") for each in nodes}
        counts = Counter(zone[pod.spec.node_name] for pod in await self.pods())
        return tuple(counts[each] for each in sorted(set(zone.values())))

    async def costs(self) -> list[int]:
        """The costs on pods, in order."""
        found = [pod.metadata.annotations.get(DELETION_COST) for pod in await self.pods()]
        return sorted(int(cost) for cost in found if cost is not None)

    async def plan_annotations(self) -> list[PlanAnnotation]:
        """The annotations on pods."""
        return [mark for pod in await self.pods() if (mark := plan_annotation(pod.metadata.annotations)) is not None]

    def writes(self) -> list[Request]:
        """What Trimtab wrote."""
        return [request for request in self.product.requests if request.method != "GET"]

    def count(self, name: str, **labels: str) -> float:
        """The value of one of Trimtab's metrics; 0 where there is none yet."""
        return self.holder.metrics.registry.get_sample_value(f"trimtab_scaledown_{name}", labels) or 0.0
