"""The time to place a pod in a cluster of 5,000 nodes."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from bench.figures import Figure, Limit, against_calibration, best
from trimtab.api import codec
from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.placement.engine import place, place_many
from trimtab.placement.framework import Cycle, Scores
from trimtab.placement.profiles import default_profile
from trimtab.placement.selectorspread import SelectorSpread
from trimtab.placement.spread import PodTopologySpread
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import PodBuilder, node, pod

NODES = 5_000
ZONES = 3
MATCHING = 15_000


def spread_5k() -> Figure:
    """The whole work of PodTopologySpread for one more pod: a hard zone and a soft hostname constraint."""
    snapshot, plugin, incoming = cluster(), PodTopologySpread(), constrained("incoming").build()

    def attempt() -> Scores | None:
        cycle = Cycle(incoming, snapshot)
        refusals = plugin.filter(cycle)
        feasible = snapshot.nodes.known if refusals is None else (refusals.codes == 0) & snapshot.nodes.known
        return plugin.score(cycle, feasible)

    return against_calibration(attempt, limit=Limit(0.1), repeat=100)


def place_5k() -> Figure:
    """The default profile, every filter and every score over all nodes, for one more pod."""
    snapshot, profile, rng = cluster(), default_profile(), random.Random(1)
    incoming = constrained("incoming").build()
    return against_calibration(lambda: place(incoming, snapshot, profile, rng), limit=Limit(0.3), repeat=50)


def place_many_5k() -> Figure:
    """5,000 pods in order, each counting the earlier ones: the time for one of them."""
    snapshot, profile, rng = cluster(), default_profile(), random.Random(1)
    pods = [constrained(f"new-{number}").build() for number in range(NODES)]
    figure = against_calibration(lambda: place_many(pods, snapshot, profile, rng), limit=Limit(0.3), turns=3)
    return Figure(figure.value / len(pods), figure.unit, figure.calibration, figure.limit)


def defaults_vs_selectorspread() -> Figure:
    """System defaults for a pod without constraints; the calibration is SelectorSpread on the same pod."""
    snapshot, incoming = cluster(), workload_pod("incoming").build()
    spread, selector_spread = PodTopologySpread(), SelectorSpread()
    feasible = snapshot.nodes.known

    def with_defaults() -> None:
        cycle = Cycle(incoming, snapshot)
        spread.filter(cycle)
        spread.score(cycle, feasible)

    def with_selector_spread() -> None:
        selector_spread.score(Cycle(incoming, snapshot), feasible)

    value, baseline = _alternately(with_defaults, with_selector_spread)
    return Figure(value * 1e3, "ms", baseline * 1e3, Limit(1.2, "the calibration is SelectorSpread"))


@cache
def cluster() -> Snapshot:
    """5,000 nodes in 3 zones, and 15,000 pods of one workload, evenly spread."""
    snapshot = Snapshot()
    for number in range(NODES):
        snapshot.put(node(f"node-{number}", zone=f"zone-{number % ZONES}").build())
    for number in range(MATCHING):
        snapshot.put(_running(number))
    tree = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    snapshot.put(codec.convert(tree, ReplicaSet))
    return snapshot


def constrained(name: str) -> PodBuilder:
    """A pod of the workload with its own constraints."""
    return workload_pod(name).spread("zone").spread("host", hard=False)


def workload_pod(name: str) -> PodBuilder:
    """A pod of the workload, unassigned."""
    return pod(name).labels(app="web").owned_by("web").requests(cpu="100m", memory="128Mi")


def _running(number: int) -> Pod:
    return workload_pod(f"web-{number}").on(f"node-{number % NODES}").build()


def _alternately(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """The best times of both, measured alternately, so that other load affects both."""
    times = [(best(one, turns=1, repeat=50), best(other, turns=1, repeat=50)) for _ in range(20)]
    return min(first for first, _ in times), min(second for _, second in times)
