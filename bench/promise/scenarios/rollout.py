"""A rollout begins while a scale request is held, or right before it.

New pods are placed by the scheduler, which counts the old ones with them unless the constraint has `matchLabelKeys`
(`--match-label-keys`). So a result may be unlevel whatever is deleted; `--stock` shows how often. The promise is
kept where the result is level, or an event on the workload says why not.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator

from bench.promise.comparison import JSON
from bench.promise.levels import even_layout
from bench.promise.measuring import Measurement, Round, attach_events
from bench.promise.report import Report, summarize
from bench.promise.scenarios.rounds import grow
from bench.promise.stage import PATIENCE, Stage
from bench.promise.workloads import DEPLOYMENTS, Workload, zone_constraint

_REVISION = "promise.trimtab.dev/revision"
_HASH = "pod-template-hash"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--rounds", type=int, default=20, help="scale-downs in all (default: 20)")
    parser.add_argument("--workloads", type=int, default=4, help="workloads side by side (default: 4)")
    parser.add_argument("--match-label-keys", action="store_true", help=f"constrain each revision apart, by {_HASH}")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Half of the rollouts begin while the request is held, half right before it."""
    todo = iter(range(arguments.rounds))
    players = [Workload(DEPLOYMENTS, f"w{index}") for index in range(arguments.workloads)]
    rounds: list[Round] = []
    await asyncio.gather(*(_play(stage, arguments, each, todo, rounds) for each in players))
    await asyncio.sleep(3.0)
    attach_events(rounds, stage.events.seen)
    report = Report(f"{arguments.rounds} rollouts around a scale-down")
    summarize(report, rounds, may_report=True)
    for order in ("while held", "before"):
        part = [each for each in rounds if each.more["rollout"] == order]
        report.add(f"rollout {order}: unlevel", f"{sum(each.is_unlevel for each in part)} of {len(part)}")
    return report


async def _play(
    stage: Stage, arguments: argparse.Namespace, workload: Workload, todo: Iterator[int], rounds: list[Round]
) -> None:
    size = 1
    more = {"matchLabelKeys": [_HASH]} if arguments.match_label_keys else {}
    constraint = zone_constraint(workload.name, **more)
    await stage.create(workload, size, {"topologySpreadConstraints": [constraint]})
    for index in todo:
        rng = random.Random(f"{stage.options.seed}/{index}")
        size = await grow(stage, workload, size, rng)
        await asyncio.sleep(rng.uniform(0.0, 4.0))
        result = await _shrink_and_roll(stage, workload, size, index, rng)
        rounds.append(result)
        size = result.target
        print(f"[{len(rounds)}] rollout {result.more['rollout']}: {result.line()}", flush=True)


async def _shrink_and_roll(stage: Stage, workload: Workload, size: int, index: int, rng: random.Random) -> Round:
    """Ask for the smaller size and change the template, in one order or the other."""
    measurement = Measurement(stage, workload, rng.randrange(1, size))
    result = measurement.round
    result.best = even_layout(result.target, stage.zones)
    result.more = {"rollout": "while held" if index % 2 else "before"}
    if index % 2:
        await asyncio.gather(measurement.request(), roll_out(stage, workload, index, rng.uniform(0.02, 0.3)))
    else:
        await roll_out(stage, workload, index, 0.0)
        await asyncio.sleep(rng.choice([0.0, rng.uniform(0.0, 1.0)]))
        await measurement.request()
    try:
        await wait_complete(stage, workload)
    except TimeoutError as error:
        result.error = str(error)
    return await measurement.finish()


async def roll_out(stage: Stage, workload: Workload, revision: int, delay: float) -> None:
    """Change the template of a workload, after some seconds."""
    await asyncio.sleep(delay)
    patch = {"spec": {"template": {"metadata": {"annotations": {_REVISION: str(revision)}}}}}
    await stage.client.patch(workload.kind, workload.name, patch, namespace=stage.namespace)


async def wait_complete(stage: Stage, workload: Workload) -> None:
    """Wait until all pods are of the new template."""
    async with asyncio.timeout(PATIENCE):
        while not _is_complete(await stage.client.get(workload.kind, workload.name, namespace=stage.namespace)):
            await asyncio.sleep(0.3)


def _is_complete(deployment: JSON) -> bool:
    size, status = deployment["spec"]["replicas"], deployment.get("status", {})
    is_observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    counts = {status.get(count, 0) for count in ("updatedReplicas", "replicas", "readyReplicas")}
    return is_observed and counts == {size}
