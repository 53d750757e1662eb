"""The nodes and the pods of a measurement, as requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bench.binding.wire import Address
from trimtab.testing.builders import PodBuilder, node, pod

NODES = 5_000
ZONES = 3
SCHEDULER_NAME = "measured"
"""The scheduler name of all pods: the contenders run one at a time, and each has this profile."""
NAMESPACE = "measured"
TURN = "turn"
"""The label with the turn that a pod belongs to."""


def _without(made: PodBuilder) -> PodBuilder:
    return made


def _soft(made: PodBuilder) -> PodBuilder:
    return made.spread("zone", hard=False).spread("host", hard=False)


def _hard(made: PodBuilder) -> PodBuilder:
    return made.spread("zone")


CONSTRAINTS: Mapping[str, Callable[[PodBuilder], PodBuilder]] = {"soft": _soft, "hard": _hard, "none": _without}
"""Soft zone and hostname constraints; a hard zone constraint; none."""


def node_name(number: int) -> str:
    """The name of a node."""
    return f"node-{number % NODES:05d}"


def node_requests(address: Address) -> Iterator[bytes]:
    """Create the nodes."""
    for number in range(NODES):
        tree = node(node_name(number), zone=f"zone-{number % ZONES}").tree()
        yield address.request("POST", "/api/v1/nodes", json.dumps(tree).encode())


def untaint_requests(address: Address) -> Iterator[bytes]:
    """Remove the taint that the API server gives to each new node, which no kubelet will call ready."""
    patch = json.dumps([{"op": "remove", "path": "/spec/taints"}]).encode()
    for number in range(NODES):
        path = f"/api/v1/nodes/{node_name(number)}"
        yield address.request("PATCH", path, patch, content_type="application/json-patch+json")


def namespace_request(address: Address, namespace: str) -> bytes:
    """Create a namespace."""
    tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    return address.request("POST", "/api/v1/namespaces", json.dumps(tree).encode())


def deletion_request(address: Address, namespace: str, turn: str) -> bytes:
    """Delete all pods of a turn at once: no kubelet would end them."""
    options = json.dumps({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}).encode()
    return address.request("DELETE", f"/api/v1/namespaces/{namespace}/pods?labelSelector={TURN}%3D{turn}", options)


def event_deletion_request(address: Address, namespace: str) -> bytes:
    """Delete all events of a namespace."""
    return address.request("DELETE", f"/api/v1/namespaces/{namespace}/events")


def existing_pod_requests(address: Address, namespace: str, count: int) -> Iterator[bytes]:
    """Create so many pods of the workload that have a node already, the same number on each node."""
    for number in range(count):
        tree = _pod(namespace, "none", f"existing-{number}", "none")
        tree["spec"]["nodeName"] = node_name(number)
        yield _creation(address, namespace, tree)


def pod_requests(
    address: Address, namespace: str, constraints: str, turn: str, count: int, prefix: str = "web"
) -> list[bytes]:
    """Create so many pods of one workload."""
    names = (f"{turn}-{prefix}-{number}" for number in range(count))
    return [_creation(address, namespace, _pod(namespace, constraints, name, turn)) for name in names]


def binding_requests(address: Address, namespace: str, turn: str, count: int) -> list[bytes]:
    """Bind these pods, each to the next node."""
    return [_binding_request(address, namespace, f"{turn}-web-{number}", number) for number in range(count)]


def _pod(namespace: str, constraints: str, name: str, turn: str) -> dict[str, Any]:
    made = (
        pod(name)
        .labels({"app": "web", TURN: turn})
        .requests(cpu="10m", memory="16Mi")
        .spec(schedulerName=SCHEDULER_NAME)
    )
    tree = CONSTRAINTS[constraints](made).tree()
    tree["metadata"]["namespace"] = namespace
    tree["metadata"].pop("uid", None)
    return tree


def _creation(address: Address, namespace: str, tree: Mapping[str, Any]) -> bytes:
    return address.request("POST", f"/api/v1/namespaces/{namespace}/pods", json.dumps(tree).encode())


def _binding_request(address: Address, namespace: str, name: str, number: int) -> bytes:
    tree = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name(number)},
    }
    return address.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", json.dumps(tree).encode())
