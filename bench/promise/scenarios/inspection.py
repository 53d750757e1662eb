"""Plans and `trimtab watch` against what controllers do, with nothing of Trimtab installed.

Workloads of all kinds grow to a random size, wait, and shrink to a random size. Right before each request the cluster
is read and the scale-down planned, as `trimtab plan` does; all the while an observer follows the cluster, as `trimtab
watch` does. The promise: the pods that go are among those that the plan calls possible, and include those that it says
go in every case; and the observer reports each scale-down once, with the very pods that went and what is left.

CloneSets need a controller that is not part of Kubernetes: with `--clonesets` Trimtab's runs in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from bench.promise.measuring import Measurement
from bench.promise.report import Report
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, Workload
from trimtab.api import crds
from trimtab.api.cloneset import CloneSet
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.cloneset.controller import Controller
from trimtab.cloneset.settings import Settings as CloneSetSettings
from trimtab.inspection import reading
from trimtab.inspection.observing import ObservedScaleDown, ScaleDownObserver
from trimtab.inspection.plans import WorkloadPlan, plan_workload
from trimtab.inspection.settings import Settings
from trimtab.inspection.targets import find_workload
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import AlreadyExists, NotFound
from trimtab.kube.resources import Resource

SIZES = (4, 20)
_WAITS = ((0.0, 1.0), (0.0, 4.0), (5.0, 20.0))
_CLONESETS = Resource.of(CloneSet).raw
_PREFIXES = {"Deployment": "deploy", "ReplicaSet": "rs", "ReplicationController": "rc", "CloneSet": "cloneset"}
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A round: what was planned, and what went."""

    plan: WorkloadPlan
    measurement: Measurement

    @property
    def subject(self) -> str:
        """The workload and its sizes, for people and to find its record."""
        return f"{self.plan.kind}/{self.plan.name} {self.plan.from_} → {self.plan.to}"

    def failures(self, record: ObservedScaleDown | None) -> Iterator[str]:
        """What does not hold."""
        deleted = set(self.measurement.round.deleted)
        possible = {name for each in self.plan.controllers for name in each.possible}
        always = {name for each in self.plan.controllers for name in each.always}
        if self.measurement.round.error:
            yield self.measurement.round.error
        if not deleted <= possible:
            yield f"went although the plan calls it impossible: {sorted(deleted - possible)}"
        if not always <= deleted:
            yield f"stayed although the plan says it goes: {sorted(always - deleted)}"
        if record is None:
            yield "was not reported by watch"
            return
        if set(record.deleted) != deleted:
            yield f"watch reports {sorted(record.deleted)} deleted, and {sorted(deleted)} were"
        left = sorted(next((each.left for each in record.distributions), ()))
        measured = sorted(self.measurement.round.after.values())
        if [count for count in left if count] != [count for count in measured if count]:
            yield f"watch reports {left} left, and {measured} are"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--rounds", type=int, default=60, help="scale-downs in all (default: 60)")
    parser.add_argument("--workloads", type=int, default=8, help="workloads side by side (default: 8)")
    parser.add_argument("--clonesets", action="store_true", help="CloneSets too, with Trimtab's controller")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Play all rounds, and compare each with its plan and with the observer's record."""
    records: list[ObservedScaleDown] = []
    kinds = [DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, *([_CLONESETS] if arguments.clonesets else [])]
    players = [Workload(kinds[at % len(kinds)], f"w{at}") for at in range(arguments.workloads)]
    todo, finished = iter(range(arguments.rounds)), list[Outcome]()
    async with _cloning(stage, arguments.clonesets), _observing(stage, records):
        await asyncio.gather(*(_play(stage, each, todo, finished) for each in players))
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while len(records) < len(finished):
                    await asyncio.sleep(0.2)
    return _report(finished, records)


@asynccontextmanager
async def _observing(stage: Stage, records: list[ObservedScaleDown]) -> AsyncIterator[None]:
    observer = ScaleDownObserver(stage.client, Settings(), records.append, namespace=stage.namespace)
    task = asyncio.ensure_future(observer.run())
    await observer.wait_synced()
    try:
        yield
    finally:
        await cancel(task)


@asynccontextmanager
async def _cloning(stage: Stage, is_wanted: bool) -> AsyncIterator[None]:
    if not is_wanted:
        yield
        return
    definitions = Resource.of(CustomResourceDefinition).raw
    for each in crds.manifests():
        with suppress(AlreadyExists):
            await stage.client.create(definitions, each)
    await _served(stage)
    settings = CloneSetSettings(namespaces=frozenset({stage.namespace}))
    task = asyncio.ensure_future(Controller(stage.client, settings).run())
    try:
        yield
    finally:
        await cancel(task)


async def _served(stage: Stage) -> None:
    """Wait until the API server serves CloneSets."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            with suppress(NotFound):
                await stage.client.list(_CLONESETS, namespace=stage.namespace)
                return
            await asyncio.sleep(0.2)


async def _play(stage: Stage, workload: Workload, todo: Iterator[int], finished: list[Outcome]) -> None:
    size = 1
    await stage.create(workload, size)
    for index in todo:
        rng = random.Random(f"{stage.options.seed}/inspection/{index}")
        size = rng.randint(max(SIZES[0], size + 1), max(SIZES[1], size + 1))
        await stage.scale(workload, size)
        await stage.wait_ready(workload, size)
        await asyncio.sleep(rng.uniform(*rng.choice(_WAITS)))
        target = rng.randrange(0, size)
        plan = await _planned(stage, workload, target)
        measurement = Measurement(stage, workload, target)
        await measurement.request()
        await measurement.finish()
        finished.append(Outcome(plan, measurement))
        size = target
        print(f"[{len(finished)}] {measurement.round.line()}", flush=True)


async def _planned(stage: Stage, workload: Workload, target: int) -> WorkloadPlan:
    cluster = await reading.read(stage.client, namespace=stage.namespace)
    name = f"{_PREFIXES[workload.kind.kind]}/{workload.name}"
    return plan_workload(cluster, find_workload(cluster, name, stage.namespace), target, Settings())


def _report(finished: list[Outcome], records: list[ObservedScaleDown]) -> Report:
    report = Report(f"{len(finished)} plans against what controllers did")
    report.rounds += [each.measurement.round for each in finished]
    found: dict[str, list[ObservedScaleDown]] = {}
    for record in records:
        found.setdefault(f"{record.kind}/{record.name} {record.from_} → {record.to}", []).append(record)
    for each in finished:
        matching = found.get(each.subject, [])
        failures = each.failures(matching.pop(0) if matching else None)
        report.failures += [f"{each.subject}: {failure}" for failure in failures]
    unexpected = sum(map(len, found.values()))
    if unexpected:
        report.failures.append(f"watch reports {unexpected} scale-downs that nobody asked for")
    by_kind: dict[str, int] = {}
    for each in finished:
        by_kind[each.plan.kind] = by_kind.get(each.plan.kind, 0) + 1
    report.add("scale-downs by kind", ", ".join(f"{count} {kind}" for kind, count in sorted(by_kind.items())))
    unique = sum(all(len(one.always) == len(one.possible) for one in each.plan.controllers) for each in finished)
    report.add("plans that name the victims of stock for certain", unique)
    report.add("scale-downs that watch reported", len(records))
    report.add("of these less level than was possible", sum(record.result == "missed" for record in records))
    return report
