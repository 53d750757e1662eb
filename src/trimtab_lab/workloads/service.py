"""All workload controllers, run together over shared informers.

    client → informers → snapshot, queues → controllers → client

**Shutdown.** When `run` is cancelled, no more work is started. Work in progress may finish within a grace period and is
cancelled then; the next process continues from what the API server has.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.core import ReplicationController
from trimtab.api.pods import Pod
from trimtab.api.policy import PodDisruptionBudget
from trimtab.kube.client import Client
from trimtab.kube.components import CacheGroup, run_together
from trimtab.kube.events import Recorder
from trimtab.kube.informers import Informer
from trimtab.kube.runners import Runner
from trimtab.kube.stores import IndexFunction, Object, by_controller, by_namespace
from trimtab.snapshot import Snapshot
from trimtab_lab.workloads.deployment import controller as deployments
from trimtab_lab.workloads.disruption import controller as disruption
from trimtab_lab.workloads.disruption.owners import Owners
from trimtab_lab.workloads.options import STOCK, Options
from trimtab_lab.workloads.replicaset import controller as replicasets
from trimtab_lab.workloads.replicaset.controller import BY_CONTROLLER, BY_NAMESPACE
from trimtab_lab.workloads.replicaset.kinds import REPLICASETS, REPLICATION_CONTROLLERS, WorkloadKind
from trimtab_lab.workloads.replicaset.metrics import Metrics

T = TypeVar("T", bound=Object)


class Workloads:
    """ReplicaSets, ReplicationControllers, Deployments and disruption budgets of one cluster."""

    def __init__(
        self,
        client: Client,
        *,
        options: Options = STOCK,
        registry: CollectorRegistry | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._rng = rng or random.Random()  # noqa: S311 - spreads reconnections, guards nothing
        self.metrics = Metrics(registry)
        self.snapshot = Snapshot()
        self.informers: list[Informer[Any]] = []
        self.recorders: list[Recorder] = []
        self.runners: list[Runner[Any]] = []
        self._assemble(options)

    @property
    def synced(self) -> bool:
        """Whether all informers have synced."""
        return CacheGroup(self.informers).synced

    @property
    def problems(self) -> list[str]:
        """Why the informers may be out of date, for health pages."""
        return CacheGroup(self.informers).problems

    async def run(self) -> None:
        """Run the controllers until cancelled."""
        await run_together(
            *([each.run() for each in stage] for stage in (self.runners, self.recorders, self.informers))
        )

    # The controllers.

    def _assemble(self, options: Options) -> None:
        informers = _Informers(
            pods=self._informer(Pod, {BY_CONTROLLER: by_controller}),
            sets=self._informer(ReplicaSet, {BY_CONTROLLER: by_controller, BY_NAMESPACE: by_namespace}),
            replicators=self._informer(
                ReplicationController, {BY_CONTROLLER: by_controller, BY_NAMESPACE: by_namespace}
            ),
            deployments=self._informer(Deployment, {BY_NAMESPACE: by_namespace}),
            stateful=self._informer(StatefulSet, {}),
            budgets=self._informer(PodDisruptionBudget, {BY_NAMESPACE: by_namespace}),
        )
        informers.pods.subscribe(
            added=self.snapshot.put,
            updated=lambda _, new: self.snapshot.put(new),
            deleted=lambda pod: self.snapshot.drop(Pod, pod.metadata.namespace, pod.metadata.name),
        )
        self.runners = [
            self._replicas(REPLICASETS, informers.sets, informers, options),
            self._replicas(REPLICATION_CONTROLLERS, informers.replicators, informers, options),
            self._deployments(informers, options),
            self._budgets(informers),
        ]

    def _replicas(
        self, kind: WorkloadKind[T], workloads: Informer[T], informers: _Informers, options: Options
    ) -> Runner[Any]:
        return replicasets.Controller(
            kind,
            self._client,
            workloads=workloads,
            pods=informers.pods,
            snapshot=self.snapshot,
            recorder=self._recorder(kind.component),
            metrics=self.metrics,
            options=options,
        ).runner

    def _deployments(self, informers: _Informers, options: Options) -> Runner[Any]:
        return deployments.Controller(
            self._client,
            deployments=informers.deployments,
            sets=informers.sets,
            pods=informers.pods,
            recorder=self._recorder(deployments.COMPONENT),
            options=options,
        ).runner

    def _budgets(self, informers: _Informers) -> Runner[Any]:
        owners = Owners(
            self._client,
            deployments=informers.deployments,
            sets=informers.sets,
            controllers=informers.replicators,
            stateful=informers.stateful,
        )
        return disruption.Controller(
            self._client,
            budgets=informers.budgets,
            pods=informers.pods,
            deployments=informers.deployments,
            sets=informers.sets,
            owners=owners,
            snapshot=self.snapshot,
            recorder=self._recorder(disruption.COMPONENT),
        ).runner

    def _informer(self, kind: type[T], indexes: Mapping[str, IndexFunction[T]]) -> Informer[T]:
        created = Informer(self._client, kind, indexes=indexes, rng=self._rng)
        self.informers.append(created)
        return created

    def _recorder(self, component: str) -> Recorder:
        created = Recorder(self._client, component=component, rng=self._rng)
        self.recorders.append(created)
        return created


@dataclass(frozen=True, slots=True)
class _Informers:
    """The informers that the controllers share."""

    pods: Informer[Pod]
    sets: Informer[ReplicaSet]
    replicators: Informer[ReplicationController]
    deployments: Informer[Deployment]
    stateful: Informer[StatefulSet]
    budgets: Informer[PodDisruptionBudget]
