"""How often, how fast and how many at once: what simulating many nodes may cost.

**Heartbeats.** A kubelet renews its Lease every 10 s. For 5,000 nodes that is 500 writes a second, more than
everything else that happens in a lab. So `renewal` allows so many renewals a second for all nodes together, and lets
each node wait longer instead:

| nodes | with the lab's own lifecycle | beside a controller manager |
|---|---|---|
| up to 500 | every 10 s | every 10 s |
| 1,000 | every 20 s | every 20 s |
| 5,000 | every 100 s | every 25 s (200 writes a second) |

A controller manager gives a node up 50 s after its last heartbeat, whatever its Lease says, so beside one a node waits
25 s at most. The lab's lifecycle looks at how long a Lease is meant to last: it lasts 40 s, or two renewals where that
is longer, and its node is given up after a quarter more. A large lab is therefore slow to notice a failed node; set
`renew_seconds` where that matters more than the load.

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
"""The share of an interval by which a kubelet varies it."""


@dataclass(frozen=True, slots=True)
class NodeLifecycleSettings:
    """What the node controllers of Kubernetes have as flags, with their defaults."""

    monitor_seconds: float = 5.0
    grace_seconds: float = 50.0
    startup_grace_seconds: float = 60.0
    eviction_rate: float = 0.1
    """How many nodes of a zone are marked for eviction in a second."""
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
    """How long a Lease is meant to last, at least: who waits for a failure to be noticed waits a quarter longer."""
    writes_per_second: float = 500.0
    """For what happens to pods; heartbeats are beside it."""
    write_burst: int = 200
    pod_workers: int = 16
    node_workers: int = 8
    settle_seconds: float = 0.25
    """A pod that will run so soon is not written as being created before."""


SETTINGS = Settings()
LAB = Settings(lifecycle=NodeLifecycleSettings())
"""For a control plane without node controllers, such as the lab's."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """How often Leases are renewed and node status is confirmed, and how long a Lease is meant to last; in seconds."""

    interval: float
    confirm: float
    lease_seconds: int = field(default=LEASE_SECONDS)


def renewal(nodes: int, settings: Settings = SETTINGS) -> Renewal:
    """How often each of so many nodes gives a heartbeat of life."""
    interval = settings.renew_seconds
    if interval is None:
        interval = max(RENEW_SECONDS, nodes / RENEWALS_PER_SECOND)
        if settings.lifecycle is None:
            interval = min(interval, MAX_RENEW_SECONDS)
    confirm = max(STATUS_SECONDS, nodes / STATUS_UPDATES_PER_SECOND)
    return Renewal(interval, confirm, max(settings.lease_seconds, math.ceil(2 * interval)))
