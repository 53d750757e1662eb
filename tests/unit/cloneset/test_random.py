"""Random scenarios in virtual time: scaling, failing, rolling out, the controller killed and restarted, stale caches,
quotas, refused writes of the status, pods that come and go by other hands.

Whatever happens, in whatever order:

- never more than the surge: a pod is created only while there are fewer than replicas + maxSurge;
- never less than the floor: an available pod is deleted only if replicas − maxUnavailable stay available;
- never a wrong victim: those that go are the first of the order, worked out anew by the slow twin of `ranking`; where
  ranks are promised, by rank, or after the wait without them;
- in the end everything is as wanted, and the status says so.

What a controller cannot know yet counts in its favour. *News* are things that happened behind its back (pods that
failed, requests of a dead process that arrived late, specs written) since it last had seen everything.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.unit.cloneset.assertions import PlanChecker
from tests.unit.cloneset.clusters import CloneSetCluster, manifest, template
from tests.unit.cloneset.test_controller import is_creation, is_deletion
from trimtab.api import codec, times
from trimtab.api.apps import ControllerRevision
from trimtab.api.cloneset import SPECIFIED_DELETE, CloneSet, CloneSetSpec
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.cloneset import instances, sizes
from trimtab.cloneset import plan as plans
from trimtab.cloneset.observation import Group
from trimtab.cloneset.plan import Plan, PlanContext
from trimtab.cloneset.settings import Settings
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import AlreadyExists, Unreachable
from trimtab.kube.queues import RETRY_BACKOFF
from trimtab.kube.resources import Resource
from trimtab.kube.transport import Request
from trimtab_lab.apiserver.kinds.errors import status_error

T = TypeVar("T")
NODES = {f"node-{number}": {ZONE: "y" if number == 2 else "x"} for number in range(3)}
AMOUNTS = st.sampled_from([0, 1, 2, "20%", "50%"])


@dataclass
class News:
    """What the controller may not have seen yet, at worst."""

    specs: list[CloneSetSpec] = field(default_factory=list)
    losses: int = 0
    """Pods that may be available in the controller's eyes, and are not."""
    late: int = 0
    """Pods that may be there without the controller's knowing."""

    @property
    def ceiling(self) -> int:
        """The most pods that anything it has seen allows."""
        found = [sizes.bounds(spec) for spec in self.specs]
        return max(each.replicas + each.surge for each in found) + self.late

    @property
    def floor(self) -> int:
        """The fewest available pods that anything it has seen allows."""
        found = [sizes.bounds(spec) for spec in self.specs]
        return min(each.replicas - each.unavailable for each in found) - self.losses


class CloneSets(RuleBasedStateMachine):
    """One CloneSet, and everything that can happen to it."""

    setup = Settings()

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = CloneSetCluster(self.setup)
        self.world.on_start = self.attach
        self.news = News()
        self.faults: list[str] = []
        self.checker = PlanChecker(NODES, ZONE)
        self.late: list[Request] = []
        self.dies_in: int | None = None
        self.held = False
        self.image = 1
        self.quota: int | None = None
        """How many pods there may be, as far as the server is concerned."""
        self.mute = 0
        """How many writes of the status will be refused."""
        self.turned_away: Request | None = None
        self.trouble: list[int] = []
        """The codes that the next writes will be answered with, whatever they are."""
        self.protected: str | None = None
        """The name of a pod that must not be deleted."""
        self.believed: set[str] = set()
        """The pods that were available when the last plan was made: others may be deleted at any time."""
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(plans, "plan", self.planned)
        self.patch.setattr(os, "urandom", random.Random(1).randbytes)  # names follow from UIDs

    def run(self, work: Awaitable[T]) -> T:
        """Do something in the world."""
        return self.loop.run_until_complete(work)

    def check(self) -> None:
        """Nothing has gone wrong so far."""
        assert not self.faults, self.faults

    # What is watched.

    def planned(self, context: PlanContext, group: Group) -> Plan:
        """Every plan is held against the order's own rule."""
        made = _plan(context, group)
        self.believed = {name for name, so in zip(group.names, group.available.tolist(), strict=True) if so}
        self.faults += self.checker.faults(context, group, made)
        return made

    def refuse(self, request: Request) -> Exception | None:
        """Before a request is answered: is it let through?"""
        refused = self.decision(request)
        if refused is not None:
            self.turned_away = request
        return refused

    def decision(self, request: Request) -> Exception | None:
        """Let the process die if its time has come, and refuse what is to be refused."""
        if request.method == "GET" or "/events" in request.path:
            return None
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                self.world.wire.dead = True
                self.late.append(request)
                return Unreachable("on its way")
        if self.trouble and not (request.method == "PATCH" and "/pods/" in request.path):
            return status_error(self.trouble.pop(), "not now")
        if is_creation(request) and self.quota is not None and len(self.active()) >= self.quota:
            return status_error(403, "exceeded quota")
        if self.protected is not None and is_deletion(request, self.protected):
            return status_error(403, "protected")
        if request.path.endswith("/status") and self.mute:
            self.mute -= 1
            return status_error(500, "no status today")
        return None

    def after(self, request: Request) -> None:
        """After a request was answered: are the bounds kept?"""
        if request is self.turned_away:
            return
        if is_creation(request):
            there = len(self.active())
            if there > self.news.ceiling:
                self.faults.append(f"{there} pods, and {self.news.ceiling} are the most")
        if is_deletion(request) and request.path.rpartition("/")[2] in self.believed:
            left = sum(self.is_available(pod.metadata.name) for pod in self.active())
            if left < self.news.floor:
                self.faults.append(f"{left} available pods are left, and {self.news.floor} are the fewest")

    def active(self) -> list[Pod]:
        """The pods that are there to stay and that it selects, as the server has them."""
        return [pod for pod in self.stored() if pod.active and pod.metadata.labels.get("app") == "web"]

    def stored(self) -> list[Pod]:
        """All pods, as the server has them."""
        collection = self.world.cluster.store.collection("/pods")
        return [codec.decode(entry.data, Pod) for entry in collection.entries.values()]

    def is_available(self, name: str) -> bool:
        """Whether a pod has served for as long as anything that the controller may have seen asks for at least."""
        pod = next((each for each in self.stored() if each.metadata.name == name), None)
        if pod is None or not pod.active or pod.status.phase != "Running":
            return False
        ready = pod.status.condition("Ready")
        if ready is None or ready.status != "True" or ready.last_transition_time is None:
            return False
        timeout = min(spec.min_ready_seconds for spec in self.news.specs)
        return times.to_ns(ready.last_transition_time) + timeout * SECOND <= self.world.clock.now() or not timeout

    def attach(self) -> None:
        """Watch what the running controller does."""
        self.world.wire.refuse, self.world.wire.after = self.refuse, self.after

    async def settle(self) -> None:
        """Let everybody do what they have to do; then, unless watches are held, everything is old news."""
        await self.world.settle()
        if not self.held and not self.world.wire.dead:
            self.news = News([(await self.world.cloneset()).spec])

    async def write(self, patch: dict[str, Any]) -> None:
        """Change the spec."""
        changed = await self.world.user.patch(CloneSet, "web", {"spec": patch}, namespace="default")
        self.news.specs.append(changed.spec)
        await self.settle()

    # What happens.

    @initialize(replicas=st.integers(0, 6))
    def begin(self, replicas: int) -> None:
        """A CloneSet on three nodes in two zones."""

        async def work() -> None:
            await self.world.start()
            for name, labels in NODES.items():
                await self.world.add_nodes(name, zone=labels[ZONE])
            tree = manifest(replicas, template=template(spread=ZONE), updateStrategy={"maxUnavailable": 1})
            made = await self.world.user.create(CloneSet, tree, namespace="default")
            self.news.specs.append(made.spec)
            await self.settle()

        self.run(work())
        self.check()

    @rule(replicas=st.integers(0, 8))
    def scale(self, replicas: int) -> None:
        """A user scales."""
        self.run(self.write({"replicas": replicas}))
        self.check()

    @rule()
    def roll_out(self) -> None:
        """A user rolls out a new image."""
        self.image += 1
        self.run(self.write({"template": template(f"app:{self.image}", spread=ZONE)}))
        self.check()

    @rule(image=st.integers(1, 2))
    def roll_back(self, image: int) -> None:
        """A user rolls back."""
        self.run(self.write({"template": template(f"app:{image}", spread=ZONE)}))
        self.check()

    @rule(unavailable=AMOUNTS, surge=AMOUNTS, timeout=st.sampled_from([0, 10]), growth=st.sampled_from([None, 1, 3]))
    def bound(self, unavailable: int | str, surge: int | str, timeout: int, growth: int | None) -> None:
        """A user changes the bounds."""
        if unavailable == 0 and surge == 0:
            surge = 1
        update = {"maxUnavailable": unavailable, "maxSurge": surge}
        scaling = {"maxUnavailable": growth}
        self.run(self.write({"updateStrategy": update, "scaleStrategy": scaling, "minReadySeconds": timeout}))
        self.check()

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        """A user pauses or resumes updates."""
        self.run(self.write({"updateStrategy": {"paused": paused}}))
        self.check()

    @rule(
        which=st.integers(0, 99),
        how=st.sampled_from(["specified", "named", "not ready", "failed", "deleted", "evicted", "released"]),
    )
    def befall(self, which: int, how: str) -> None:
        """Something happens to a pod."""

        async def work() -> None:
            pods = self.active()
            if not pods:
                return
            name = sorted(pod.metadata.name for pod in pods)[which % len(pods)]
            self.news.losses += how not in ("specified", "named")
            await self.harm(name, how)
            await self.settle()

        self.run(work())
        self.check()

    async def harm(self, name: str, how: str) -> None:
        """Do it."""
        user = self.world.user
        if how == "specified":
            patch = {"metadata": {"labels": {SPECIFIED_DELETE: "true"}}}
            await user.patch(Pod, name, patch, namespace="default")
        elif how == "named":
            await self.write({"scaleStrategy": {"podsToDelete": [name]}})
        elif how == "not ready":
            await self.world.run_pod(await self.world.get(Pod, name), ready=False)
        elif how == "evicted":
            await user.delete(Pod, name, namespace="default")
        elif how == "released":
            await user.patch(Pod, name, {"metadata": {"labels": {"app": "other"}}}, namespace="default")
        elif how == "failed":
            await user.patch(Pod, name, {"status": {"phase": "Failed"}}, namespace="default", subresource="status")
        else:
            await user.delete(Pod, name, namespace="default", grace_period_seconds=0)

    @rule(ahead=st.integers(0, 3), app=st.sampled_from(["web", "other"]), ours=st.booleans())
    def squat(self, ahead: int, app: str, ours: bool) -> None:
        """A user creates a pod, perhaps with a name that would be ours, perhaps one to be adopted."""

        async def work() -> None:
            metadata, status = (cloneset := await self.world.cloneset()).metadata, cloneset.status
            name = instances.instance(metadata, status.next_instance + ahead).name if ours else f"by-hand-{ahead}"
            self.news.late += app == "web"
            body = {"metadata": {"name": name, "labels": {"app": app}}, "spec": template()["spec"]}
            with suppress(AlreadyExists):
                await self.world.user.create(Resource.of(Pod).raw, body, namespace="default")
            await self.settle()

        self.run(work())
        self.check()

    @rule(which=st.integers(0, 99))
    def come_back(self, which: int) -> None:
        """A pod that was released, or was never its own, gets the labels that it selects."""

        async def work() -> None:
            others = [pod for pod in self.stored() if pod.active and pod.metadata.labels.get("app") != "web"]
            if not others:
                return
            self.news.late += 1
            name = sorted(pod.metadata.name for pod in others)[which % len(others)]
            patch = {"metadata": {"labels": {"app": "web"}}}
            await self.world.user.patch(Pod, name, patch, namespace="default")
            await self.settle()

        self.run(work())
        self.check()

    @rule(pods=st.none() | st.integers(0, 8))
    def limit(self, pods: int | None) -> None:
        """A quota, or none any more."""
        self.quota = pods

    @rule(codes=st.lists(st.sampled_from([403, 404, 409, 422, 500]), min_size=1, max_size=6))
    def stumble(self, codes: list[int]) -> None:
        """The next writes of the controller fail, each in its way; none in one that a client waits out by itself, with
        a decision in its hands that other news may overtake. Adoption does not: some codes mean that a pod is not to
        be had."""
        self.trouble = codes

    @rule(which=st.none() | st.integers(0, 99))
    def protect(self, which: int | None) -> None:
        """A pod that the controller may not delete, or none any more."""
        names = sorted(pod.metadata.name for pod in self.active())
        self.protected = None if which is None or not names else names[which % len(names)]

    @rule(writes=st.integers(1, 8))
    def silence(self, writes: int) -> None:
        """So many writes of the status will be refused."""
        self.mute = writes

    @rule(limit=st.integers(1, 6))
    def kubelets(self, limit: int) -> None:
        """Some pods start, some end."""
        self.run(self.world.run_pods(limit))
        self.run(self.settle())
        self.check()

    @rule(seconds=st.sampled_from([1, 6, 40, 400]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.run(self.world.advance(seconds))
        self.run(self.settle())
        self.check()

    @precondition(lambda self: not self.held)
    @rule(kinds=st.sampled_from([("pods",), ("clonesets",), ("pods", "clonesets"), ("controllerrevisions",)]))
    def hold(self, kinds: tuple[str, ...]) -> None:
        """Watches show nothing new for a while."""
        self.held = True
        self.world.wire.hold(*kinds)

    @precondition(lambda self: self.held)
    @rule()
    def go_on(self) -> None:
        """Watches show what they have."""
        self.held = False
        self.world.wire.resume()
        self.run(self.settle())
        self.check()

    @rule(writes=st.integers(0, 6))
    def doom(self, writes: int) -> None:
        """The controller will die at one of its next writes, which is then on its way."""
        self.dies_in = writes

    @rule()
    def restart(self) -> None:
        """The controller is killed, if it lives, and a new one starts."""
        self.dies_in = None
        self.held = False

        async def work() -> None:
            await self.world.kill()
            await self.world.start()
            await self.settle()

        self.run(work())
        self.check()

    @precondition(lambda self: bool(self.late))
    @rule()
    def arrive(self) -> None:
        """What a dead process had sent arrives after all."""
        late, self.late = self.late, []

        async def work() -> None:
            for request in late:
                self.news.late += request.method == "POST"
                self.news.losses += request.method == "DELETE"
                await self.world.user.transport.send(request)
            await self.settle()

        self.run(work())
        self.check()

    # The end.

    def teardown(self) -> None:
        """All faults end, and everything must then reach the desired state."""
        try:
            if self.news.specs:
                self.run(self.converge())
                self.check()
        finally:
            self.patch.undo()
            if self.news.specs:
                self.run(self.world.close())
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    async def converge(self) -> None:
        """A living controller, watches that show everything, pods that come up: in the end all is as wanted."""
        self.dies_in, self.quota, self.protected, self.mute, self.trouble = None, None, None, 0, []
        if self.held:
            self.held = False
            self.world.wire.resume()
        if self.world.wire.dead:
            await self.world.kill()
            await self.world.start()
        await self.write({"updateStrategy": {"paused": False}})
        await self.world.advance(RETRY_BACKOFF.cap)  # what was refused is tried again by then
        for _ in range(40):
            await self.world.run_pods()
            await self.world.advance(15)
        cloneset = await self.world.cloneset()
        wanted, status = cloneset.spec.replicas, cloneset.status
        pods = self.active()
        assert len(pods) == wanted
        assert all(self.is_available(pod.metadata.name) for pod in pods)
        assert all(SPECIFIED_DELETE not in pod.metadata.labels for pod in pods)
        assert not {pod.metadata.name for pod in pods} & set(cloneset.spec.scale_strategy.pods_to_delete)
        assert {each.containers[0].image for each in (pod.spec for pod in pods)} <= {_image(cloneset)}
        assert (status.replicas, status.ready_replicas, status.available_replicas) == (wanted,) * 3
        assert (status.updated_replicas, status.updated_available_replicas) == (wanted, wanted)
        assert status.observed_generation == cloneset.metadata.generation
        assert status.current_revision == status.update_revision
        assert status.conditions == ()
        newest = max(await self.world.all(ControllerRevision), key=lambda each: each.revision)
        assert newest.metadata.name == status.update_revision


class RankedCloneSets(CloneSets):
    """The same where a policy promises ranks, which come, or do not, or are of other pods than those that are there."""

    setup = Settings(pod_cost=True)

    @initialize(strategy=st.sampled_from(["Balance", "AntiAffinity"]), seconds=st.sampled_from([0, 30]))
    def promise(self, strategy: str, seconds: int) -> None:
        """A policy: with AntiAffinity each removal changes the ranks of the others."""
        waits = {"action": "Wait", "timeoutSeconds": seconds} if seconds else {"action": "Fallback"}
        tree = {"carrier": "PodGroupCost", "strategies": [{"name": strategy}], "whenUnranked": waits}
        self.world.policies["web"] = codec.convert(tree, ScaleDownPolicySpec)

    @precondition(lambda self: bool(self.news.specs))
    @rule(costs=st.lists(st.integers(0, 3), min_size=8, max_size=8), missing=st.sampled_from([0, 0, 0, 1]))
    def rank(self, costs: list[int], missing: int) -> None:
        """The pods that are there are ranked, all of them or all but one."""

        async def work() -> None:
            names = sorted(pod.metadata.name for pod in self.active())[missing:]
            await self.world.cost({name: costs[number % 8] for number, name in enumerate(names)})
            await self.settle()

        self.run(work())
        self.check()


_plan = plans.plan


def _image(cloneset: CloneSet) -> str:
    image: str = cloneset.spec.template.tree()["spec"]["containers"][0]["image"]
    return image


@pytest.mark.parametrize(
    "machine", [pytest.param(CloneSets, id="by the order alone"), pytest.param(RankedCloneSets, id="with ranks")]
)
def test_invariants_hold_whatever_happens(machine: type[CloneSets]) -> None:
    """The bounds hold at every write, every victim is the right one, and in the end everything is as wanted."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
