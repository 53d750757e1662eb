"""Many at once: 200 workloads that shrink within a second, and 20 UnitedTopologies with 1,000 creations each.

Both run on the embedded lab, whose API server is a process of its own. Scale-downs are held by one webhook with the
limits of an installation; every tenth workload is large, so that it shows whether the large ones take the time of the
small ones. Creations go to three webhook processes, beside a UnitedTopology controller, 200 under way together.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import subsets
from bench.figures import calibration
from bench.scaledown import NAMESPACE, create_cluster, percentile, serving
from bench.scheduler import lab
from bench.workers import worker
from trimtab.api.apps import ReplicaSet
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.sessions import Session
from trimtab.scaledown.intent.ratelimits import RATES
from trimtab.scaledown.intent.requests import HoldResult, ScaleDownRequest
from trimtab.scaledown.metrics import HoldOutcome

WORKLOADS = 200
SMALL, LARGE = 9, 300
"""Pods of a workload; every tenth is large."""
SECONDS = 1.0
"""In which all of them are scaled down."""
TOPOLOGIES = 20


def scale_downs() -> Mapping[str, Any]:
    """Seconds for which requests were held, what became of them, and how large workloads differ from small ones."""
    with lab() as kubeconfig:
        return asyncio.run(_scale_downs(kubeconfig))


async def _scale_downs(kubeconfig: Path) -> Mapping[str, Any]:
    logging.getLogger("trimtab").setLevel(logging.ERROR)
    sizes = {f"w{number}": LARGE if number % 10 == 0 else SMALL for number in range(WORKLOADS)}
    outcomes = dict.fromkeys(sizes, HoldOutcome.LATE)

    def observe(request: ScaleDownRequest, result: HoldResult) -> None:
        outcomes[request.name] = result.outcome

    async with Client(Session(config.discover(kubeconfig))) as client:
        await create_cluster(client, sizes)
        async with serving(client, RATES, observe=observe):
            pause = SECONDS / len(sizes)
            requests = [_shrink(client, name, size, n * pause) for n, (name, size) in enumerate(sizes.items())]
            seconds = dict(zip(sizes, await asyncio.gather(*requests), strict=True))
    names = {
        "all": list(sizes),
        "small": [name for name, size in sizes.items() if size == SMALL],
        "large": [name for name, size in sizes.items() if size == LARGE],
    }
    return {
        "workloads": len(sizes),
        "pods": sum(sizes.values()),
        "sizes": {"small": SMALL, "large": LARGE},
        "held": {kind: _spread([seconds[name] for name in some]) for kind, some in names.items()},
        "completely written": {kind: _written(outcomes, some) for kind, some in names.items()},
        "outcomes": dict(Counter(outcomes.values())),
        "calibration_ms": calibration() * 1e3,
    }


def _written(outcomes: Mapping[str, HoldOutcome], names: Sequence[str]) -> float:
    """For which share of workloads all costs of the plan were written."""
    return sum(outcomes[name] is HoldOutcome.PLANNED for name in names) / len(names)


async def _shrink(client: Client, name: str, size: int, delay: float) -> float:
    """Scale a workload down by a third; how long that took."""
    await asyncio.sleep(delay)
    started = time.perf_counter()
    await client.resize(ReplicaSet, name, size * 2 // 3, namespace=NAMESPACE)
    return time.perf_counter() - started


def _spread(seconds: list[float]) -> Mapping[str, float]:
    return {"p50": percentile(seconds, 0.5), "p99": percentile(seconds, 0.99), "longest": max(seconds)}


def topologies() -> Mapping[str, Any]:
    """Seconds that reviews and creations took, and how many pods got no subset; limits are checked."""
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder,
        worker(subsets.serve, Path(folder)) as (server, _),
    ):
        return asyncio.run(_topologies(Path(server.recv()), Path(folder)))


async def _topologies(kubeconfig: Path, folder: Path) -> Mapping[str, Any]:
    names = [f"{subsets.NAME}-{number}" for number in range(TOPOLOGIES)]
    async with (
        Client(Session(config.discover(kubeconfig))) as client,
        subsets.prepared(client, kubeconfig, folder, names) as cluster,
    ):
        gate = asyncio.Semaphore(subsets.IN_FLIGHT)
        wanted = [(owner, number) for number in range(subsets.PODS) for owner in cluster.owners]
        began = time.perf_counter()
        made = await asyncio.gather(*(subsets.create(client, owner, number, gate) for owner, number in wanted))
        whole = time.perf_counter() - began
        reports = await cluster.reports()
    _check(Counter((owner["name"], subset) for (owner, _), (subset, _) in zip(wanted, made, strict=True)))
    return {
        "topologies": TOPOLOGIES,
        "creations": len(made),
        "seconds": whole,
        "reviews": _spread([each for report in reports for each in report[0]]),
        "creation": _spread([seconds for _, seconds in made]),
        "without_subset": sum(subset == "none" for subset, _ in made),
        "status_writes": sum(report[2] for report in reports),
        "conflicts": sum(report[3] for report in reports),
        "calibration_ms": calibration() * 1e3,
    }


def _check(counts: Counter[tuple[str, str]]) -> None:
    """Raises if a subset has more pods than its limit."""
    over = {key: count for key, count in counts.items() if key[1] in ("s0", "s1") and count > subsets.WANTED[key[1]]}
    if over:
        raise AssertionError(f"more pods than the limits {subsets.WANTED}: {over}")
