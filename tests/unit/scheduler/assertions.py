"""Assertions about a scheduler, on snapshots that are built from scratch and not taken from it."""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.unit.scheduler.controlplane import ControlPlane
from trimtab.api import codec
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.placement.engine import place
from trimtab.scheduler.service import Service
from trimtab.scheduler.state import Attempt
from trimtab.snapshot import Snapshot


def view_of(nodes: Iterable[Node], pods: Iterable[Pod]) -> Snapshot:
    """A snapshot of a cluster, from scratch."""
    view = Snapshot()
    for node in nodes:
        view.put(node)
    for pod in pods:
        if pod.spec.node_name:
            view.put(pod)
    return view


def amounts(view: Snapshot) -> dict[str, tuple[int, list[int]]]:
    """For each node, the number of its pods and their requests."""
    nodes = view.nodes
    rows = {name: row for name, row in nodes.rows.index.items() if nodes.known[row]}
    columns = sorted(nodes.resources, key=str)
    return {
        name: (int(nodes.pods[row]), [int(nodes.requested[row, nodes.resources[each]]) for each in columns])
        for name, row in rows.items()
    }


class DecisionChecker:
    """Checks each decision of a service: the chosen node must be feasible for the pod at that moment."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._decide = service.state.attempt
        self.decisions = 0
        service.state.attempt = self.attempt  # type: ignore[method-assign]

    def attempt(self) -> Attempt | None:
        """Make an attempt, and check its decision."""
        before = self._view()
        attempt = self._decide()
        if attempt is not None and attempt.node:
            self.decisions += 1
            profile = self.service.configuration.profiles[attempt.queued.profile]
            verdict = place(attempt.pod, before, profile, random.Random(0)).verdict(attempt.node)
            assert verdict.ok, f"{attempt.node} refuses {attempt.pod.key}: {verdict}"
        return attempt

    def _view(self) -> Snapshot:
        """The observed and the assumed pods, from scratch."""
        nodes, pods = self.service.informers[0].store, self.service.informers[-1].store
        view = view_of(nodes, pods)
        for assumption in self.service.state.assumed.values():
            view.assume(assumption.attempt.queued.pod, assumption.attempt.node)
        return view


def check_agreement(service: Service, server: ControlPlane) -> None:
    """Check that nothing is assumed, and that the scheduler's counts equal those of the control plane."""
    assert not service.state.assumed
    truth = _truth(server)
    assert amounts(service.state.snapshot) == amounts(truth)
    waiting = {waiting.uid for waiting in service.state.queued_pods()}
    ours = [p for p in _pods(server) if p.spec.scheduler_name in service.configuration.profiles]
    assert waiting == {p.metadata.uid for p in ours if not p.spec.node_name and not p.finished}


def stuck(service: Service, server: ControlPlane) -> list[str]:
    """The pods without a node for which a feasible node exists."""
    truth = _truth(server)
    waiting = [
        p for p in _pods(server) if not p.spec.node_name and p.spec.scheduler_name in service.configuration.profiles
    ]
    return [
        p.key
        for p in waiting
        if place(p, truth, service.configuration.profiles[p.spec.scheduler_name], random.Random(0)).placed
    ]


def _truth(server: ControlPlane) -> Snapshot:
    nodes = [codec.convert(tree, Node) for tree in server.objects("nodes")]
    return view_of(nodes, _pods(server))


def _pods(server: ControlPlane) -> list[Pod]:
    return [codec.convert(tree, Pod) for tree in server.objects("pods")]
