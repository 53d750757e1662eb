"""ReplicaSets and ReplicationControllers without an owner, with random layouts.

Pods come in batches: each batch goes to one node, so that nodes are stacked, and a wait between batches makes ages
differ. Some batches restart a few times, some never become ready. Changing the template of such a workload leaves its
existing pods as they are, so each batch has a template of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from bench.promise.comparison import JSON, is_ready
from bench.promise.measuring import Measurement, attach_events
from bench.promise.report import Report, add_certainty, summarize
from bench.promise.stage import Stage
from bench.promise.workloads import REPLICA_SETS, REPLICATION_CONTROLLERS, SCRIPT, Workload

KINDS = {"replicasets": REPLICA_SETS, "replicationcontrollers": REPLICATION_CONTROLLERS}
MOST_PODS = 12
_NODES_PER_ZONE = 2
"""How many nodes of each zone are used: few, so that pods are stacked."""
_WAITS = ((0.0, 0.5), (0.0, 0.5), (2.0, 6.0), (10.0, 40.0))
_CRASHES = f"{SCRIPT}crashes"
_BEHAVIOUR = f"{SCRIPT}behaviour"


@dataclass(frozen=True, slots=True)
class Batch:
    """Pods that are created together."""

    pods: int
    node: str
    crashes: int
    is_hanging: bool
    wait: float
    """Seconds until the next batch."""

    def template(self) -> JSON:
        """What the workload's template says for this batch; None removes what an earlier batch wrote."""
        annotations = {
            _CRASHES: str(self.crashes) if self.crashes else None,
            f"{SCRIPT}crash-after-seconds": "0.2" if self.crashes else None,
            f"{SCRIPT}back-off-seconds": "0.1" if self.crashes else None,
            _BEHAVIOUR: "hang" if self.is_hanging else None,
        }
        return {"metadata": {"annotations": annotations}, "spec": {"nodeName": self.node}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--layouts", type=int, default=20, help="layouts of each kind (default: 20)")
    parser.add_argument("--workloads", type=int, default=6, help="layouts side by side (default: 6)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: both")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Make each layout, shrink it, and compare with what was possible."""
    cases = [(kind, number) for number in range(arguments.layouts) for kind in arguments.kinds]
    todo, finished = iter(cases), list[Measurement]()
    await asyncio.gather(*(_play(stage, todo, finished) for _ in range(arguments.workloads)))
    await asyncio.sleep(3.0)
    for measurement in finished:
        measurement.evaluate()
    rounds = [measurement.round for measurement in finished]
    attach_events(rounds, stage.events.seen)
    report = Report(f"{arguments.layouts} layouts each of {', '.join(arguments.kinds)} without an owner")
    summarize(report, rounds, is_strict=True)
    add_certainty(report, rounds)
    return report


async def _play(stage: Stage, todo: Iterator[tuple[str, int]], finished: list[Measurement]) -> None:
    for kind, number in todo:
        rng = random.Random(f"{stage.options.seed}/{kind}/{number}")
        workload = Workload(KINDS[kind], f"{'rs' if kind == 'replicasets' else 'rc'}-{number}")
        size = await _lay_out(stage, workload, draw_batches(sorted(stage.zones), rng))
        measurement = Measurement(stage, workload, rng.randrange(1, size))
        await measurement.request()
        result = await measurement.finish()
        finished.append(measurement)
        print(f"[{len(finished)}] {result.line()}", flush=True)
        await stage.delete(workload)


def draw_batches(nodes: list[str], rng: random.Random) -> list[Batch]:
    """Three to six random batches with 12 pods at most; the last one is followed by a short wait."""
    used = _first_of_each_zone(nodes)
    batches: list[Batch] = []
    room = MOST_PODS
    for _ in range(rng.randint(3, 6)):
        pods = min(room, rng.randint(1, 4))
        room -= pods
        crashes = rng.randint(1, 3) if rng.random() < 0.25 else 0
        is_hanging = not crashes and rng.random() < 0.15
        if pods:
            batches.append(Batch(pods, rng.choice(used), crashes, is_hanging, rng.uniform(*rng.choice(_WAITS))))
    return batches


def _first_of_each_zone(nodes: list[str]) -> list[str]:
    """The nodes numbered 1 and 2 of each zone: `…-zone-a-1`."""
    return [node for node in nodes if int(node.rpartition("-")[2]) <= _NODES_PER_ZONE]


async def _lay_out(stage: Stage, workload: Workload, batches: list[Batch]) -> int:
    """Create the workload batch by batch; its size."""
    await stage.create(workload, 0)
    size = 0
    for batch in batches:
        size += batch.pods
        patch = {"spec": {"replicas": size, "template": batch.template()}}
        await stage.client.patch(workload.kind, workload.name, patch, namespace=stage.namespace)
        await stage.until(partial(_is_laid_out, stage, workload, size), f"{workload.name}: {size} pods laid out")
        await asyncio.sleep(batch.wait)
    return size


def _is_laid_out(stage: Stage, workload: Workload, size: int) -> bool:
    pods = stage.pods.active(workload.name)
    return len(pods) == size and all(_has_played(pod) for pod in pods)


def _has_played(pod: JSON) -> bool:
    """Whether a pod is where its script ends: ready after its crashes, or running and never ready."""
    annotations, status = pod["metadata"].get("annotations", {}), pod.get("status", {})
    if _BEHAVIOUR in annotations:
        return bool(status.get("phase") == "Running")
    restarts = sum(each.get("restartCount", 0) for each in status.get("containerStatuses", ()))
    return is_ready(pod) and restarts == int(annotations.get(_CRASHES, "0"))
