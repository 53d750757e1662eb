"""How long pods take to be created with default constraints at admission, and without, on the same API server.

Two namespaces differ by their label only. Pods of a service are created in both in turns, by some clients at a time,
and never scheduled. The result is what the webhook adds to the time of a request, and takes from the pods a second.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.promise import watching, workloads
from bench.promise.comparison import JSON
from bench.promise.report import Report
from bench.promise.scenarios.defaults import CONFIGURATION, choose
from bench.promise.stage import Stage
from trimtab.api.annotations import DEFAULT_CONSTRAINTS
from trimtab.kube.resources import untyped

__all__ = ["CONFIGURATION", "add_arguments", "measure"]

_SERVICES = untyped("v1", "Service", "services")
_ACCOUNTS = untyped("v1", "ServiceAccount", "serviceaccounts")
_BLOCK = 100
"""Pods that are created in one namespace before it is the other's turn."""


@dataclass
class Creations:
    """The creations in one namespace: how long each took, and how long all together."""

    namespace: str
    seconds: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    defaulted: int = 0

    def percentile(self, share: float) -> float:
        """A percentile of the requests, in milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    @property
    def rate(self) -> float:
        """Pods a second."""
        return len(self.seconds) / self.elapsed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--pods", type=int, default=2000, help="pods in each namespace (default: 2000)")
    parser.add_argument("--clients", type=int, default=8, help="requests at a time (default: 8)")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Create pods in turns, with the webhook and without."""
    with_it, without = Creations(stage.namespace), Creations(f"{stage.namespace}-without")
    await stage.client.create(workloads.NAMESPACES, {"metadata": {"name": without.namespace}})
    for each in (with_it, without):
        await _prepare(stage, each.namespace)
    await choose(stage, with_it.namespace)
    for _ in range(max(1, arguments.pods // _BLOCK)):
        for each in (with_it, without):
            await _create_block(stage, each, arguments.clients)
    report = Report(f"{len(with_it.seconds)} pods created with default constraints at admission, as many without")
    for name, each in (("with", with_it), ("without", without)):
        times = ", ".join(f"p{round(100 * share)} {each.percentile(share):.1f} ms" for share in (0.5, 0.9, 0.99))
        report.add(f"{name}: requests", times)
        report.add(f"{name}: pods a second", f"{each.rate:.0f}")
        report.add(f"{name}: pods with default constraints", each.defaulted)
    if not stage.options.is_stock and with_it.defaulted != len(with_it.seconds):
        report.failures.append(f"{len(with_it.seconds) - with_it.defaulted} pods got no default constraints")
    if without.defaulted:
        report.failures.append(f"{without.defaulted} pods of the other namespace got default constraints")
    await stage.client.delete_all(watching.PODS, namespace=without.namespace, grace_period_seconds=0)
    await stage.client.delete(workloads.NAMESPACES, without.namespace)
    return report


async def _prepare(stage: Stage, namespace: str) -> None:
    body = {"metadata": {"name": "web"}, "spec": {"selector": {watching.APP: "web"}, "ports": [{"port": 80}]}}
    await stage.client.create(_SERVICES, body, namespace=namespace)
    async with asyncio.timeout(30):
        while not (await stage.client.list(_ACCOUNTS, namespace=namespace)).items:  # pods are not admitted without
            await asyncio.sleep(0.2)


async def _create_block(stage: Stage, creations: Creations, clients: int) -> None:
    todo = iter(range(_BLOCK))
    began = time.monotonic()
    made = await asyncio.gather(*(_create(stage, creations, todo) for _ in range(clients)))
    creations.elapsed += time.monotonic() - began
    creations.defaulted += sum(map(_count_defaulted, made))
    await stage.client.delete_all(watching.PODS, namespace=creations.namespace, grace_period_seconds=0)


async def _create(stage: Stage, creations: Creations, todo: Iterator[int]) -> list[JSON]:
    """Create pods until the block is full."""
    made = []
    for _ in todo:
        spec = {**workloads.pod_spec(stage.run), "schedulerName": "none"}
        body = {"metadata": {"generateName": "web-", "labels": {watching.APP: "web"}}, "spec": spec}
        began = time.monotonic()
        made.append(await stage.client.create(watching.PODS, body, namespace=creations.namespace))
        creations.seconds.append(time.monotonic() - began)
    return made


def _count_defaulted(pods: Sequence[JSON]) -> int:
    return sum(DEFAULT_CONSTRAINTS in (pod["metadata"].get("annotations") or {}) for pod in pods)
