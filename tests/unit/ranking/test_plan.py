"""The plan: who goes, why, what stays, and what stock Kubernetes would have left."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import selectors
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.scaledown import StrategySpec
from trimtab.api.times import parse_ns
from trimtab.ranking import Constraint, Leveling, Plan, Policy, Workload, plan
from trimtab.ranking.certainty import Window
from trimtab.ranking.contenders import Criterion
from trimtab.ranking.obstacles import Obstacle
from trimtab.ranking.victims import Options
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import ClusterBuilder, PodBuilder, cluster, node, pod, uid_for

OLD, NEW, LATER = "2026-01-01T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-10T00:00:00Z"
NOW = parse_ns(LATER)
ZONES = [Constraint(ZONE)]
ZONES_AND_HOSTS = [Constraint(ZONE), Constraint(HOSTNAME)]


def planned(made: ClusterBuilder | Snapshot, replicas: int, constraints: list[Constraint] = ZONES) -> Plan:
    """The plan for all pods of a cluster."""
    view = made if isinstance(made, Snapshot) else made.snapshot()
    return plan(Workload.of_all(view, constraints=constraints), view, replicas=replicas, now=NOW)


def two_zones_then_three(size: int) -> ClusterBuilder:
    """2N pods on two zones, N newer ones on a third, each alone on its node."""
    hosts = {zone: [f"{zone}{i}" for i in range(size)] for zone in "abc"}
    made = cluster(*(f"{zone}: {' '.join(names)}" for zone, names in hosts.items()))
    return made.running(*hosts["a"], *hosts["b"], created=OLD).running(*hosts["c"], created=NEW)


def test_ten_ten_ten_becomes_seven_seven_six() -> None:
    """The story that Trimtab is for: stock empties the new zone, the plan takes from all three."""
    made = planned(two_zones_then_three(10), 20)
    zones = made.levelings[0]
    assert (zones.domains, zones.before) == (("a", "b", "c"), (10, 10, 10))
    assert sorted(zones.after) == [6, 7, 7]
    assert zones.stock == (10, 10, 0)
    assert (zones.skew_before, zones.skew_after, zones.skew_stock) == (0, 1, 10)
    assert made.obstacles == ()
    assert not made.is_matched_by_stock
    assert (made.stock.is_unique, made.is_chosen_by_stock) == (True, False)


@pytest.mark.parametrize("size", range(1, 51))
def test_the_story_of_kep_2185_stays_level_at_every_size(size: int) -> None:
    """2N pods on two domains, a third added, 3N, then 2N, and again: the plan's skew is never above 1."""
    view = two_zones_then_three(size).snapshot()
    for _ in range(2):
        made = planned(view, 2 * size)
        assert made.levelings[0].skew_after <= 1
        for key in made.keys:
            victim = view.pod(key)
            assert victim is not None
            view.drop(type(victim), *key.split("/"))
            again = pod(f"{victim.metadata.name}-again").on(victim.spec.node_name).created(LATER).ready()
            view.put(again.build())


@pytest.mark.parametrize(
    ("first", "criterion"),
    [
        pytest.param(pod("x"), Criterion.UNASSIGNED, id="unassigned"),
        pytest.param(pod("x").on("b1").phase("Pending"), Criterion.PHASE, id="pending"),
        pytest.param(pod("x").on("b1").not_ready(), Criterion.READY, id="not ready"),
        pytest.param(pod("x").on("b1").created(OLD).ready().cost(-5), Criterion.COST, id="given a cost by somebody"),
    ],
)
def test_what_kubernetes_lets_go_first_goes_first_whatever_its_zone(first: PodBuilder, criterion: Criterion) -> None:
    """A plan that said otherwise would not be carried out."""
    made = planned(cluster("a: a1", "b: b1").running("a1", "a1", "a1", "b1").with_pods(first), 4)
    assert made.keys == ("default/x",)
    assert made.victims[0].criterion is criterion
    assert made.victims[0].because == criterion.sentence


def test_a_pod_that_somebody_made_dear_stays() -> None:
    """A person's cost counts as theirs, above zero too."""
    dear = [pod(f"dear{i}").on("a1").created(OLD).ready().cost(7) for i in range(3)]
    made = planned(cluster("a: a1", "b: b1").running("b1", "b1").with_pods(*dear), 3)
    assert set(made.keys) == {"default/pod-00", "default/pod-01"}
    want = f"{ZONE}: 2 pods had to go first whatever the balance: with a lower cost of another writer"
    assert str(made.obstacles[0]) == want


def test_obstacles_name_what_the_pods_are_that_go_first() -> None:
    """With a count of each kind, where there are several."""
    starting = [pod("u1").on("b1").created(OLD), pod("u2").created(OLD).phase("Pending")]
    made = planned(cluster("a: a1", "b: b1").running("a1", "a1", "a1", "b1").with_pods(*starting), 4)
    assert made.obstacles[-1] == Obstacle(
        "2 pods had to go first whatever the balance: 1 without a node, 1 not ready", ZONE
    )


def test_an_obstacle_is_what_distinguishes_victims_from_the_pod_that_stays_longest() -> None:
    """One pod with a cost is kept by that, whatever the balance; that the others have none is no reason for them."""
    dear = pod("dear").on("a1").created(OLD).ready().cost(7)
    made = planned(cluster("a: a1", "b: b1", "c: c1").running("b1", "b1", "b1").with_pods(dear), 3)
    assert made.levelings[0].after == (1, 2, 0)
    assert [each.cause for each in made.obstacles] == [
        "c (0) had fewer than 1 pods before, and a scale-down adds none",
        "1 pod had to go first whatever the balance: with a lower cost of another writer",
    ]


def test_a_skew_of_one_needs_no_explanation() -> None:
    """An odd number of pods is level in two zones, whatever had to go first."""
    made = planned(cluster("a: a1", "b: b1").running("a1", "a1", "b1").with_pods(pod("x").on("b1").not_ready()), 3)
    assert (made.keys, made.levelings[0].skew_after, made.obstacles) == (("default/x",), 1, ())


def test_a_cost_that_trimtab_wrote_is_nobodys_wish() -> None:
    """What an earlier plan left behind does not bind the next one."""
    left = pod("left").on("b1").created(OLD).ready().cost(-5)
    view = cluster("a: a1", "b: b1").running("a1", "a1").with_pods(left).snapshot()
    everyone = Workload.of_all(view, constraints=ZONES)
    ours = Workload(everyone.rows, everyone.related, everyone.constraints, base_costs={"default/left": 0})
    assert plan(everyone, view, replicas=2, now=NOW).keys == ("default/left",)
    assert plan(ours, view, replicas=2, now=NOW).levelings[0].after == (1, 1)


def test_a_victim_says_which_constraint_decided() -> None:
    """Zones first, then hosts inside them, then who would go anyway."""
    made = planned(cluster("a: a1 a2", "b: b1").running("a1", "a1", "a2", "b1", "b1"), 4, ZONES_AND_HOSTS)
    assert made.keys[0] in {"default/pod-00", "default/pod-01"}
    assert (made.victims[0].topology_key, made.victims[0].criterion) == (ZONE, None)
    assert made.victims[0].because == f"its domain of {ZONE} is the fullest"
    hosts = planned(cluster("a: a1 a2").running("a1", "a1", "a2"), 2, ZONES_AND_HOSTS)
    assert hosts.victims[0].topology_key == ZONE
    same = planned(cluster("a: a1 a2").running("a1", created=OLD).running("a2", created=NEW), 1, [])
    assert (same.victims[0].criterion, same.keys) == (Criterion.READY_TIME, ("default/pod-01",))


def test_what_stands_in_the_way_is_said() -> None:
    """A domain that had too few pods cannot get more by taking away."""
    made = planned(cluster("a: a1", "b: b1", "c: c1").running(*["a1"] * 6, *["b1"] * 6), 6)
    assert made.levelings[0].after == (3, 3, 0)
    assert made.obstacles == (Obstacle("c (0) had fewer than 2 pods before, and a scale-down adds none", ZONE),)


@pytest.mark.parametrize(
    ("zones", "short"),
    [
        pytest.param("abcde", "c (0), d (0), e (0)", id="three are named"),
        pytest.param("abcdefg", "c (0), d (0), e (0) and 2 more", id="of more than three the number"),
    ],
)
def test_domains_that_had_too_few_pods_are_named(zones: str, short: str) -> None:
    """One that has as many pods as a level result gives each is not among them."""
    made = cluster(*(f"{zone}: {zone}1" for zone in zones)).running(*["a1"] * 12, "b1")
    found = planned(made, len(zones) + 1)
    assert found.levelings[0].after[:3] == (len(zones), 1, 0)
    assert found.obstacles == (Obstacle(f"{short} had fewer than 1 pods before, and a scale-down adds none", ZONE),)


def test_domains_that_the_pods_cannot_be_in_are_no_part_of_the_skew() -> None:
    """A zone that a node selector keeps out is not an empty zone."""
    made = cluster("a: a1", "b: b1", "c: c1")
    for zone in ("a1", "b1"):
        made.node(zone).labels(pool="web")
    pods = [pod(f"p{i}").on("a1" if i % 2 else "b1").created(OLD).ready().node_selector(pool="web") for i in range(6)]
    found = planned(made.with_pods(*pods), 4).levelings[0]
    assert (found.domains, found.after, found.skew_after) == (("a", "b"), (2, 2), 0)


def test_pods_outside_all_domains_count_as_one_domain_of_their_own() -> None:
    """A node without the label is no zone, and its pods are listed apart."""
    view = cluster("a: a1", "b: b1").running("a1", "a1", "b1", "b1").snapshot()
    view.put(node("bare").build())
    for i in range(4):
        view.put(pod(f"bare{i}").on("bare").created(OLD).ready().build())
    found = planned(view, 6).levelings[0]
    assert (found.after, found.outside) == ((2, 2), (4, 2))


def test_all_pods_may_go() -> None:
    """Or none: these are the bounds."""
    made = two_zones_then_three(1)
    assert len(planned(made, 0).keys) == 3
    assert len(planned(made, 3).keys) == 0


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        pytest.param(-1, "replicas: -1 is negative; write 0 or more", id="negative"),
        pytest.param(4, "replicas: 4 is more than the 3 pods there are: this is no scale-down", id="too many"),
    ],
)
def test_a_target_that_is_no_scale_down_is_refused(replicas: int, message: str) -> None:
    """The error names the field and the reason."""
    with pytest.raises(InvalidError) as caught:
        planned(cluster("a: a1").running("a1", "a1", "a1"), replicas)
    assert str(caught.value) == message


def test_a_target_of_zero_takes_all_and_of_everyone_none() -> None:
    """The ends of the range are plans too."""
    made = cluster("a: a1", "b: b1").running("a1", "a1", "b1")
    assert {victim.because for victim in planned(made, 0).victims} == {"all pods go"}
    assert planned(made, 0).levelings[0].after == (0, 0)
    assert planned(made, 3).victims == ()
    assert planned(cluster("a: a1"), 0).victims == ()


def test_pods_that_have_finished_or_are_leaving_are_no_part_of_it() -> None:
    """Only active pods can be victims, and only they are counted."""
    done = [pod("done").on("a1").phase("Succeeded"), pod("leaving").on("a1").created(OLD).ready().terminating()]
    made = planned(cluster("a: a1", "b: b1").running("a1", "b1").with_pods(*done), 1)
    assert (made.before, made.levelings[0].before) == (2, (1, 1))


def test_a_workload_is_found_by_its_owner() -> None:
    """Its own pods shrink; those of all ReplicaSets of its owner count for criterion 5 alone."""
    mine = [pod(f"mine{i}").on("a1").owned_by("mine").created(OLD).ready() for i in range(2)]
    sibling = pod("sibling").on("a2").owned_by("sibling").created(OLD).ready()
    view = cluster("a: a1 a2").with_pods(*mine, sibling).snapshot()
    family = [uid_for("ReplicaSet/mine"), uid_for("ReplicaSet/sibling")]
    found = Workload.owned_by(view, family[0], related=family)
    assert (len(found.rows), len(found.related)) == (2, 3)
    assert len(Workload.owned_by(view, family[0]).related) == 0


def test_a_standalone_replicaset_has_no_related_pods() -> None:
    """Three pods on one node of zone a and one in b, scaled to 2: upstream takes the youngest, and may leave 2/0."""
    made = cluster("a: a1", "b: b1").running("a1", "a1", "a1", created=OLD).running("b1", created=NEW)
    view = made.snapshot()
    everyone = Workload.of_all(view, constraints=ZONES)
    alone = Workload(everyone.rows, everyone.rows[:0], everyone.constraints)
    found = plan(alone, view, replicas=2, now=NOW).levelings[0]
    assert (found.after, found.stock) == ((1, 1), (2, 0))
    assert not found.is_matched_by_stock
    assert plan(everyone, view, replicas=2, now=NOW).levelings[0].is_matched_by_stock


def test_the_stock_order_can_be_that_of_another_setting() -> None:
    """Without logarithmic ages the newest go first, to the second."""
    made = (
        cluster("a: a1 a2").running("a1", created="2026-01-08T23:59:58Z").running("a2", created="2026-01-08T23:59:59Z")
    )
    view = made.snapshot()
    everyone = Workload.of_all(view)
    exact = Workload(everyone.rows, everyone.related, options=Options(logarithmic=False))
    assert plan(exact, view, replicas=1, now=NOW).stock.always == ("default/pod-01",)


def test_a_cloneset_is_compared_with_its_own_order() -> None:
    """OpenKruise takes from the fullest domain already; pods that are not available go first."""
    early = [pod(f"pod-{number}").on("a1").phase("Running").created(OLD).ready(OLD) for number in range(3)]
    late = pod("late").on("b1").phase("Running").created(OLD).ready(NEW)
    view = cluster("a: a1", "b: b1").with_pods(*early, late).snapshot()
    everyone = Workload.of_all(view, constraints=ZONES)
    clones = replace(everyone, kind="CloneSet", min_ready=NOW - parse_ns(NEW) + 1)
    made = plan(clones, view, replicas=3, now=NOW)
    assert (made.keys, made.victims[0].criterion) == (("default/late",), Criterion.AVAILABLE)
    assert made.stock.is_unique
    later = plan(clones, view, replicas=3, now=NOW, window=Window(NOW, NOW + 1))
    assert len(later.stock.possible) > 1, "it becomes available"


def test_without_a_time_a_cloneset_is_planned_by_what_pods_are_now() -> None:
    """There is no window in which a pod could become available."""
    view = cluster("a: a1", "b: b1").running("a1", "a1", "b1").snapshot()
    clones = replace(Workload.of_all(view, constraints=ZONES), kind="CloneSet")
    made = plan(clones, view, replicas=2)
    assert (made.levelings[0].after, made.stock.is_unique) == ((1, 1), True)


def test_strategies_come_before_the_balance_and_explain_themselves() -> None:
    """Pods on nodes that would rather have none go first; among those the balance decides."""
    made = cluster("a: a1 a2", "b: b1")
    made.node("b1").taint("spot", effect="PreferNoSchedule")
    view = made.running("a1", "a2", "a2", "b1").snapshot()
    policy = Policy.of([StrategySpec(name="PreferNoSchedule")])
    found = plan(Workload.of_all(view, constraints=ZONES), view, policy, replicas=2, now=NOW)
    assert found.keys[0] == "default/pod-03"
    assert found.victims[0].because == "it ranks higher by the policy's strategies"
    assert [(part.strategy, part.raw) for part in found.victims[0].parts] == [("PreferNoSchedule", 1.0)]
    assert found.obstacles[-1] == Obstacle("the policy's strategies come before the balance", ZONE)


def test_ranks_are_ignored_while_one_pod_has_none() -> None:
    """A sum with a part missing cannot be compared; the plan says so, and keeps the workload level."""
    view = cluster("a: a1", "b: b1").running("a1", "a1", "b1").snapshot()
    policy = Policy(Policy.of([StrategySpec(name="Idle")]).combination, usage={"default/pod-00": 0.5})
    found = plan(Workload.of_all(view, constraints=ZONES), view, policy, replicas=2, now=NOW)
    assert found.levelings[0].after == (1, 1)
    assert found.obstacles[0].topology_key is None
    assert str(found.obstacles[0]).startswith("ranks are ignored: default/pod-01 (by Idle), default/pod-02 (by Idle)")


def test_a_strategy_that_must_be_recomputed_is_after_each_removal() -> None:
    """Of three that avoid each other on one node two must go; the second choice knows of the first."""
    apart = [pod(f"p{i}").on("a1").labels(app="web").created(OLD).ready().avoids("host") for i in range(3)]
    alone = pod("alone").on("b1").labels(app="web").created(OLD).ready().avoids("host")
    view = cluster("a: a1", "b: b1").with_pods(*apart, alone).snapshot()
    before = view.nodes.pods.tolist()
    found = plan(Workload.of_all(view), view, Policy.of([StrategySpec(name="AntiAffinity")]), replicas=2, now=NOW)
    assert "default/alone" not in found.keys
    assert len(set(found.keys)) == 2
    assert view.nodes.pods.tolist() == before


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param(StrategySpec(name="Nonsense"), "spec.strategies[0].name", id="unknown"),
        pytest.param(StrategySpec(name="Balance", weight=0), "spec.strategies[0].weight", id="weight out of range"),
        pytest.param(StrategySpec(name="Balance", threshold=-1), "spec.strategies[0].threshold", id="threshold"),
        pytest.param(StrategySpec(name="Balance", args={"key": "x"}), "spec.strategies[0].args.key", id="setting"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(spec: StrategySpec, path: str) -> None:
    """The error names the field."""
    with pytest.raises(InvalidError) as caught:
        Policy.of([spec])
    assert caught.value.path == path


def test_strategies_need_the_time() -> None:
    """Without it, ranks by age would silently be all the same."""
    view = cluster("a: a1").running("a1", "a1").snapshot()
    with pytest.raises(InvalidError, match="now: is needed to rank pods by strategies"):
        plan(Workload.of_all(view), view, Policy.of([StrategySpec(name="Oldest")]), replicas=1)


def test_an_order_does_not_depend_on_how_the_pods_came() -> None:
    """The same pods, put in another order, make the same plan."""
    made = two_zones_then_three(4)
    plans = set()
    for seed in range(5):
        view = Snapshot()
        for a_node in made.nodes():
            view.put(a_node)
        pods = made.pods()
        random.Random(seed).shuffle(pods)
        for a_pod in pods:
            view.put(a_pod)
        plans.add(planned(view, 5, ZONES_AND_HOSTS).keys)
    assert len(plans) == 1


def in_state(made: PodBuilder, state: str) -> PodBuilder:
    """A running pod that is ready or not, or ready and dear to somebody."""
    if state == "not ready":
        return made.not_ready()
    return made.ready().cost(3) if state == "dear" else made.ready()


STATES = st.sampled_from(["ready", "not ready", "pending", "dear"])


@settings(max_examples=60, deadline=None)
@given(
    hosts=st.lists(st.tuples(st.sampled_from(["a1", "a2", "b1", "c1"]), STATES), min_size=1, max_size=7),
    data=st.data(),
)
def test_no_other_victims_leave_the_pods_more_level(hosts: list[tuple[str, str]], data: st.DataObject) -> None:
    """Against all sets of victims that Kubernetes' own criteria allow: the skews, zones first, are the smallest."""
    made = cluster("a: a1 a2", "b: b1", "c: c1")
    for number, (host, state) in enumerate(hosts):
        one = pod(f"p{number}").on(host).created(OLD)
        made.with_pods(one.phase("Pending") if state == "pending" else in_state(one, state))
    replicas = data.draw(st.integers(0, len(hosts)))
    found = planned(made, replicas, ZONES_AND_HOSTS)
    standing = {"pending": 0, "not ready": 1, "ready": 2, "dear": 3}
    skews = []
    for gone in combinations(range(len(hosts)), len(hosts) - replicas):
        stays = [number for number in range(len(hosts)) if number not in gone]
        worst = max((standing[hosts[number][1]] for number in gone), default=0)
        if all(worst <= standing[hosts[number][1]] for number in stays):
            zones = [sum(hosts[n][0][0] == zone for n in stays) for zone in "abc"]
            per_host = [sum(hosts[n][0] == host for n in stays) for host in ("a1", "a2", "b1", "c1")]
            squares = (sum(n * n for n in zones), sum(n * n for n in per_host))
            skews.append((squares, max(zones) - min(zones)))
    got = found.levelings
    assert (tuple(sum(n * n for n in leveling.after) for leveling in got), got[0].skew_after) == min(skews)
    assert got[0].skew_after == min(skew for _, skew in skews)


def test_never_worse_than_stock_on_the_first_key() -> None:
    """Whatever the other keys are, and however they cross it."""
    rng = random.Random(5)
    for _ in range(40):
        made = cluster("a: a1 a2", "b: b1 b2", "c: c1")
        for name in ("a1", "a2", "b1", "b2", "c1"):
            made.node(name).labels(type=rng.choice("xy"))
        for number in range(12):
            created = f"2026-01-0{rng.randint(1, 9)}T00:00:00Z"
            made.with_pods(pod(f"p{number}").on(rng.choice(["a1", "a2", "b1", "b2", "c1"])).created(created).ready())
        found: Leveling = planned(made, rng.randint(1, 11), [Constraint(ZONE), Constraint("type")]).levelings[0]
        assert found.skew_after <= found.skew_stock


# The constraint as the scheduler reads it.


def labelled(name: str, on: str, app: str = "") -> PodBuilder:
    """A ready pod with labels."""
    return pod(name).on(on).created(OLD).ready().labels({"app": app})


def of_workload(view: Snapshot, prefix: str, constraints: list[Constraint]) -> Workload:
    """The workload of the pods whose names start so."""
    everyone = Workload.of_all(view)
    chosen = [
        row for row in everyone.rows.tolist() if (view.pods.rows.names[row] or "").startswith(f"default/{prefix}")
    ]
    rows = np.array(chosen, dtype=np.int64)
    return Workload(rows, rows, tuple(constraints))


WEB = selectors.compile(LabelSelector(match_labels={"app": "web"}))


def test_pods_of_other_workloads_that_the_selector_matches_count() -> None:
    """Zone a holds two pods of another workload of the same app: the plan takes its own from there."""
    made = cluster("a: a1", "b: b1").with_pods(
        *(labelled(f"mine{n}", on, app="web") for n, on in enumerate(["a1", "a1", "b1", "b1"])),
        *(labelled(f"other{n}", "a1", app="web") for n in range(2)),
        *(labelled(f"foreign{n}", "b1", app="db") for n in range(5)),
    )
    view = made.snapshot()
    found = plan(of_workload(view, "mine", [Constraint(ZONE, selector=WEB)]), view, replicas=2, now=NOW)
    assert found.levelings[0].before == (4, 2)
    assert found.levelings[0].after == (2, 2)
    own = plan(of_workload(view, "mine", [Constraint(ZONE)]), view, replicas=2, now=NOW)
    assert own.levelings[0].after == (1, 1)


def test_own_pods_that_the_selector_does_not_match_are_in_no_domain() -> None:
    """They are listed apart, and are not part of the skew."""
    made = cluster("a: a1", "b: b1").with_pods(
        labelled("p0", "a1", app="web"), labelled("p1", "b1", app="web"), labelled("p2", "b1", app="old")
    )
    view = made.snapshot()
    found = plan(of_workload(view, "p", [Constraint(ZONE, selector=WEB)]), view, replicas=3, now=NOW).levelings[0]
    assert (found.before, found.outside) == ((1, 1), (1, 1))


@pytest.mark.parametrize(
    ("constraint", "domains"),
    [
        pytest.param(Constraint(ZONE, honor_taints=True), ("a", "b"), id="taints honoured"),
        pytest.param(Constraint(ZONE), ("a", "b", "c"), id="taints ignored"),
        pytest.param(Constraint(ZONE, hard=True), ("a", "b", "c"), id="hard"),
    ],
)
def test_domains_are_those_that_the_policies_leave(constraint: Constraint, domains: tuple[str, ...]) -> None:
    """A tainted zone counts unless nodeTaintsPolicy is Honor."""
    made = cluster("a: a1", "b: b1", "c: c1").running("a1", "b1")
    made.node("c1").taint("dedicated")
    assert planned(made, 1, [constraint]).levelings[0].domains == domains


@pytest.mark.parametrize(
    ("constraint", "domains"),
    [
        pytest.param(Constraint(ZONE), ("a", "b"), id="affinity honoured"),
        pytest.param(Constraint(ZONE, honor_affinity=False), ("a", "b", "c"), id="affinity ignored"),
    ],
)
def test_domains_are_those_that_the_affinity_leaves(constraint: Constraint, domains: tuple[str, ...]) -> None:
    """A zone without a node for the pods counts only if nodeAffinityPolicy is Ignore."""
    made = cluster("a: a1", "b: b1", "c: c1").with_pods(
        *(labelled(f"p{n}", on).node_selector(pool="web") for n, on in enumerate(["a1", "b1", "b1"]))
    )
    for name in ("a1", "b1"):
        made.node(name).labels(pool="web")
    assert planned(made, 1, [constraint]).levelings[0].domains == domains


def test_pods_of_different_subsets_are_counted_in_all_their_zones() -> None:
    """A subset gives its pods a node affinity of their own: the zones of all of them count."""
    made = cluster("a: a1", "b: b1", "c: c1").with_pods(
        *(labelled(f"p{n}", "a1").node_selector(pool="a") for n in range(2)),
        *(labelled(f"q{n}", ["b1", "c1"][n % 2]).node_selector(pool="rest") for n in range(4)),
    )
    for name, pool in (("a1", "a"), ("b1", "rest"), ("c1", "rest")):
        made.node(name).labels(pool=pool)
    found = planned(made, 3).levelings[0]
    assert (found.domains, found.before, found.after) == (("a", "b", "c"), (2, 2, 2), (1, 1, 1))


def test_a_node_without_the_key_of_another_hard_constraint_does_not_count() -> None:
    """As in the scheduler: it contributes to no hard constraint."""
    made = cluster("a: a1 a2", "b: b1").running("a1", "a2", "b1")
    for name in ("a1", "b1"):
        made.node(name).labels(rack=name)
    hard = planned(made, 3, [Constraint(ZONE, hard=True), Constraint("rack", hard=True)]).levelings[0]
    soft = planned(made, 3, [Constraint(ZONE), Constraint("rack")]).levelings[0]
    assert (hard.before, soft.before) == ((1, 1), (2, 1))


def test_with_fewer_domains_than_min_domains_the_minimum_is_zero() -> None:
    """Two zones where three are wanted: the skew is what the fullest zone holds."""
    made = cluster("a: a1", "b: b1").running("a1", "a1", "b1", "b1")
    found = planned(made, 2, [Constraint(ZONE, hard=True, min_domains=3)]).levelings[0]
    assert (found.after, found.skew_after, found.is_satisfied) == ((1, 1), 1, True)
    assert found.skew_before == 2


def test_satisfying_all_hard_constraints_comes_before_being_level_on_the_first() -> None:
    """Zone a has one node, zone b three: 2/2 over zones would leave two pods on one node and none on another."""
    made = cluster("a: a1", "b: b1 b2 b3").running("a1", "a1", "a1", "b1", "b2", "b3")
    zones, hosts = Constraint(ZONE, hard=True, max_skew=2), Constraint(HOSTNAME, hard=True, max_skew=1)
    found = planned(made, 4, [zones, hosts])
    assert [each.is_satisfied for each in found.levelings] == [True, True]
    assert found.levelings[0].after == (1, 3)
    soft = planned(made, 4, [Constraint(ZONE, hard=True, max_skew=2), Constraint(HOSTNAME)])
    assert soft.levelings[0].after == (2, 2)


@settings(max_examples=80, deadline=None)
@given(
    hosts=st.lists(st.sampled_from(["a1", "a2", "b1", "b2", "c1"]), min_size=2, max_size=8),
    types=st.lists(st.sampled_from("xy"), min_size=5, max_size=5),
    skews=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    data=st.data(),
)
def test_two_hard_constraints_are_satisfied_wherever_some_choice_satisfies_both(
    hosts: list[str], types: list[str], skews: tuple[int, int], data: st.DataObject
) -> None:
    """Against all sets of victims."""
    made = cluster("a: a1 a2", "b: b1 b2", "c: c1").running(*hosts)
    kinds = dict(zip(("a1", "a2", "b1", "b2", "c1"), types, strict=True))
    for name, kind in kinds.items():
        made.node(name).labels(type=kind)
    replicas = data.draw(st.integers(1, len(hosts)))
    limits = [Constraint(ZONE, hard=True, max_skew=skews[0]), Constraint("type", hard=True, max_skew=skews[1])]
    found = planned(made, replicas, limits)

    def is_satisfied(stays: tuple[str, ...]) -> bool:
        zones = [sum(host[0] == zone for host in stays) for zone in "abc"]
        per_type = [sum(kinds[host] == kind for host in stays) for kind in sorted(set(types))]
        return max(zones) - min(zones) <= skews[0] and max(per_type) - min(per_type) <= skews[1]

    if any(is_satisfied(stays) for stays in combinations(hosts, replicas)):
        assert all(each.is_satisfied for each in found.levelings)


# Costs of other writers.


def test_a_foreign_cost_as_a_tie_break_does_not_beat_the_balance() -> None:
    """Obeyed, both pods of zone b go; as a tie-break, one of each zone, the cheaper of each."""
    made = cluster("a: a1", "b: b1").with_pods(
        *(labelled(f"a{n}", "a1").cost(10 + n) for n in range(2)),
        *(labelled(f"b{n}", "b1").cost(n - 5) for n in range(2)),
    )
    view = made.snapshot()
    obeyed = Workload.of_all(view, constraints=ZONES)
    tied = replace(obeyed, foreign_costs="TieBreak")
    assert plan(obeyed, view, replicas=2, now=NOW).levelings[0].after == (2, 0)
    found = plan(tied, view, replicas=2, now=NOW)
    assert found.levelings[0].after == (1, 1)
    assert set(found.keys) == {"default/a0", "default/b0"}


# Certainty.


def test_what_stock_may_leave_is_said_as_what_it_may() -> None:
    """Pods of one bucket whose ready times collide: any combination of them can go."""
    made = cluster("a: a1 a2", "b: b1 b2").running("a1", "a2", "b1", "b2", created=NEW)
    found = planned(made, 2)
    assert found.levelings[0].stock_skews == (0, 2)
    assert found.sentence() == "keeps 1/1; stock may leave 2/0"
    assert not found.is_matched_by_stock


def test_stock_matches_a_plan_only_if_it_does_on_every_constraint() -> None:
    """The newest pod goes: that leaves the zones as level as the plan does, but empties a host."""
    made = cluster("a: a1 a2", "b: b1").running("a1", "a1", "b1", created=OLD).running("a2", created=NEW)
    view = made.snapshot()
    everyone = Workload.of_all(view, constraints=ZONES_AND_HOSTS)
    found = plan(replace(everyone, related=everyone.rows[:0]), view, replicas=3, now=NOW)
    assert [each.is_matched_by_stock for each in found.levelings] == [True, False]
    assert not found.is_matched_by_stock


def test_without_constraints_a_plan_says_so() -> None:
    """There is nothing to compare with what stock leaves."""
    assert planned(cluster("a: a1").running("a1", "a1"), 1, []).sentence() == "2 → 1: no constraints to keep level"


def test_a_window_makes_a_prediction_uncertain() -> None:
    """At this moment the young pod of zone c goes; within the window, one of zone a may."""
    made = cluster("a: a1", "b: b1", "c: c1").running("a1", "b1", "c1", created="2026-01-09T23:59:55.7Z")
    made.with_pods(pod("young").on("c1").created("2026-01-09T23:59:56.5Z").ready())
    view = made.snapshot()
    workload = Workload(Workload.of_all(view).rows, Workload.of_all(view).rows[:0], tuple(ZONES))
    now = plan(workload, view, replicas=3, now=NOW)
    later = plan(workload, view, replicas=3, now=NOW, window=Window.after(NOW, seconds=2, tolerance=0))
    assert now.is_matched_by_stock
    assert now.is_chosen_by_stock
    assert not later.is_matched_by_stock


def test_of_equals_those_go_that_the_controller_deletes_in_every_case() -> None:
    """And of others those that it may delete, even if they come later in its order at this moment.

    Ages cross 4.29 and 8.59 seconds: now, the controller deletes both pods of zone a, the one with the smaller UID
    first. In a second that one is as old as those of zone b, of which one has become too old by then.
    """
    made = cluster("a: a1 a2", "b: b1 b2").with_pods(
        pod("older").uid("3").on("a1").created("2026-01-09T23:59:56.7Z").ready(),
        pod("always").uid("4").on("a2").created("2026-01-09T23:59:57.8Z").ready(),
        pod("possible").uid("2").on("b1").created("2026-01-09T23:59:55Z").ready(),
        pod("never").uid("1").on("b2").created("2026-01-09T23:59:52Z").ready(),
    )
    view = made.snapshot()
    workload = Workload.of_all(view, constraints=ZONES)
    now = plan(workload, view, replicas=2, now=NOW)
    assert now.keys == ("default/older", "default/never")
    later = plan(workload, view, replicas=2, now=NOW, window=Window.after(NOW, seconds=2, tolerance=0))
    assert later.stock.always == ("default/always",)
    assert set(later.stock.possible) == {"default/older", "default/always", "default/possible"}
    assert later.keys == ("default/always", "default/possible")


@pytest.mark.parametrize(
    ("types", "guaranteed"),
    [
        pytest.param("xxy", 2, id="each type is in one zone"),
        pytest.param("xyx", 1, id="a type is in two zones, and a zone has two types"),
    ],
)
def test_levelness_is_guaranteed_on_all_keys_of_a_hierarchy_and_else_on_the_first(types: str, guaranteed: int) -> None:
    """Keys that cross one another compete."""
    made = cluster("a: a1 a2", "b: b1").running("a1", "a2", "b1")
    for host, value in zip(("a1", "a2", "b1"), types, strict=True):
        made.node(host).labels(type=value)
    assert planned(made, 2, [Constraint(ZONE), Constraint("type")]).guaranteed == guaranteed
