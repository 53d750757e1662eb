"""Rented capacity: last in, first out, and pods that return when own nodes have room again.

A Deployment with a UnitedTopology fills its own nodes, then rented ones. A scale-down takes the rented pods. When own
nodes are added, the pods return: by evictions, as a disruption budget allows. Then nothing is to move or to be written.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import dataclass, field

from bench.promise import watching, workloads
from bench.promise.comparison import JSON, is_active, is_ready
from bench.promise.report import Report
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload
from trimtab.api.annotations import NAMESPACE_LABEL
from trimtab.kube.resources import untyped

_TOPOLOGIES = untyped("apps.kruise.io/v1alpha1", "UnitedTopology", "unitedtopologies")
_BUDGETS = untyped("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
_WEB = Workload(DEPLOYMENTS, "web")
_SIZE, _OWN_PODS = 8, 4
_NODES = {"own": 2, "rented": 4}
_MORE_NODES = {"own": 4, "rented": 4}
_POD = {"resources": {"requests": {"cpu": "4"}}}
"""Two of them fill a simulated node."""

ZONES = tuple(_NODES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--settling", type=int, default=10, help="settlingSeconds of the UnitedTopology (default: 10)")
    parser.add_argument("--rest", type=float, default=600.0, help="seconds of rest in the end (default: 600)")


@dataclass
class Availability:
    """How many pods were ready, as our own watch saw it."""

    fewest: int = _SIZE
    names: set[str] = field(default_factory=set)
    """Every pod that there was."""
    _pods: dict[str, JSON] = field(default_factory=dict)

    def handle(self, change: str, pod: JSON) -> None:
        """Take a change in."""
        name = pod["metadata"]["name"]
        if change == "DELETED":
            self._pods.pop(name, None)
        else:
            self._pods[name] = pod
        self.names.add(name)
        ready = sum(is_active(each) and is_ready(each) for each in self._pods.values())
        if len(self._pods) >= _SIZE:  # while our watch lists what is there, it is not complete yet
            self.fewest = min(self.fewest, ready)


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Fill, shrink, fill again, add own nodes, wait for the pods, and rest."""
    report = Report("rented capacity is left first, and pods return")
    await stage.simulate_nodes(_NODES)
    await _govern(stage, arguments.settling)
    await stage.create(_WEB, _SIZE, _pod(stage))
    for size in (_SIZE, _OWN_PODS, _SIZE):
        await stage.scale(_WEB, size)
        await stage.wait_ready(_WEB, size)
        _expect(report, stage, size)
    await stage.client.create(_BUDGETS, _budget(), namespace=stage.namespace)
    seen = Availability()
    async with watching.following(stage.client, watching.PODS, stage.namespace, seen.handle):
        began = time.monotonic()
        await stage.simulate_nodes(_MORE_NODES)
        await stage.until(lambda: _ready_own(stage) == _SIZE, "all pods returned")
        took = time.monotonic() - began
    _add_returns(report, seen, took, arguments.settling)
    await _rest(stage, report, arguments.rest, 3 * arguments.settling)
    return report


async def _govern(stage: Stage, settling: int) -> None:
    """Create the UnitedTopology, and wait until new pods are sent to the webhook."""
    back = {"settlingSeconds": settling, "maxPods": 1}
    adaptive = {"rescheduleCriticalSeconds": 30, "return": back}
    terms = {zone: {"key": workloads.ZONE, "operator": "In", "values": [zone]} for zone in ZONES}
    subsets = [{"name": zone, "nodeSelectorTerm": {"matchExpressions": [term]}} for zone, term in terms.items()]
    target = {"apiVersion": DEPLOYMENTS.api_version, "kind": DEPLOYMENTS.kind, "name": _WEB.name}
    spec = {
        "targetRef": target,
        "subsets": subsets,
        "scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive},
    }
    kind = {"apiVersion": _TOPOLOGIES.api_version, "kind": _TOPOLOGIES.kind}
    body = {**kind, "metadata": {"name": _WEB.name}, "spec": spec}
    await stage.client.create(_TOPOLOGIES, body, namespace=stage.namespace)
    async with asyncio.timeout(30):
        while NAMESPACE_LABEL not in await _labels(stage):
            await asyncio.sleep(0.2)
    await asyncio.sleep(3.0)  # API servers learn of changed namespaces by a watch of their own


async def _labels(stage: Stage) -> JSON:
    labels: JSON = (await stage.client.get(workloads.NAMESPACES, stage.namespace))["metadata"].get("labels", {})
    return labels


def _pod(stage: Stage) -> JSON:
    containers = [{**each, **_POD} for each in workloads.pod_spec(stage.run)["containers"]]
    return {"containers": containers, "topologySpreadConstraints": []}


def _budget() -> JSON:
    selector = {"matchLabels": {watching.APP: _WEB.name}}
    return {"metadata": {"name": _WEB.name}, "spec": {"minAvailable": _SIZE - 1, "selector": selector}}


def _expect(report: Report, stage: Stage, size: int) -> None:
    """Own nodes are full, and rented ones have the rest."""
    found, want = stage.layout(_WEB), {"own": _OWN_PODS, "rented": size - _OWN_PODS}
    report.add(f"{size} pods: own, rented", f"{found['own']}, {found['rented']}")
    if {zone: found[zone] for zone in ZONES} != want:
        report.failures.append(f"{size} pods: {found}, not {want}")


def _ready_own(stage: Stage) -> int:
    pods = stage.pods.active(_WEB.name)
    return sum(is_ready(pod) and stage.zones.get(pod["spec"].get("nodeName", "")) == "own" for pod in pods)


def _add_returns(report: Report, seen: Availability, took: float, settling: int) -> None:
    rented = _SIZE - _OWN_PODS
    limit, moves = rented * 2 * settling, len(seen.names) - _SIZE
    report.add("seconds until all had returned", f"{took:.0f} (at most {limit})")
    report.add("pods that moved", moves)
    report.add("fewest pods ready", f"{seen.fewest} of {_SIZE}")
    if took > limit:
        report.failures.append(f"the pods returned after {took:.0f} s, {limit} are promised")
    if moves != rented:
        report.failures.append(f"{moves} pods moved instead of {rented}")
    if seen.fewest < _SIZE - 1:
        report.failures.append(f"only {seen.fewest} pods were ready at a time")


async def _rest(stage: Stage, report: Report, seconds: float, settle: float) -> None:
    """Wait until the status says nothing of returns any more; then nothing is to be written or to move."""
    await asyncio.sleep(settle)
    before, began = await _state(stage), time.monotonic()
    await asyncio.sleep(seconds)
    after, updates = await _state(stage), [each for each in stage.pods.updates if each.at >= began]
    report.add(f"pod updates in {seconds:g} s of rest", len(updates))
    report.failures += [f"{each.pod} was updated: {', '.join(each.fields)}" for each in updates]
    if before != after:
        report.failures.append(f"what was to rest changed: {before} → {after}")


async def _state(stage: Stage) -> JSON:
    """The pods, and the version of the UnitedTopology."""
    topology = await stage.client.get(_TOPOLOGIES, _WEB.name, namespace=stage.namespace)
    pods = sorted(pod["metadata"]["uid"] for pod in stage.pods.active(_WEB.name))
    return {"pods": pods, "version": topology["metadata"]["resourceVersion"]}
