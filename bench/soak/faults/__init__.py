"""The faults of a run, by kind. Each returns what it did, or raises NoEffectError."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping

from bench.soak.arena import Arena
from bench.soak.faults import controlplane, hostile, nodes, product, workloads

Fault = Callable[[Arena, random.Random], Awaitable[str]]

FAULTS: Mapping[str, Fault] = {
    "scale": workloads.scale,
    "roll-out": workloads.roll_out,
    "evict": workloads.evict,
    "drain": nodes.drain,
    "add-zone": nodes.add_zone,
    "fail-zone": nodes.fail_zone,
    "kill-webhooks": product.kill_webhooks,
    "kill-controllers": product.kill_controllers,
    "kill-trimtab-scheduler": product.kill_scheduler,
    "kill-controller-manager": controlplane.kill_controller_manager,
    "kill-kube-scheduler": controlplane.kill_kube_scheduler,
    "cut-off-leader": product.cut_off_leader,
    "shift-clock": product.shift_clock,
    "pause-api-server": controlplane.pause_api_server,
    "restart-api-server": controlplane.restart_api_server,
    "pause-etcd": controlplane.pause_etcd,
    "restart-etcd": controlplane.restart_etcd,
    "etcd-quota": controlplane.fill_etcd,
    "cut-watches": product.cut_watches,
    "unreadable-object": hostile.create_unreadable,
    "forged-review": hostile.forge_review,
    "connection-burst": hostile.open_many,
}
