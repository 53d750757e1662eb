"""A HorizontalPodAutoscaler that changes its mind every few seconds.

Its bounds are moved up and down, which it follows without metrics. The events on the workload are counted, written and
by their own counts, and compared with the decreases that our own watch of Deployments saw.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections import Counter

from bench.promise import watching
from bench.promise.comparison import JSON
from bench.promise.report import Report
from bench.promise.scenarios.flood import SizeWatch
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload
from trimtab.kube.resources import untyped

_AUTOSCALERS = untyped("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
_SIZES = (6, 18)
_OURS = "ScaleDown"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--seconds", type=float, default=600.0, help="how long it lasts (default: 600)")
    parser.add_argument("--interval", type=float, default=20.0, help="seconds between two sizes (default: 20)")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Let the autoscaler flap, wait until events are written, and compare counts."""
    workload, sizes = Workload(DEPLOYMENTS, "web"), SizeWatch()
    writes: list[JSON] = []
    async with (
        watching.following(stage.client, DEPLOYMENTS, stage.namespace, sizes.handle),
        watching.following(stage.client, watching.EVENTS, stage.namespace, lambda _, event: writes.append(event)),
    ):
        await stage.create(workload, _SIZES[1])
        await stage.wait_ready(workload, _SIZES[1])
        await stage.client.create(_AUTOSCALERS, _autoscaler(workload, _SIZES[1]), namespace=stage.namespace)
        began = time.monotonic()
        await _flap(stage, arguments, workload)
        minutes = (time.monotonic() - began) / 60
        await asyncio.sleep(130.0)  # what was counted is written within two minutes
    return _report(writes, sizes, workload, minutes)


async def _flap(stage: Stage, arguments: argparse.Namespace, workload: Workload) -> None:
    for number in range(round(arguments.seconds / arguments.interval)):
        size = _SIZES[number % 2]
        patch = {"spec": {"minReplicas": size, "maxReplicas": size}}
        await stage.client.patch(_AUTOSCALERS, workload.name, patch, namespace=stage.namespace)
        await asyncio.sleep(arguments.interval)


def _autoscaler(workload: Workload, size: int) -> JSON:
    target = {"apiVersion": workload.kind.api_version, "kind": workload.kind.kind, "name": workload.name}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": workload.name},
        "spec": {"scaleTargetRef": target, "minReplicas": size, "maxReplicas": size},
    }


def _report(writes: list[JSON], sizes: SizeWatch, workload: Workload, minutes: float) -> Report:
    history = [size for _, size in sizes.sizes[workload.name]]
    decreases = sum(after < before for before, after in itertools.pairwise(history))
    ours = [event for event in writes if event.get("reason", "").startswith(_OURS)]
    counts: Counter[str] = Counter()
    for event in {each["metadata"]["name"]: each for each in ours}.values():  # the last version of each
        counts[event["reason"]] += event.get("count", 1)
    report = Report(f"an autoscaler that flaps for {minutes:.0f} min")
    report.add("decreases", decreases)
    report.add("events written", len(ours))
    report.add("events written a minute", f"{len(ours) / minutes:.2f}")
    for reason, count in counts.items():
        report.add(f"  count of {reason}", count)
    if len(ours) >= minutes:
        report.failures.append(f"{len(ours)} events in {minutes:.0f} min")
    reported = sum(count for reason, count in counts.items() if reason != "ScaleDownMissed")
    if reported != decreases:
        report.failures.append(f"{decreases} decreases, but events count {reported}")
    return report
