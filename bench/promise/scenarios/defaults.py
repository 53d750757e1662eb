"""Default constraints at admission: Deployments that state none stay level over racks, through sizes and rollouts.

The operator's constraint is hard, with a maxSkew of 1, over a topology that kube-scheduler does not know by itself.
The skew is taken when the Deployment has been created, after each change of its size and after each rollout. `--stock`
shows what kube-scheduler's own defaults leave.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter

from bench.promise import workloads
from bench.promise.levels import layout, skew, written
from bench.promise.report import Report
from bench.promise.scenarios.rollout import roll_out, wait_complete
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload

RACK = "example.com/rack"
RACKS = 4
MAX_SKEW = 1
CONSTRAINT = {"maxSkew": MAX_SKEW, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule"}
CONFIGURATION = {
    "defaultConstraints": {"delivery": "Admission", "rules": [{"name": "racks", "constraints": [CONSTRAINT]}]}
}
LABEL = {"trimtab.dev/default-constraints": "enabled"}
_WORKLOAD = Workload(DEPLOYMENTS, "web")
_SIZES = range(4, 33)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--changes", type=int, default=50, help="random changes of the size (default: 50)")
    parser.add_argument("--rollouts", type=int, default=20, help="rollouts (default: 20)")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Create, resize, roll out; the skew over racks after each."""
    rng = random.Random(stage.options.seed)
    racks = await _label_nodes(stage)
    await choose(stage, stage.namespace)
    report = Report(f"{arguments.changes} sizes and {arguments.rollouts} rollouts of a Deployment without constraints")
    found: dict[str, list[int]] = {"creation": [], "scale-up": [], "scale-down": [], "rollout": []}

    async def record(what: str, size: int) -> None:
        await stage.wait_ready(_WORKLOAD, size)
        counts = layout(stage.pods.active(_WORKLOAD.name), racks)
        found[what].append(skew(counts))
        print(f"{what} to {size}: {written(counts)}", flush=True)

    size = 12
    await stage.create(_WORKLOAD, size, {"topologySpreadConstraints": []})
    await record("creation", size)
    for _ in range(arguments.changes):
        before, size = size, rng.choice([each for each in _SIZES if each != size])
        await asyncio.sleep(rng.uniform(0.0, 1.0))
        await stage.scale(_WORKLOAD, size)
        await record("scale-up" if size > before else "scale-down", size)
    for revision in range(arguments.rollouts):
        size = rng.choice(_SIZES)
        await stage.scale(_WORKLOAD, size)
        await stage.wait_ready(_WORKLOAD, size)
        await roll_out(stage, _WORKLOAD, revision, 0.0)
        await wait_complete(stage, _WORKLOAD)
        await record("rollout", size)
    for what, skews in found.items():
        report.add(f"skews after {what}", dict(sorted(Counter(skews).items())))
        beyond = sum(each > MAX_SKEW for each in skews)
        if beyond and not stage.options.is_stock:
            report.failures.append(f"{beyond} of {len(skews)} times the skew was above {MAX_SKEW} after {what}")
    return report


async def choose(stage: Stage, namespace: str) -> None:
    """Choose a namespace for default constraints."""
    await stage.client.patch(workloads.NAMESPACES, namespace, {"metadata": {"labels": LABEL}})
    await asyncio.sleep(2.0)  # API servers learn of labels by a watch of their own


async def _label_nodes(stage: Stage) -> dict[str, str]:
    """Give each node a rack, across the zones; the rack of each node."""
    racks = {name: f"rack-{index % RACKS}" for index, name in enumerate(sorted(stage.zones))}
    for name, rack in racks.items():
        await stage.client.patch(workloads.NODES, name, {"metadata": {"labels": {RACK: rack}}})
    return racks
