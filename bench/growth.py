"""How decisions about one workload grow with the cluster: 1,000, 5,000 and 15,000 nodes with 20 pods each.

The workload in question has 1,000 pods in every cluster, so an exponent of 0 means that the rest of the cluster costs
nothing, and 1 that the time grows as the cluster does. Each size is measured in a process of its own.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from bench.figures import best, calibration, resident_mib
from trimtab.api import codec, times
from trimtab.api.meta import ObjectMeta
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.placement.decisions import Outcome
from trimtab.placement.engine import place
from trimtab.placement.framework import Cycle
from trimtab.placement.profiles import default_profile
from trimtab.placement.spread import PodTopologySpread
from trimtab.ranking import Constraint, Workload, plan
from trimtab.ranking.victims import replicaset_order
from trimtab.snapshot import Snapshot
from trimtab.subsets import statuses
from trimtab.subsets.allocation import PodCreation, allocate, fits_anywhere
from trimtab.testing.builders import PodBuilder, node, pod, uid_for

SIZES = (1_000, 5_000, 15_000)
PODS_A_NODE = 20
WORKLOAD = 1_000
BATCH = 100
"""How many creations are decided with one write of a UnitedTopology's status."""
ZONES = 3
NOW = 1_772_366_400_000_000_000
_OTHERS = 300
"""The number of other templates."""

Measured = Mapping[str, float]


def measure() -> Mapping[str, object]:
    """The milliseconds of each decision and the memory at each size, with the exponents."""
    sizes = {size: _in_own_process(size) for size in SIZES}
    names = [name for name in sizes[SIZES[0]] if name != "calibration ms"]
    exponents = {name: exponent([(size, measured[name]) for size, measured in sizes.items()]) for name in names}
    return {"sizes": {str(size): measured for size, measured in sizes.items()}, "exponents": exponents}


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The exponent of growth: the slope of a line through the logarithms of sizes and values."""
    xs, ys = [math.log(size) for size, _ in points], [math.log(value) for _, value in points]
    return statistics.linear_regression(xs, ys).slope


def _in_own_process(size: int) -> Measured:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure_size, (size,))


def measure_size(size: int) -> Measured:
    """All decisions in a cluster of that many nodes."""
    before = resident_mib()
    snapshot = cluster(size)
    memory = resident_mib() - before
    decisions = {name: best(work, turns=5, repeat=20) * 1e3 for name, work in _decisions(snapshot)}
    return {**decisions, "snapshot MiB": memory, "calibration ms": calibration() * 1e3}


def _decisions(snapshot: Snapshot) -> Iterator[tuple[str, Callable[[], object]]]:
    profile, rng, spread = default_profile(), random.Random(1), PodTopologySpread()
    incoming = _template("web").spread("zone").spread("host", hard=False).build()
    owner = uid_for("ReplicaSet/web")
    workload = Workload.owned_by(snapshot, owner, constraints=[Constraint(ZONE), Constraint(HOSTNAME)])
    rows = workload.rows
    current = snapshot.pods.objects[int(rows[0])] or incoming

    def spread_once() -> None:
        cycle = Cycle(incoming, snapshot)
        spread.filter(cycle)
        spread.score(cycle, snapshot.nodes.known)

    yield "place a pod ms", lambda: place(incoming, snapshot, profile, rng)
    yield "spread a pod ms", spread_once
    yield "find the workload's pods ms", lambda: Workload.owned_by(snapshot, owner)
    yield "plan 1,000 to 600 ms", lambda: plan(workload, snapshot, replicas=600, now=NOW)
    yield "rank 1,000 pods ms", lambda: replicaset_order(snapshot.pods, rows, rows, NOW)
    yield "pod event ms", lambda: snapshot.put(current)

    def finds_node(subset: int) -> bool:
        return subset > 0 and place(incoming, snapshot, profile, rng).outcome is Outcome.PLACED

    fixed, adaptive = _topology("Fixed"), _topology("Adaptive")
    yield f"status batch, {BATCH} pods ms", lambda: _reserve(fixed, fits_anywhere)
    yield "the same with simulations ms", lambda: _reserve(adaptive, finds_node)


def _reserve(topology: UnitedTopology, fits: Callable[[int], bool]) -> object:
    """Decide for a batch of new pods, and make the patch of the status. Each pod depends on those before it."""
    creations = [PodCreation(f"r-{number}", "r1", fits, is_affected_by_peers=True) for number in range(BATCH)]
    return statuses.patch(topology, allocate(topology, creations, now=times.from_ns(NOW)).status)


def _topology(strategy: str) -> UnitedTopology:
    """A UnitedTopology that has been counted: its first subset is full, the second may have any number of pods."""
    tree = {
        "metadata": {"name": "web", "namespace": "default", "generation": 1, "resourceVersion": "1"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "subsets": [{"name": "own", "maxReplicas": WORKLOAD}, {"name": "rented"}],
            "scheduleStrategy": {"type": strategy},
        },
        "status": {
            "observedGeneration": 1,
            "replicas": WORKLOAD + BATCH,
            "revision": "r1",
            "subsetStatuses": [
                {"name": "own", "replicas": WORKLOAD},
                {"name": "rented", "missingReplicas": -1},
            ],
        },
    }
    return codec.convert(tree, UnitedTopology)


def cluster(size: int) -> Snapshot:
    """A cluster of so many nodes; all pods but those of one workload belong to other templates."""
    snapshot = Snapshot()
    for number in range(size):
        snapshot.put(node(f"node-{number}", zone=f"zone-{number % ZONES}").build())
    ours = _template("web").build()
    others = [_template(f"app-{number}").build() for number in range(_OTHERS)]
    for number in range(size * PODS_A_NODE):
        template = ours if number < WORKLOAD else others[number % _OTHERS]
        snapshot.put(_copy(template, number, f"node-{number * 7919 % size}"))
    return snapshot


def _template(app: str) -> PodBuilder:
    return pod(app).labels(app=app).owned_by(app).requests(cpu="100m", memory="128Mi")


def _copy(template: Pod, number: int, node_name: str) -> Pod:
    """A pod of a template, on a node."""
    name = f"{template.metadata.name}-{number}"
    metadata: ObjectMeta = msgspec.structs.replace(template.metadata, name=name, uid=f"{number:036d}")
    spec = msgspec.structs.replace(template.spec, node_name=node_name)
    return msgspec.structs.replace(template, metadata=metadata, spec=spec)
