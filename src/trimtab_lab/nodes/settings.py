"""Rates and timeouts of the simulation.

**Heartbeats.** A kubelet renews its Lease every 10 s. For 5,000 nodes that is 500 writes a second, more than everything
else in a lab. So `renewal` limits the renewals of all nodes together, and each node waits longer instead:

| nodes | with the lab's node lifecycle | beside a controller manager |
|---|---|---|
| up to 500 | every 10 s | every 10 s |
| 1,000 | every 20 s | every 20 s |
| 5,000 | every 100 s | every 25 s (200 writes a second) |

A controller manager marks a node as Unknown 50 s after its last heartbeat, whatever the Lease says, so beside one a
node waits 25 s at most. The lab's node lifecycle goes by the duration of the Lease: 40 s, or two renewals where that is
longer, and a quarter more. A large lab is therefore slow to notice a failed node; set `renew_seconds` where that
matters more than the load.

**Node status** is confirmed every five minutes, or every 250 s per thousand nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

RENEWALS_PER_SECOND = 50.0
RENEW_SECONDS = 10.0
MAX_RENEW_SECONDS = 25.0
LEASE_SECONDS = 40
STATUS_SECONDS = 300.0
STATUS_UPDATES_PER_SECOND = 4.0
JITTER = 0.04
"""The fraction of an interval by which a kubelet varies it."""


@dataclass(frozen=True, slots=True)
class NodeLifecycleSettings:
    """Flags of Kubernetes' node controllers, with their defaults."""

    monitor_seconds: float = 5.0
    grace_seconds: float = 50.0
    startup_grace_seconds: float = 60.0
    eviction_rate: float = 0.1
    """How many nodes of a zone get a NoExecute taint per second (`--node-eviction-rate`)."""
    secondary_eviction_rate: float = 0.01
    unhealthy_zone_threshold: float = 0.55
    large_cluster_size: int = 50
    orphan_seconds: float = 40.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How the simulation behaves. `lifecycle` is None where the control plane has node controllers of its own."""

    lifecycle: NodeLifecycleSettings | None = None
    renew_seconds: float | None = None
    lease_seconds: int = LEASE_SECONDS
    """The shortest duration of a Lease; a failure is noticed a quarter later."""
    writes_per_second: float = 500.0
    """The limit for writes of pod status; heartbeats are not counted."""
    write_burst: int = 200
    pod_workers: int = 16
    node_workers: int = 8
    settle_seconds: float = 0.25
    """A pod that will run within this time is not written as being created."""


SETTINGS = Settings()
LAB = Settings(lifecycle=NodeLifecycleSettings())
"""For a control plane without node controllers, such as the lab's."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """How often Leases are renewed and node status is confirmed, and the duration of a Lease, in seconds."""

    interval: float
    status_interval: float
    lease_seconds: int = field(default=LEASE_SECONDS)


def renewal(nodes: int, settings: Settings = SETTINGS) -> Renewal:
    """How often each of this many nodes sends a heartbeat."""
    interval = settings.renew_seconds
    if interval is None:
        interval = max(RENEW_SECONDS, nodes / RENEWALS_PER_SECOND)
        if settings.lifecycle is None:
            interval = min(interval, MAX_RENEW_SECONDS)
    confirm = max(STATUS_SECONDS, nodes / STATUS_UPDATES_PER_SECOND)
    return Renewal(interval, confirm, max(settings.lease_seconds, math.ceil(2 * interval)))
