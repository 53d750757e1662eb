"""The constraints of a workload, and the victims of earlier requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trimtab.api import codec
from trimtab.api.annotations import DEFAULT_CONSTRAINTS, DELETION_COST, SCALE_PLAN, STATED_COST, PlanAnnotation
from trimtab.api.apps import ReplicaSet
from trimtab.api.documents import Document
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.ranking import plan
from trimtab.ranking.certainty import Window
from trimtab.ranking.costs import Side
from trimtab.ranking.delivery import Delivery
from trimtab.ranking.hedges import Unhedged
from trimtab.ranking.levelings import Leveling
from trimtab.ranking.obstacles import Obstacle
from trimtab.ranking.plan import Policy, Workload
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown.constraints import constraints_for
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.proportional import ControllerSize
from trimtab.scaledown.replicaset_plans import (
    ControllerModel,
    ControllerPlan,
    earlier_victims,
    plan_controller,
    reason_without_costs,
    summary,
    warnings,
)
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import cluster, pod

NOW = 1_767_229_200 * 10**9
HOUR = "2026-01-01T00:00:00Z"
DEFAULTS = (Constraint(ZONE), Constraint(HOSTNAME))


def template(*stated: tuple[str, str]) -> Document:
    """A template that states these keys, each hard or soft."""
    words = {"hard": "DoNotSchedule", "soft": "ScheduleAnyway"}
    constraints = [{"topologyKey": key, "whenUnsatisfiable": words[how], "maxSkew": 1} for key, how in stated]
    return Document({"spec": {"topologySpreadConstraints": constraints}})


@pytest.mark.parametrize(
    ("stated", "want"),
    [
        pytest.param(template(), [ZONE, HOSTNAME], id="nothing stated: zones, then nodes"),
        pytest.param(template((HOSTNAME, "soft"), (ZONE, "soft")), [ZONE, HOSTNAME], id="the coarser key first"),
        pytest.param(template((HOSTNAME, "hard"), (ZONE, "soft")), [HOSTNAME, ZONE], id="hard before soft"),
        pytest.param(template((ZONE, "soft"), (ZONE, "hard")), [ZONE], id="stated twice"),
        pytest.param(
            template((ZONE, "soft"), (HOSTNAME, "soft"), (HOSTNAME, "hard")),
            [HOSTNAME, ZONE],
            id="a key stated soft and hard is hard",
        ),
        pytest.param(
            template((ZONE, "soft"), (HOSTNAME, "hard"), (HOSTNAME, "soft")),
            [HOSTNAME, ZONE],
            id="a key stated hard and soft is hard",
        ),
        pytest.param(template(("rack", "hard"), (ZONE, "soft")), [ZONE], id="a key that no node has says nothing"),
        pytest.param(Document({"spec": {"topologySpreadConstraints": 3}}), [ZONE, HOSTNAME], id="what cannot be read"),
        pytest.param(None, [ZONE, HOSTNAME], id="no template"),
        pytest.param(
            template(*[(f"rack-{number}", "soft") for number in range(20)], (ZONE, "soft"), (HOSTNAME, "hard")),
            [HOSTNAME],
            id="of very many, hard ones first",
        ),
    ],
)
def test_a_workload_is_kept_level_on_what_it_states(stated: Document | None, want: list[str]) -> None:
    """The first is never traded for a later one."""
    snapshot = cluster("z1: a b", "z2: x y").snapshot()
    assert [each.topology_key for each in constraints_for(stated, snapshot, DEFAULTS)] == want


def test_of_two_constraints_of_a_key_the_smaller_skew_counts() -> None:
    """Among equally hard ones, in whatever order they are stated."""
    for skews in ((3, 1, 2), (1, 2, 3)):
        stated = [{"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": skew} for skew in skews]
        found = constraints_for(
            Document({"spec": {"topologySpreadConstraints": stated}}), cluster("z1: a").snapshot(), DEFAULTS
        )
        assert [(each.topology_key, each.max_skew, each.hard) for each in found] == [(ZONE, 1, True)]


def defaulted(name: str, key: str, created: str) -> Pod:
    """A pod to which admission added a hard constraint, with a selector of its revision."""
    tree = pod(name).labels(app="web").spread(key).annotations({DEFAULT_CONSTRAINTS: "rule"}).tree()
    tree["metadata"]["creationTimestamp"] = created
    return codec.convert(tree, Pod)


def test_constraints_that_admission_added_to_the_pods_are_kept() -> None:
    """Those of the last pod, where the template states none; by the workload's own pods, of whatever revision."""
    snapshot = cluster("z1: a b", "z2: x y").snapshot()
    older, newer = defaulted("p", HOSTNAME, "2026-01-01T00:00:00Z"), defaulted("q", ZONE, "2026-01-02T00:00:00Z")
    (found,) = constraints_for(template(), snapshot, DEFAULTS, pods=[newer, older])
    assert (found.topology_key, found.hard, found.selector) == (ZONE, True, None)
    (stated,) = constraints_for(template((HOSTNAME, "soft")), snapshot, DEFAULTS, pods=[newer])
    assert stated.topology_key == HOSTNAME, "the template's own come first"
    foreign = pod("r").spread(HOSTNAME).build()
    assert [each.topology_key for each in constraints_for(template(), snapshot, DEFAULTS, pods=[foreign])] == [
        ZONE,
        HOSTNAME,
    ]


def test_a_cluster_without_zones_is_kept_level_on_nodes() -> None:
    """Nothing else is there."""
    assert constraints_for(None, Snapshot(), DEFAULTS) == ()


def web(name: str, side: str = "", *, to: int = 2, at: int = 1, share: int = 2, plan: str = "p", uid: str = "u") -> Pod:
    """A pod, with a annotation of a plan that wrote its side."""
    made = pod(name)
    if side:
        cost = -1 if side == "victims" else 1
        fields: dict[str, Any] = {"workload": "ReplicaSet/web", "uid": uid, "generation": 1}
        mark = PlanAnnotation(plan=plan, to=to, at=at, share=share, side=side, cost=cost, **fields)
        made = made.annotations({DELETION_COST: str(cost), SCALE_PLAN: codec.encode(mark).decode()})
    return made.build()


@pytest.mark.parametrize(
    ("pods", "size", "want"),
    [
        pytest.param([web("a"), web("b")], 2, "", id="no plan"),
        pytest.param([web("a", "victims"), web("b"), web("c")], 2, "a", id="victims written: they go"),
        pytest.param([web("a", "victims"), web("b"), web("c")], 3, "", id="the request has not taken effect"),
        pytest.param([web("a", "survivors"), web("b", "survivors"), web("c")], 2, "c", id="survivors: the rest goes"),
        pytest.param([web("a", "victims"), web("b")], 2, "", id="believed only as far as enough stay"),
        pytest.param(
            [web("a", "survivors"), web("b", "survivors"), web("c", "victims", to=2, at=2), web("d")],
            2,
            "cd",
            id="one plan after the other",
        ),
        pytest.param([web("a", "victims", uid="x"), web("b"), web("c")], 2, "", id="a plan for another workload"),
        pytest.param([pod("x").terminating().build(), web("b"), web("c")], 2, "", id="who is going already is gone"),
    ],
)
def test_earlier_victims_count_as_gone(pods: list[Pod], size: int, want: str) -> None:
    """As far as the workload wants no more than those requests asked for."""
    assert "".join(each.metadata.name for each in earlier_victims(pods, size, uids={"u"})) == want


def planned(name: str, *, relied_on: tuple[Pod, ...] = (), is_delivered: bool = True) -> ControllerPlan:
    """The plan of one of two ReplicaSets, without a cost to write."""
    pods = [pod(each).on(each).phase("Running").ready(HOUR).created(HOUR) for each in ("a", "b", "x")]
    snapshot = cluster("z1: a b", "z2: x y").with_pods(*pods).snapshot()
    workload = Workload.of_all(snapshot, constraints=[Constraint(ZONE)])
    made = plan(workload, snapshot, replicas=2, now=NOW)
    delivery = Delivery(Side.VICTIMS, ()) if is_delivered else None
    return ControllerPlan(ControllerSize(uid=name, name=name, before=3, after=2), made, delivery, relied_on=relied_on)


@pytest.mark.parametrize(
    ("plans", "want"),
    [
        pytest.param([planned("web-1"), planned("web-2")], HoldOutcome.AS_STOCK, id="neither needs costs"),
        pytest.param(
            [planned("web-1"), planned("web-2", relied_on=(web("a"),))],
            HoldOutcome.REPEATED,
            id="one has its costs already, the other needs none",
        ),
        pytest.param(
            [planned("web-1", relied_on=(web("a"),)), planned("web-2", is_delivered=False)],
            HoldOutcome.FOREIGN_COSTS,
            id="costs of others prevent one",
        ),
    ],
)
def test_why_no_cost_is_written(plans: list[ControllerPlan], want: HoldOutcome) -> None:
    """For all ReplicaSets of a Deployment together."""
    assert reason_without_costs(plans) is want


def test_warnings_name_the_replicaset_where_there_are_several() -> None:
    """One needs no name."""
    kept = summary(planned("web-1").plan)
    assert kept
    assert warnings([planned("web-1")]) == (kept,)
    assert warnings([planned("web-1"), planned("web-2", is_delivered=False)]) == (
        f"web-1: {kept}",
        "web-2: not planned, because deletion costs of other writers prevent it",
    )


def test_warnings_say_why_a_plan_is_not_level() -> None:
    """Pods that are not ready go first, whatever they cost; a plan that is level needs no reason."""
    pods = [pod(name).on(name[0]).phase("Running").created(HOUR) for name in ("a1", "a2", "a3", "x1", "x2", "x3")]
    ready = [each.ready(HOUR) if number < 4 else each for number, each in enumerate(pods)]
    snapshot = cluster("z1: a", "z2: x").with_pods(*ready).snapshot()
    workload = Workload.of_all(snapshot, constraints=[Constraint(ZONE)])
    made = plan(workload, snapshot, replicas=4, now=NOW)
    size = ControllerSize("uid", "web-1", 6, 4)
    assert warnings([ControllerPlan(size, made, Delivery(Side.VICTIMS, ()))]) == (
        "kept 3/1; stock would leave 3/1",
        f"{ZONE}: 2 pods had to go first whatever the balance: not ready",
    )
    level = plan(workload, snapshot, replicas=2, now=NOW)
    assert warnings([ControllerPlan(size, level, Delivery(Side.VICTIMS, ()))])[1:] == ()


@pytest.mark.parametrize("reason", list(Unhedged))
def test_warnings_say_that_starting_pods_were_not_hedged(reason: Unhedged) -> None:
    """With the reason."""
    made = planned("web-1")
    unhedged = replace(made, delivery=Delivery(Side.VICTIMS, (), unhedged=reason))
    kept, warning = warnings([unhedged])
    assert (kept,) == warnings([made])
    assert warning.startswith("some pods are starting; ")


def test_warnings_name_constraints_that_are_ignored() -> None:
    """A scale-down keeps to 16: those of the template, or those that admission added to the pods."""
    many = [{"topologyKey": ZONE, "maxSkew": number + 1, "whenUnsatisfiable": "ScheduleAnyway"} for number in range(17)]
    pods = [
        pod(name).on(name).owned_by("web-1").phase("Running").ready(HOUR).created(HOUR) for name in ("a", "b", "x", "y")
    ]
    snapshot = cluster("z1: a b", "z2: x y").with_pods(*pods).snapshot()
    controller = pods[0].build().metadata.controller
    assert controller is not None
    size = ControllerSize(controller.uid, "web-1", 4, 2)

    def ignored(stated: list[dict[str, Any]]) -> tuple[str, str]:
        spec = {"replicas": 4, "template": {"spec": {"topologySpreadConstraints": stated}}}
        owner = codec.convert({"metadata": {"name": "web-1", "uid": controller.uid}, "spec": spec}, ReplicaSet)
        made = plan_controller(
            *(owner, size, [each.build() for each in pods], snapshot, Policy.of(())),
            defaults=(),
            model=ControllerModel(NOW, Window(NOW, NOW)),
        )
        assert made is not None
        return made.ignored, warnings([made])[-1]

    text = "topologySpreadConstraints: has 17, of which 16 are kept to on a scale-down, hard ones first"
    assert ignored(many) == (text, text)
    assert ignored(many[:16])[0] == ""


def test_only_obstacles_of_the_constraint_that_decided_are_warned_of() -> None:
    """The obstacle's topology key chooses, whatever its text begins with."""
    decided = [
        Obstacle("too few pods", ZONE),
        Obstacle("too few pods", HOSTNAME),
        Obstacle(f"{ZONE}: ranks are ignored"),
    ]
    levelings = (Leveling(ZONE, ("a", "b"), (3, 3), (3, 1), (3, 1), (2, 2), stock_is_certain=True),)
    made = replace(planned("web-1").plan, levelings=levelings, obstacles=tuple(decided))
    size = ControllerSize("uid", "web-1", 6, 4)
    assert warnings([ControllerPlan(size, made, Delivery(Side.VICTIMS, ()))])[1:] == (f"{ZONE}: too few pods",)


def test_the_warning_names_strategies_where_they_decided() -> None:
    """Strategies may leave zones less even than stock would: then the warning does not mention zones."""
    said = {"a": "1", "b": "2", "x": "9", "y": "9"}
    pods = [
        pod(name).on(name).phase("Running").ready(HOUR).created(HOUR).annotations({STATED_COST: cost})
        for name, cost in said.items()
    ]
    snapshot = cluster("z1: a b", "z2: x y").with_pods(*pods).snapshot()
    workload = Workload.of_all(snapshot, constraints=[Constraint(ZONE)])
    made = plan(workload, snapshot, Policy.of((StrategySpec(name="Stated"),)), replicas=2, now=NOW)
    assert sorted(made.keys) == ["default/a", "default/b"]
    assert summary(made) == "the policy's strategies chose 2 of 2 pods that stock may have kept"
