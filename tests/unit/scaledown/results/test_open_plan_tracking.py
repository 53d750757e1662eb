"""Open plans of one process: renewed, extended, overwritten and closed, on a cluster without controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN, PlanAnnotation
from trimtab.api.cloneset import REVISION_HASH, SPECIFIED_DELETE
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.scaledown.cost_writer import CostWriter
from trimtab.scaledown.intent.settle_time import SettleTime
from trimtab.scaledown.metrics import HoldOutcome, Metrics
from trimtab.scaledown.policy.defaults import NO_DEFAULTS, Defaults
from trimtab.scaledown.results.evaluation import PlanState
from trimtab.scaledown.results.levels import ExpectedLevel, LevelResult
from trimtab.scaledown.results.open_plans import OpenPlan, PlanResult, Resize
from trimtab.scaledown.results.plan_tracker import PlanTracker
from trimtab.scaledown.view import View
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock

JSON = dict[str, Any]
KEY = "shop/ReplicaSet/web"
SETS = ("/apis/apps/v1", "replicasets")
PODS = ("/api/v1", "pods")
CLONESETS = ("/apis/apps.kruise.io/v1alpha1", "clonesets")


class Stage:
    """A ReplicaSet of five pods that is to have three, and the tracker of its plans."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        client = Client(self.server, clock=self.clock)
        self.view = View(client)
        self.metrics = Metrics()
        self.reassured: list[str] = []
        self.overwritten: list[int] = []
        self.results: list[PlanResult] = []
        self.settle_time = SettleTime(0.3)
        self.defaults = NO_DEFAULTS
        self.tracker = PlanTracker(
            client,
            self.view,
            CostWriter(client, metrics=self.metrics),
            metrics=self.metrics,
            settle_time=self.settle_time,
            defaults=lambda: self.defaults,
            reassure=self._reassure,
            on_result=lambda result, _: self.results.append(result),
            on_overwritten=lambda _, count: self.overwritten.append(count),
        )
        self.uid = self.resize(3)
        for number in range(5):
            self.put_pod(f"web-{number}")

    async def _reassure(self, workload: str, plan: OpenPlan) -> None:
        self.reassured.append(f"{workload} {plan.plan}")

    def resize(self, size: int) -> str:
        """Store the ReplicaSet with this size; its UID."""
        tree = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": size, "template": {}}}
        return str(self.server.put(*SETS, tree)["metadata"]["uid"])

    def put_pod(self, name: str, *, owner_uid: str = "", **annotations: str) -> None:
        """Store a pod of the ReplicaSet that is ready, or one of another ReplicaSet."""
        tree = pod(name, namespace="shop").on("n1").ready().annotations(annotations).tree()
        uid = owner_uid or self.uid
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}
        tree["metadata"]["ownerReferences"] = [owner]
        self.server.put(*PODS, tree)

    def annotate(
        self, name: str, *, plan: str = "p", cost: str = "-1", to: int = 3, at: int | None = None, owner_uid: str = ""
    ) -> None:
        """Give a pod a cost of a plan; another cost than -1 is that of another writer."""
        moment = self.clock.now() // 1_000_000 if at is None else at
        known = msgspec.structs.replace(self.mark(plan, to), at=moment, share=to, was=5, side="victims", cost=-1)
        self.put_pod(name, owner_uid=owner_uid, **{DELETION_COST: cost, SCALE_PLAN: codec.encode(known).decode()})

    def forge(self, name: str, *, to: int, at: int | None = None) -> None:
        """Store a pod without a controller whose annotation says that a plan for the ReplicaSet gave it a cost."""
        moment = self.clock.now() // 1_000_000 if at is None else at
        known = msgspec.structs.replace(self.mark("forged", to), at=moment, share=to, was=12, side="victims", cost=-1)
        annotations = {DELETION_COST: "-1", SCALE_PLAN: codec.encode(known).decode()}
        self.server.put(*PODS, pod(name, namespace="shop").on("n1").ready().annotations(annotations).tree())

    def mark(self, plan: str, to: int = 3) -> PlanAnnotation:
        """The annotation of a plan."""
        return PlanAnnotation(plan=plan, workload="ReplicaSet/web", uid=self.uid, generation=1, to=to, at=0)

    def plan(self, name: str = "p", *, to: int = 3, **fields: Any) -> OpenPlan:
        """A plan that deletes the first two pods."""
        made = OpenPlan(name, self.uid, to, {self.uid: Resize(5, to)}, {}, frozenset())
        for field, value in fields.items():
            setattr(made, field, value)
        return made

    def begin(self, plan: OpenPlan, *, answered: bool = True) -> None:
        """Open a plan, and answer its request."""
        self.tracker.begin(KEY, plan)
        if answered:
            self.tracker.answer(KEY, plan, is_complete=True)

    def pod_uid(self, name: str) -> str:
        """The UID of a pod that is stored."""
        (found,) = (each["metadata"] for each in self.server.objects("pods") if each["metadata"]["name"] == name)
        return str(found["uid"])

    def reverted(self, reason: str) -> float:
        """How many costs were reverted for this reason."""
        name = "trimtab_scaledown_costs_reverted_total"
        return self.metrics.registry.get_sample_value(name, {"reason": reason}) or 0.0

    def costs(self) -> list[str]:
        """The names of the pods that have a plan's annotation."""
        annotated = (each["metadata"] for each in self.server.objects("pods"))
        return sorted(each["name"] for each in annotated if SCALE_PLAN in (each.get("annotations") or {}))


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """With its caches filled."""
    made = Stage()
    tasks = [asyncio.create_task(part) for part in (made.view.run(), made.tracker.run())]
    await made.clock.advance(1)
    yield made
    await cancel(*tasks)


async def test_an_open_plan_is_found_until_it_ends(stage: Stage) -> None:
    """By its workload; annotations are its own by its name, or that of a plan that it superseded."""
    first, second = stage.plan("first"), stage.plan("second")
    mark = stage.mark("first")
    assert (stage.tracker.is_open(KEY), stage.tracker.tracks(KEY, mark)) == (False, False)
    stage.begin(first)
    assert stage.tracker.open_plan(KEY) is first
    stage.begin(second)
    assert stage.tracker.open_plan(KEY) is second
    assert [stage.tracker.tracks(each, mark) for each in (KEY, "shop/ReplicaSet/other")] == [True, False]
    assert not stage.tracker.tracks(KEY, None)
    assert [(each.plan, each.state) for each in stage.results] == []
    stage.resize(9)
    await stage.clock.advance(11)
    assert not stage.tracker.is_open(KEY)
    assert [(each.plan, each.state, each.followed) for each in stage.results] == [("second", PlanState.NOT_APPLIED, 0)]


async def test_a_plan_of_another_decision_is_recorded_as_superseded(stage: Stage) -> None:
    """One that is made again for the same request is not."""
    stage.begin(stage.plan("first", decision="d1"))
    stage.begin(stage.plan("again", decision="d1"))
    assert stage.results == []
    stage.begin(stage.plan("second", decision="d2"))
    assert [(each.plan, each.state, each.followed) for each in stage.results] == [("again", PlanState.SUPERSEDED, 0)]


@pytest.mark.parametrize(
    ("size", "fields", "want"),
    [
        pytest.param(2, {}, (PlanState.DONE, LevelResult.LEVEL), id="that of the first"),
        pytest.param(1, {}, (PlanState.SUPERSEDED, None), id="another, by another process"),
        pytest.param(2, {"skipped": HoldOutcome.OBSERVED}, (PlanState.SUPERSEDED, None), id="observed"),
    ],
)
async def test_of_two_overlapping_requests_the_one_that_was_stored_is_checked(
    stage: Stage, size: int, fields: dict[str, Any], want: tuple[PlanState, LevelResult | None]
) -> None:
    """The first was answered, and stored when the second had replaced its costs; the second was not stored."""
    stage.begin(stage.plan("first", to=2, decision="d1", expected=(ExpectedLevel(stage.uid, (), ()),)))
    stage.begin(stage.plan("second", to=3, decision="d2", **fields))
    stage.resize(size)
    for number in range(size, 5):
        stage.server.drop(*PODS, f"shop/web-{number}")
    await stage.clock.advance(2)
    assert [(each.plan, each.state, each.result) for each in stage.results] == [
        ("first", PlanState.SUPERSEDED, None),
        ("second", *want),
    ]


async def test_only_the_last_hundred_results_are_kept(stage: Stage) -> None:
    """For health pages."""
    for number in range(103):
        stage.begin(stage.plan(f"p{number}", decision=str(number)))
    assert [each.plan for each in stage.tracker.results] == [f"p{number}" for number in range(2, 102)]


@pytest.mark.parametrize(
    ("plan", "to", "is_open", "want"),
    [
        pytest.param("p", 3, True, True, id="the same request"),
        pytest.param("p", 2, True, False, id="another size"),
        pytest.param("q", 3, True, False, id="the plan of another process"),
        pytest.param("p", 3, False, False, id="no plan is open"),
    ],
)
async def test_a_repeated_request_renews_its_own_plan(
    stage: Stage, plan: str, to: int, is_open: bool, want: bool
) -> None:
    """Its patience begins anew; whether all costs are in place stays as it was."""
    stage.resize(5)
    opened = stage.plan()
    if is_open:
        stage.begin(opened)
    await stage.clock.advance(8)
    assert stage.tracker.renew(KEY, stage.mark(plan, to)) is want
    await stage.clock.advance(5)
    assert stage.tracker.is_open(KEY) is (want and is_open)
    assert opened.is_complete is is_open
    await stage.clock.advance(6)
    assert not stage.tracker.is_open(KEY)


async def test_a_plan_is_made_again_before_its_certainty_ends(stage: Stage) -> None:
    """Two seconds before, and again until that has succeeded; one that holds at all times never is."""
    stage.begin(stage.plan(relies_until=stage.clock.monotonic() + 10 * SECOND))
    await stage.clock.advance(7.4)
    assert stage.reassured == []
    await stage.clock.advance(0.7)
    assert stage.reassured == [f"{KEY} p"]
    await stage.clock.advance(0.5)
    assert len(stage.reassured) == 2
    stage.begin(stage.plan("always"))
    await stage.clock.advance(60)
    assert len(stage.reassured) == 2


async def test_costs_that_another_writer_replaces_are_written_again_three_times(stage: Stage) -> None:
    """Each time it is reported, with the number of pods."""
    for name in ("web-0", "web-1"):
        stage.annotate(name)
    await stage.clock.advance(0.1)
    stage.begin(stage.plan())
    stage.annotate("web-0", cost="7")
    stage.annotate("web-1", cost="7")
    await stage.clock.advance(1)
    assert (stage.overwritten, len(stage.reassured)) == ([2], 1)
    for _ in range(4):
        stage.annotate("web-0")
        await stage.clock.advance(1)
        stage.annotate("web-0", cost="7")
        await stage.clock.advance(1)
    assert (stage.overwritten, len(stage.reassured)) == ([2, 1, 1, 1, 1], 3)


async def test_the_age_of_the_oldest_cost_is_a_metric(stage: Stage) -> None:
    """Of the pods that their plan's workload owns; 0 where there is none."""

    def age() -> float | None:
        return stage.metrics.registry.get_sample_value("trimtab_scaledown_oldest_cost_seconds")

    assert age() == 0
    now = stage.clock.now() // 1_000_000
    stage.annotate("web-0", at=now - 20_000)
    stage.annotate("web-1", at=now - 5_000)
    stage.forge("alone", to=3, at=now - 60_000)
    await stage.clock.advance(0.1)
    assert age() == pytest.approx(20.1)


async def test_a_request_that_is_not_answered_keeps_its_costs(stage: Stage) -> None:
    """However long that takes, and whatever size the workload has."""
    stage.resize(5)
    stage.annotate("web-0")
    await stage.clock.advance(0.1)
    stage.begin(stage.plan(), answered=False)
    await stage.clock.advance(60)
    assert stage.costs() == ["web-0"]
    assert stage.tracker.is_open(KEY)


@pytest.mark.parametrize("is_annotated", [pytest.param(True, id="with costs"), pytest.param(False, id="without costs")])
async def test_plans_are_evaluated_again_when_the_configuration_changes(stage: Stage, is_annotated: bool) -> None:
    """Another Trimtab was responsible for their namespace, so that nothing was waited for."""
    stage.defaults = Defaults(only=frozenset({"elsewhere"}))
    stage.resize(9)
    if is_annotated:
        stage.annotate("web-0")
    else:
        stage.begin(stage.plan())
    await stage.clock.advance(40)
    assert (stage.costs() == ["web-0"]) is is_annotated
    assert stage.tracker.is_open(KEY) is not is_annotated
    stage.defaults = NO_DEFAULTS
    stage.tracker.requeue_all()
    await stage.clock.advance(0.1)
    assert stage.costs() == []
    assert not stage.tracker.is_open(KEY)


async def test_an_open_plan_ends_without_the_costs_of_another_process(stage: Stage) -> None:
    """Those may be of a request that is held right now."""
    stage.annotate("web-0")
    stage.annotate("web-1", plan="other")
    await stage.clock.advance(0.1)
    stage.resize(9)
    stage.begin(stage.plan())
    await stage.clock.advance(11)
    assert not stage.tracker.is_open(KEY)
    assert stage.costs() == ["web-1"]


async def test_pods_that_are_deleted_are_recorded_by_their_controllers_plan(stage: Stage) -> None:
    """With whether they were ready; one that was drained was not chosen by its controller."""
    plan = stage.plan(victims={"x": "zone"})
    stage.begin(plan)
    drained = pod("web-1", namespace="shop").on("n1").not_ready().condition("DisruptionTarget", "True").tree()
    drained["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": stage.uid, "controller": True}
    ]
    stage.server.put(*PODS, drained)
    stranger = pod("alone", namespace="shop").on("n1").ready().tree()
    stage.server.put(*PODS, stranger)
    await stage.clock.advance(0.1)
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in stage.server.objects("pods")}
    for name in ("web-0", "web-1", "alone"):
        stage.server.drop(*PODS, f"shop/{name}")
    await stage.clock.advance(0.05)
    assert plan.ready == {uids["web-0"]: True, uids["web-1"]: False}
    assert plan.deleted_elsewhere == {uids["web-1"]}
    assert plan.revisions == set()


async def test_an_open_plan_and_abandoned_ones_are_reverted_together(stage: Stage) -> None:
    """The plan of another process is left to it for half a minute."""
    stage.annotate("web-0")
    stage.annotate("web-1", plan="other")
    await stage.clock.advance(25)
    stage.begin(stage.plan())
    for name in ("web-3", "web-4"):
        stage.server.drop(*PODS, f"shop/{name}")
    await stage.clock.advance(2)
    assert stage.costs() == ["web-1"]
    assert [(each.plan, each.state) for each in stage.results] == [("p", PlanState.DONE)]
    await stage.clock.advance(10)
    assert stage.costs() == []


async def test_an_uncached_read_decides_whether_a_request_took_effect(stage: Stage) -> None:
    """Where the cache shows the old size when the patience is over, its costs stay if the server has the new one."""
    stage.resize(5)
    stage.annotate("web-0")
    await stage.clock.advance(0.1)
    stage.begin(stage.plan())
    stage.server.cut_watches(cleanly=True)
    (stored,) = stage.server.objects("replicasets")
    stored["spec"]["replicas"] = 3  # which no watch has shown
    await stage.clock.advance(40)
    assert stage.costs() == ["web-0"]
    assert stage.tracker.is_open(KEY)
    for name in ("web-3", "web-4"):
        stage.server.drop(*PODS, f"shop/{name}")
    stage.resize(3)
    await stage.clock.advance(0.6)
    assert stage.costs() == [], "it was evaluated again as soon as the cache had the new size"
    assert [(each.plan, each.state) for each in stage.results] == [("p", PlanState.DONE)]


@pytest.mark.parametrize(("is_complete", "seconds"), [(True, 0.3), (False, 0.45)])
async def test_twenty_plans_that_went_well_shorten_the_settle_time(
    stage: Stage, is_complete: bool, seconds: float
) -> None:
    """Those whose costs were all in place: others say nothing about the controller."""
    stage.settle_time.record_miss()
    assert stage.settle_time.seconds == pytest.approx(0.45)
    for name in ("web-3", "web-4"):
        stage.server.drop(*PODS, f"shop/{name}")
    for number in range(20):
        plan = stage.plan(f"p{number}")
        stage.tracker.begin(KEY, plan)
        stage.tracker.answer(KEY, plan, is_complete=is_complete)
        await stage.clock.advance(0.6)
    assert [each.state for each in stage.results] == [PlanState.DONE] * 20
    assert stage.settle_time.seconds == pytest.approx(seconds)


async def test_a_pod_is_recorded_as_it_was_before_it_was_deleted(stage: Stage) -> None:
    """It was ready: that it is not while it ends says nothing about why it was chosen."""
    plan = stage.plan()
    stage.begin(plan)
    leaving = pod("web-0", namespace="shop").on("n1").not_ready().terminating().tree()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": stage.uid, "controller": True}
    leaving["metadata"]["ownerReferences"] = [owner]
    uid = stage.server.put(*PODS, leaving)["metadata"]["uid"]
    await stage.clock.advance(0.05)
    assert plan.ready == {uid: True}
    stage.server.drop(*PODS, "shop/web-0")
    await stage.clock.advance(0.05)
    assert plan.ready == {uid: True}


@pytest.mark.parametrize(
    ("name", "is_elsewhere"),
    [
        pytest.param("p", False, id="of this plan"),
        pytest.param("earlier", False, id="of a plan that it superseded"),
        pytest.param("other", True, id="of a plan of another process"),
    ],
)
async def test_a_pod_with_a_cost_of_another_process_was_not_chosen_by_this_plan(
    stage: Stage, name: str, is_elsewhere: bool
) -> None:
    """Two processes answered requests for the same workload, and its controller followed the other one's costs."""
    plan = stage.plan(supersedes=frozenset({"earlier"}))
    stage.begin(plan)
    stage.annotate("web-0", plan=name)
    await stage.clock.advance(0.1)
    uid = stage.pod_uid("web-0")
    stage.server.drop(*PODS, "shop/web-0")
    await stage.clock.advance(0.05)
    assert plan.ready == {uid: True}
    assert plan.deleted_elsewhere == ({uid} if is_elsewhere else set())


async def test_pods_of_a_cloneset_that_a_user_named_were_not_chosen_by_its_plan(stage: Stage) -> None:
    """By a label of the pod, or in the CloneSet."""
    spec = {"replicas": 2, "selector": {}, "template": {}, "scaleStrategy": {"podsToDelete": ["clone-1"]}}
    stored = stage.server.put(*CLONESETS, {"metadata": {"name": "clone", "namespace": "shop"}, "spec": spec})
    uid = stored["metadata"]["uid"]
    owner = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "clone", "uid": uid}
    labels = {"clone-0": {}, "clone-1": {}, "clone-2": {SPECIFIED_DELETE: "true"}}
    for name, each in labels.items():
        tree = pod(name, namespace="shop").on("n1").ready().labels(each).tree()
        tree["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        stage.server.put(*PODS, tree)
    await stage.clock.advance(0.1)
    plan = stage.plan(uid=uid, to=2, resizes={uid: Resize(3, 2)})
    stage.tracker.begin("shop/CloneSet/clone", plan)
    uids = {name: stage.pod_uid(name) for name in labels}
    for name in labels:
        stage.server.drop(*PODS, f"shop/{name}")
    await stage.clock.advance(0.05)
    assert plan.ready.keys() == set(uids.values())
    assert plan.deleted_elsewhere == {uids["clone-1"], uids["clone-2"]}


async def test_deletions_after_the_end_of_a_plan_are_not_recorded(stage: Stage) -> None:
    """They are none of its own."""
    plan = stage.plan()
    stage.begin(plan)
    for name in ("web-3", "web-4"):
        stage.server.drop(*PODS, f"shop/{name}")
    await stage.clock.advance(1)
    assert not stage.tracker.is_open(KEY)
    assert len(plan.ready) == 2
    stage.server.drop(*PODS, "shop/web-0")
    await stage.clock.advance(0.1)
    assert len(plan.ready) == 2


async def test_the_cost_of_a_pod_that_is_terminating_is_not_reverted(stage: Stage) -> None:
    """It is deleted with the pod, however long that takes: nothing is read or written for it meanwhile."""
    stage.resize(5)
    stage.annotate("web-0")
    await stage.clock.advance(1)
    (stored,) = (each for each in stage.server.objects("pods") if each["metadata"]["name"] == "web-0")
    leaving = {**stored, "metadata": {**stored["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    stage.server.put(*PODS, leaving)
    await stage.clock.advance(1)
    asked = len(stage.server.requests)
    await stage.clock.advance(60)
    assert stage.costs() == ["web-0"]
    assert stage.server.requests[asked:] == []


async def test_an_annotation_on_a_pod_that_the_workload_does_not_own_decides_nothing(stage: Stage) -> None:
    """A later plan for one pod would not have been applied; the one on the workload's own pod is in progress."""
    stage.annotate("web-0")
    await stage.clock.advance(1)
    stage.forge("alone", to=1)
    await stage.clock.advance(28)
    assert stage.costs() == ["alone", "web-0"], "it is left to another process for a while"
    await stage.clock.advance(5)
    assert stage.costs() == ["web-0"]
    assert stage.reverted("not-owned") == 1


async def test_an_annotation_on_a_pod_that_the_workload_does_not_own_is_reverted_after_its_plan(stage: Stage) -> None:
    """It is reverted in its own time, although the plan of the workload ends before that."""
    stage.annotate("web-0")
    stage.forge("alone", to=9)
    stage.begin(stage.plan())
    await stage.clock.advance(0.7)
    for name in ("web-3", "web-4"):
        stage.server.drop(*PODS, f"shop/{name}")
    await stage.clock.advance(1)
    assert not stage.tracker.is_open(KEY)
    assert stage.costs() == ["alone"]
    await stage.clock.advance(31)
    assert stage.costs() == []


async def test_a_pod_of_another_owner_with_a_copied_annotation_overwrites_no_cost(stage: Stage) -> None:
    """Whoever changes the cost of a pod of their own is no other writer of ours."""
    stage.begin(stage.plan())
    for cost in ("-1", "7"):
        stage.annotate("copy", cost=cost, owner_uid="of-another")
        await stage.clock.advance(1)
    assert (stage.overwritten, stage.reassured) == ([], [])


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param(3, 4, ["web-0", "web-1"], id="the later one is in progress"),
        pytest.param(4, 3, [], id="the later one did not take effect"),
    ],
)
async def test_of_two_abandoned_plans_the_later_decides(stage: Stage, first: int, second: int, want: list[str]) -> None:
    """Half a minute after they were seen; four pods are wanted, and the controller has one to delete."""
    stage.resize(4)
    stage.annotate("web-0", plan="first", to=first, at=1)
    stage.annotate("web-1", plan="second", to=second, at=2)
    await stage.clock.advance(30)
    assert stage.costs() == ["web-0", "web-1"]
    await stage.clock.advance(0.3)
    assert stage.costs() == want


async def test_the_revisions_of_pods_that_a_cloneset_deletes_are_recorded(stage: Stage) -> None:
    """It deletes older ones first, whatever their costs."""
    plan = stage.plan()
    stage.begin(plan)
    for number, revision in enumerate(("web-r1", "web-r2")):
        tree = pod(f"clone-{number}", namespace="shop").on("n1").ready().labels({REVISION_HASH: revision}).tree()
        owner = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": stage.uid}
        tree["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        stage.server.put(*PODS, tree)
    await stage.clock.advance(0.1)
    stage.server.drop(*PODS, "shop/clone-0")
    await stage.clock.advance(0.05)
    assert plan.revisions == {"r1"}
