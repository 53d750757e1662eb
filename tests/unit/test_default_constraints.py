"""Default constraints have one source: placement, simulation and planning name the same ones for every pod."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.kube.fakes import FakeServer
from trimtab.api import codec, configuration
from trimtab.api.apps import ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import DEPRECATED_ZONE, HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.app import admission, scheduling
from trimtab.app.dependencies import Dependencies
from trimtab.kube.client import Client
from trimtab.placement import engine
from trimtab.placement.framework import Cycle
from trimtab.placement.profiles import Profile
from trimtab.placement.spread import PodTopologySpread
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown.constraints import constraints_for, scheduler_name
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import node, pod
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.admission import simulation

JSON = dict[str, Any]
Named = set[tuple[str, int, bool, int, bool, bool]]

RACK = "example.com/rack"
KEYS = (ZONE, HOSTNAME, RACK, DEPRECATED_ZONE)
KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SCHEDULERS = ("", "default-scheduler", "trimtab", "fast", "other", "unheard-of")


def constraints(rng: random.Random) -> list[JSON]:
    """An operator's list; it may be empty."""
    made = []
    for key in rng.sample(KEYS, rng.randrange(4)):
        hard = rng.random() < 0.5
        more: JSON = {"minDomains": rng.randrange(1, 4)} if hard and rng.random() < 0.3 else {}
        more |= {"nodeTaintsPolicy": "Honor"} if rng.random() < 0.2 else {}
        more |= {"nodeAffinityPolicy": "Ignore"} if rng.random() < 0.2 else {}
        action = "DoNotSchedule" if hard else "ScheduleAnyway"
        made.append({"maxSkew": rng.randrange(1, 6), "topologyKey": key, "whenUnsatisfiable": action, **more})
    return made


def profile(rng: random.Random, name: str, *, own: bool) -> JSON:
    """A profile with random arguments; kube-scheduler does not know the proposal's constraints."""
    kind = rng.choice(["System", "List", "List", *(["Proposal"] if own else [])])
    args = {"defaultingType": kind} | ({"defaultConstraints": constraints(rng)} if kind == "List" else {})
    tree: JSON = {"schedulerName": name, "pluginConfig": [{"name": "PodTopologySpread", "args": args}]}
    if rng.random() < 0.15:
        tree["plugins"] = {"score": {"disabled": [{"name": "PodTopologySpread"}]}}
    return tree if rng.random() < 0.8 else {"schedulerName": name}


def configured(rng: random.Random) -> TrimtabConfiguration:
    """A configuration of Trimtab, with kube-scheduler's or without."""
    tree: JSON = {}
    if rng.random() < 0.8:
        names = rng.choice([["trimtab"], ["trimtab", "fast"]])
        tree["scheduler"] = {**KIND, "profiles": [profile(rng, name, own=True) for name in names]}
        if rng.random() < 0.2:
            field = rng.choice(["topologySpreadConstraints", "defaultTopologySpreadConstraints"])
            tree["scheduler"] = {**KIND, "profiles": [{"schedulerName": "trimtab"}], field: constraints(rng)}
    if rng.random() < 0.6:
        theirs = [profile(rng, name, own=False) for name in ("default-scheduler", "other")]
        theirs[0].setdefault("plugins", {}).setdefault("filter", {"enabled": [{"name": "TheirOwn"}]})
        extender = {"urlPrefix": "https://example.com"}
        tree["defaultConstraints"] = {"kubeScheduler": {**KIND, "profiles": theirs, "extenders": [extender]}}
    if rng.random() < 0.1:
        tree["featureGates"] = {"EvenPodsSpread": False}
    return configuration.read(tree)


def sample_snapshot(rng: random.Random) -> Snapshot:
    """Nodes with all keys, some with fewer; a ReplicaSet and a CloneSet."""
    snapshot = Snapshot()
    for number in range(rng.randrange(1, 6)):
        labels = {HOSTNAME: f"n{number}", ZONE: f"z{number % 2}", RACK: f"r{number % 3}"}
        kept = {key: value for key, value in labels.items() if rng.random() < 0.95}
        snapshot.put(node(f"n{number}").labels(kept).build())
    groups: JSON = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "w"}}},
    }
    snapshot.put(codec.convert(groups, ReplicaSet))
    snapshot.put(codec.convert({**groups, "spec": {**groups["spec"], "template": {}}}, CloneSet))
    return snapshot


def sample_pod(rng: random.Random) -> Pod:
    """A pod without constraints, of either workload, for any scheduler."""
    kind, version = rng.choice([("ReplicaSet", "apps/v1"), ("CloneSet", "apps.kruise.io/v1alpha1")])
    tree = pod("web-1").labels(app="w").owned_by("web", kind=kind, api_version=version).tree()
    tree["spec"]["schedulerName"] = rng.choice(SCHEDULERS)
    return codec.convert(tree, Pod)


def placed_by(used: Profile, incoming: Pod, snapshot: Snapshot) -> Named:
    """The constraints that a profile's filter applies to a pod; with those of its score."""
    plugins = [each for each in used.filters if isinstance(each, PodTopologySpread)]
    if not plugins:
        return set()
    found = plugins[0].constraints(Cycle(incoming, snapshot))
    return {
        (
            each.key if isinstance(each.key, str) else each.key[0],
            each.max_skew,
            each in found.hard,
            each.min_domains,
            each.honor_affinity,
            each.honor_taints,
        )
        for each in (*found.hard, *found.soft)
    }


def planned_by(found: Iterable[Constraint]) -> Named:
    """The same of constraints that scale-downs apply."""
    return {
        (
            each.topology_key,
            each.max_skew,
            each.hard,
            each.min_domains or 1,
            each.honor_affinity,
            each.honor_taints,
        )
        for each in found
    }


@pytest.mark.parametrize("block", range(10))
async def test_placement_simulation_and_planning_name_the_same_constraints(
    block: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For 1,000 random pods, clusters and configurations, in blocks."""
    caplog.set_level(logging.ERROR)
    simulated: list[Named] = []

    def place(new: Pod, snapshot: Snapshot, used: Profile, rng: Any) -> Any:
        simulated.append(placed_by(used, new, snapshot))
        return engine.place(new, snapshot, used, rng)

    monkeypatch.setattr(simulation, "place", place)
    monkeypatch.setattr(simulation.Simulation, "synced", True)
    for seed in range(block * 100, block * 100 + 100):
        rng = random.Random(seed)
        settings, snapshot, incoming = configured(rng), sample_snapshot(rng), sample_pod(rng)
        name = incoming.spec.scheduler_name
        clock = VirtualClock()
        dependencies = Dependencies(Client(FakeServer(clock), clock=clock), settings, CollectorRegistry())
        known = scheduling.schedulers(settings)
        serving = scheduling.settings(settings).profiles.get(name) or known.profile(name)
        wanted = placed_by(serving, incoming, snapshot)

        topologies = admission._Topologies(dependencies)  # noqa: SLF001 - as `component` builds it
        topologies.simulation.simulation.snapshot = snapshot
        topologies.simulation.simulation(codec.to_tree(incoming), "default")
        assert simulated.pop() == wanted, f"the simulation, seed {seed}"

        template = Document({"spec": {"schedulerName": name}})
        hold = admission._settings(settings).constraints(scheduler_name(template))  # noqa: SLF001 - as above
        assert planned_by(hold) == wanted, f"planning, seed {seed}"
        keys = {each.topology_key for each in constraints_for(template, snapshot, hold)}
        assert keys == {key for key, *_ in wanted if (snapshot.nodes.codes(key)[snapshot.nodes.known] >= 0).any()}


def test_an_empty_list_switches_leveling_off_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """For the workloads whose pods name that scheduler; those of others keep theirs."""
    empty = {"name": "PodTopologySpread", "args": {"defaultingType": "List"}}
    tree = {"kubeScheduler": {**KIND, "profiles": [{"pluginConfig": [empty]}]}}
    known = scheduling.schedulers(configuration.read({"defaultConstraints": tree}))
    constraints_of = scheduling.leveling_constraints(known)
    assert constraints_of("") == constraints_of("default-scheduler") == ()
    assert "the scheduler default-scheduler has no default constraints" in caplog.text
    assert [each.topology_key for each in constraints_of("trimtab")] == [ZONE, HOSTNAME]


@pytest.mark.parametrize(
    ("section", "path"),
    [
        pytest.param(
            {"kubeScheduler": {**KIND, "profiles": [{"schedulerName": "trimtab"}]}},
            "defaultConstraints.kubeScheduler.profiles",
            id="a profile of both schedulers",
        ),
        pytest.param(
            {
                "kubeScheduler": {
                    **KIND,
                    "topologySpreadConstraints": [
                        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
                    ],
                }
            },
            "defaultConstraints.kubeScheduler.topologySpreadConstraints",
            id="a field that kube-scheduler does not have",
        ),
        pytest.param(
            {"kubeScheduler": {"apiVersion": "componentconfig/v1alpha1"}},
            "defaultConstraints.kubeScheduler.apiVersion",
            id="the proposal's form",
        ),
    ],
)
def test_an_invalid_configuration_of_kube_scheduler_is_refused(section: JSON, path: str) -> None:
    """With the path in Trimtab's file."""
    with pytest.raises(InvalidError) as caught:
        scheduling.schedulers(configuration.read({"defaultConstraints": section}))
    assert caught.value.path == path


def test_a_score_that_is_disabled_leaves_hard_defaults_to_kube_scheduler_only() -> None:
    """kube-scheduler's filter applies them all the same; the proposal's table has no constraints then."""
    hard = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [hard]}
    rules = {
        "pluginConfig": [{"name": "PodTopologySpread", "args": args}],
        "plugins": {"score": {"disabled": [{"name": "PodTopologySpread"}]}},
    }
    scheduler = {**KIND, "profiles": [rules]}
    tree = {"scheduler": scheduler, "defaultConstraints": {"kubeScheduler": scheduler}}
    known = scheduling.schedulers(configuration.read(tree))
    assert known.default_constraints("trimtab") == ()
    assert [each.topology_key for each in known.default_constraints("")] == ["rack"]
