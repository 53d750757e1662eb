"""Random histories of a workload with subsets: no limit is exceeded, nothing drifts, no entry is left.

Random events on a whole cluster in virtual time: sizes, rollouts, deletions, evictions, failures, watches that lag,
subsets renamed, the UnitedTopology made anew, processes that die at any moment, also between a reservation and its pod.
After each of them and at the end:

1. no revision has more pods with a place in a subset than that subset's maximum;
2. no pod creation was refused;
3. in the end, when all is quiet, the status is what a count of the pods gives, and no entry is left in it.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.scenarios.topologies import SubsetCluster
from tests.unit.lab.workloads.objects import template
from tests.unit.unitedtopology.clusters import subset, topology_tree
from trimtab.api import annotations as keys
from trimtab.api.apps import Deployment
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.errors import ApiError
from trimtab.subsets.members import revision_of

MOST = {"a": 3, "b": 2}
EVENTS = 24
KINDS = ("pods", "unitedtopologies", "replicasets", "deployments", "nodes")


class Chance:
    """One run: a cluster, and the events that may happen in it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = SubsetCluster(seed=seed, processes=2)
        self.revision = 1
        self.size = 6
        self.lagging: set[str] = set()
        self.suffix = ""
        """What the names of the subsets with a maximum end with now."""

    async def begin(self) -> None:
        """A Deployment of six pods with subsets."""
        await self.world.start()
        await self.world.create_topology(*self._subsets())
        await self.world.deploy(self.size)

    def _subsets(self) -> list[JSON]:
        limited = [subset(f"{name}{self.suffix}", at, MOST[name]) for name, at in (("a", "z1"), ("b", "z2"))]
        return [*limited, subset("c", "z3")]

    async def step(self) -> str:
        """Let one thing happen; what it was."""
        event = self.rng.choice(self._events())
        await event()
        if self.rng.random() < 0.7:
            await self.world.settle()
        if self.rng.random() < 0.5:
            await self.world.run_pods(self.rng.randrange(1, 5))
        return event.__name__

    def _events(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.scale, self.scale, self.delete, self.evict, self.fail, self.wait]
        rarely = [self.roll_out, self.lag, self.catch_up, self.kill_webhooks, self.kill_controller, self.die_in_between]
        return [*often, *rarely, self.rename, self.make_anew]

    async def rename(self) -> None:
        """The subsets get other names, when no pod is on its way."""
        await self.world.settle()
        self.suffix = "" if self.suffix else "-2"
        changed = {"spec": {"subsets": self._subsets()}}
        await self.world.user.patch(UnitedTopology, "web", changed, namespace="default")

    async def make_anew(self) -> None:
        """The UnitedTopology is deleted, and made again at once, when no pod is on its way."""
        await self.world.settle()
        await self.world.user.delete(UnitedTopology, "web", namespace="default")
        await self.world.user.create(UnitedTopology, topology_tree(*self._subsets()), namespace="default")

    async def scale(self) -> None:
        """The workload is resized without a call to a webhook."""
        self.size = self.rng.randrange(1, 11)
        with contextlib.suppress(ApiError):
            await self._resize()

    async def _resize(self) -> None:
        patch = {"spec": {"replicas": self.size}}
        await self.world.user.patch(Deployment, "web", patch, namespace="default")

    async def delete(self) -> None:
        """A pod is deleted."""
        pod = await self._some_pod()
        if pod is not None:
            with contextlib.suppress(ApiError):
                await self.world.user.delete(Pod, pod.metadata.name, namespace="default")

    async def evict(self) -> None:
        """A pod is evicted."""
        pod = await self._some_pod()
        if pod is not None:
            with contextlib.suppress(ApiError):
                await self.world.user.evict(pod.metadata.name, namespace="default")

    async def fail(self) -> None:
        """A pod fails."""
        pod = await self._some_pod()
        if pod is not None:
            status = {"status": {"phase": "Failed"}}
            await self.world.user.patch(Pod, pod.metadata.name, status, namespace="default", subresource="status")

    async def roll_out(self) -> None:
        """The template changes."""
        self.revision += 1
        changed = {"spec": {"template": template(f"app:{self.revision}", app="web")}}
        await self.world.user.patch(Deployment, "web", changed, namespace="default")

    async def lag(self) -> None:
        """The controller's watches of some kind show nothing new."""
        kind = self.rng.choice(KINDS)
        if kind not in self.lagging:
            self.lagging.add(kind)
            self.world.controller_wire.hold(kind)

    async def catch_up(self) -> None:
        """They go on."""
        self.lagging.clear()
        self.world.controller_wire.resume()

    async def kill_webhooks(self) -> None:
        """A webhook process dies, and another one starts."""
        living = [process for process in self.world.processes if not process.dead]
        await self.world.kill_webhooks(self.rng.choice(living))
        await self.world.start_webhooks()

    async def kill_controller(self) -> None:
        """The controller dies, and another one starts."""
        await self.catch_up()
        await self.world.kill_controller()
        await self.world.start_controller()

    async def die_in_between(self) -> None:
        """A webhook process writes a reservation and ends before it responds."""
        living = [process for process in self.world.processes if not process.dead]
        process = self.rng.choice(living)
        process.mute = True
        self.size = min(self.size + 1, 12)
        with contextlib.suppress(ApiError):
            await self._resize()
        await self.world.settle()
        await self.world.kill_webhooks(process)
        await self.world.start_webhooks()

    async def wait(self) -> None:
        """Time passes."""
        await self.world.advance(self.rng.choice((0.5, 2.0, 10.0)))

    async def _some_pod(self) -> Pod | None:
        pods = await self.world.pods()
        return self.rng.choice(pods) if pods else None

    async def excess(self) -> dict[tuple[str, str], int]:
        """Subsets that have more pods of a revision than exist."""
        found: Counter[tuple[str, str]] = Counter()
        for pod in await self.world.pods():
            known = keys.subset_annotations(pod.metadata.annotations)
            if known is not None and known.reservation:
                found[revision_of(pod.metadata), known.subset.partition("-")[0]] += 1
        return {at: count for at, count in found.items() if count > MOST.get(at[1], 1000)}

    async def end(self) -> None:
        """Everything works again, and time enough passes for every entry to end."""
        await self.catch_up()
        await self._resize()
        for _ in range(4):
            await self.world.run_pods()
            await self.world.advance(30)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 7))
async def test_random_histories_keep_every_limit(seed: int) -> None:
    """The three invariants above, for one random life."""
    life = Chance(seed)
    await life.begin()
    history = []
    for _ in range(EVENTS):
        history.append(await life.step())
        assert await life.excess() == {}, history
    await life.end()
    world = life.world
    assert await life.excess() == {}, history
    assert await world.entries() == [], history
    pods = await world.pods()
    assert len(pods) == life.size
    counts = Counter(
        known.subset for pod in pods if (known := keys.subset_annotations(pod.metadata.annotations)) is not None
    )
    rows = await world.rows()
    assert {name: row.replicas for name, row in rows.items()} == {name: counts[name] for name in rows}, history
    renamed = {f"{name}{life.suffix}": most for name, most in MOST.items()}
    limited = {name: max(0, most - counts[name]) for name, most in renamed.items()}
    assert await world.missing() == {**limited, "c": -1}
    assert await world.event_messages("FailedCreate") == []
    await world.close()
