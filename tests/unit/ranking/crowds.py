"""Pods made quickly, by the thousand or from a few choices that collide often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trimtab.api.annotations import DELETION_COST
from trimtab.api.meta import ObjectMeta
from trimtab.api.nodes import Node
from trimtab.api.pods import Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus
from trimtab.api.times import to_ns
from trimtab.ranking.victims import Order
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_NS = to_ns(NOW)

AGES = (timedelta(-1), timedelta(0), timedelta(seconds=40), timedelta(seconds=50), timedelta(seconds=60))
"""Ages of few scales: to base 2, 40, 50 and 60 seconds have the same."""
UIDS = ("a", "b", "0123456789abcdef-1", "0123456789abcdef-2", "0123456789abcdef", "é", "z", "\U0001f600", "\uffee")
"""UIDs that take all of the text to tell apart, or that bytes order otherwise than UTF-16 would."""


def make(
    name: str,
    *,
    uid: str = "",
    node: str = "node",
    phase: str = "Running",
    ready: bool = True,
    since: datetime | None = None,
    created: datetime | None = None,
    cost: str | None = None,
    restarts: int = 0,
    sidecar_restarts: int = 0,
) -> Pod:
    """A pod, from what the criteria look at."""
    condition = PodCondition(type="Ready", status="True" if ready else "False", last_transition_time=since)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=uid,
            creation_timestamp=created,
            annotations={} if cost is None else {DELETION_COST: cost},
        ),
        spec=PodSpec(node_name=node, init_containers=(Container(name="side", restart_policy="Always"),)),
        status=PodStatus(
            phase=phase,
            conditions=(condition,),
            container_statuses=(ContainerStatus(name="main", restart_count=restarts),),
            init_container_statuses=(ContainerStatus(name="side", restart_count=sidecar_restarts),),
        ),
    )


times = st.sampled_from([None, *(NOW - age for age in AGES)])


@st.composite
def pod_lists(draw: st.DrawFn, *, size: int, alike: bool) -> list[Pod]:
    """Some pods; if `alike`, they differ in criteria 6 and later alone."""
    uids = draw(st.lists(st.sampled_from(UIDS), min_size=1, max_size=size, unique=True))
    return [draw(_pods(f"pod-{number}", uid, alike=alike)) for number, uid in enumerate(uids)]


@st.composite
def _pods(draw: st.DrawFn, name: str, uid: str, *, alike: bool) -> Pod:
    later: dict[str, Any] = {
        "since": draw(times),
        "created": draw(times),
        "restarts": draw(st.integers(0, 1)),
        "sidecar_restarts": draw(st.integers(0, 1)),
    }
    if alike:
        return make(name, uid=uid, **later)
    return make(
        name,
        uid=uid,
        node=draw(st.sampled_from(["", "a", "b"])),
        phase=draw(st.sampled_from(["Pending", "Unknown", "Running", "", "Succeeded"])),
        ready=draw(st.booleans()),
        cost=draw(st.sampled_from([None, "5", "-5", "+5", "2147483647", "-2147483648", "2147483648"])),
        **later,
    )


def view_of(pods: Iterable[Pod], nodes: Mapping[str, Mapping[str, str]] | None = None) -> Snapshot:
    """A view of these pods and of nodes with these labels."""
    view = Snapshot()
    for name, labels in (nodes or {}).items():
        view.put(Node(metadata=ObjectMeta(name=name, labels=labels)))
    for pod in pods:
        view.put(pod)
    return view


def rows_of(view: Snapshot, pods: Sequence[Pod]) -> IntColumn:
    """The rows of pods in a view."""
    return np.array([view.pods.rows.index[pod.key] for pod in pods], dtype=np.int64)


def names(view: Snapshot, order: Order) -> list[str]:
    """The keys of pods in their order."""
    return [view.pods.rows.names[row] or "" for row in order.rows.tolist()]
