"""Leases in `kube-node-lease`: the heartbeat of each node, renewed while the node has not failed.

The first renewal is immediate, the second comes after a random part of the interval: so the renewals of nodes that were
started together are spread over the interval.
"""

from __future__ import annotations

import contextlib
import random

from trimtab.api import times
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.clocks import Clock
from trimtab.kube.errors import AlreadyExists, NotFound
from trimtab.kube.runners import Result
from trimtab_lab.nodes.settings import JITTER, Renewal
from trimtab_lab.nodes.simulatednodes import SimulatedNodes
from trimtab_lab.nodes.views import LEASE_WRITES, Node

NAMESPACE = "kube-node-lease"


class Heartbeats:
    """Renews the Leases of the nodes that have not failed."""

    def __init__(self, client: Client, clock: Clock, simulated: SimulatedNodes, rng: random.Random) -> None:
        self.renewal = Renewal(10.0, 300.0)
        self._client = client
        self._clock = clock
        self._simulated = simulated
        self._rng = rng
        self._started: set[str] = set()

    async def reconcile(self, name: str) -> Result:
        """Renew the Lease of a node, unless it has failed, and requeue it for the next renewal."""
        node = self._simulated.get_running(name)
        if node is None:
            self._started.discard(name)
            return Result()
        await self._renew(node)
        first = name not in self._started
        self._started.add(name)
        share = self._rng.random() if first else 1 + JITTER * self._rng.random()
        return Result(requeue_after=self.renewal.interval * share)

    async def _renew(self, node: Node) -> None:
        try:
            await self._client.patch(LEASE_WRITES, node.name, {"spec": self._spec(node)}, namespace=NAMESPACE)
        except NotFound:
            await self._create(node)

    async def _create(self, node: Node) -> None:
        """Create the Lease, owned by its node, and its namespace on a control plane that lacks it."""
        body = {"metadata": {"name": node.name, "ownerReferences": [_owner(node)]}, "spec": self._spec(node)}
        try:
            await self._client.create(LEASE_WRITES, body, namespace=NAMESPACE)
        except NotFound:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(Namespace, {"metadata": {"name": NAMESPACE}})
            await self._client.create(LEASE_WRITES, body, namespace=NAMESPACE)

    def _spec(self, node: Node) -> JSON:
        return {
            "holderIdentity": node.name,
            "leaseDurationSeconds": self.renewal.lease_seconds,
            "renewTime": times.format_micro(self._clock.now()),
        }


def _owner(node: Node) -> JSON:
    return {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.metadata.uid}
