"""The time of a pod event, and the memory of a large cluster."""

from __future__ import annotations

import itertools
import json
import random
import resource

import msgspec

from bench.decoding import pod_tree
from bench.figures import Figure, Limit, against_calibration
from trimtab.api import codec, selectors
from trimtab.api.meta import LabelSelector, ObjectMeta
from trimtab.api.nodes import HOSTNAME, ZONE, Node, NodeStatus
from trimtab.api.pods import Pod
from trimtab.snapshot import Snapshot

NODES = 5_000
PODS = 150_000
TEMPLATES = 300
EVENTS = 2_000


def snapshot_event() -> Figure:
    """One event of a pod on a cluster of 5,000 nodes: it is added, moves to another node, changes state and is deleted,
    while tallies are kept for its workload."""
    view, trees = _cluster(), _trees(EVENTS)
    pods = [codec.convert(tree, Pod) for tree in trees]
    for pod in pods:
        selector = selectors.compile(LabelSelector(match_labels={"app": pod.metadata.labels["app"]}))
        view.matching(pod.metadata.namespace, selector)
    moved = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="node-0007")) for pod in pods
    ]
    waiting = [msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=())) for pod in moved]

    def work() -> None:
        for pod in itertools.chain(pods, moved, waiting):
            view.put(pod)
        for pod in pods:
            view.drop(Pod, pod.metadata.namespace, pod.metadata.name)

    figure = against_calibration(work, limit=Limit(0.01), turns=3)
    return Figure(figure.value / (4 * EVENTS), "ms", figure.calibration, figure.limit)


def snapshot_memory() -> Figure:
    """The memory of 5,000 nodes and 150,000 pods of 300 templates, in GiB; the calibration is the limit of 2 GiB."""
    before = _peak()
    view = _cluster()
    rng = random.Random(11)
    for number in range(PODS):
        view.put(codec.decode(json.dumps(pod_tree(rng, number, number % TEMPLATES)), Pod))
    used = _peak() - before
    return Figure(used / 2**30, "GiB", 2, Limit(1, f"{len(view.pods.rows.index):,} pods in 2 GiB"))


def _cluster() -> Snapshot:
    view = Snapshot()
    for number in range(NODES):
        name = f"node-{number:04d}"
        labels = {HOSTNAME: name, ZONE: f"zone-{number % 3}"}
        status = NodeStatus(allocatable={"cpu": "32", "memory": "128Gi", "pods": "110"})
        view.put(Node(metadata=ObjectMeta(name=name, labels=labels), status=status))
    return view


def _trees(count: int) -> list[dict[str, object]]:
    rng = random.Random(3)
    return [pod_tree(rng, number, number % 50) for number in range(count)]


def _peak() -> int:
    """The peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
