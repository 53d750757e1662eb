"""Constraints that admission added to pods, for workloads whose templates state none. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trimtab.api.annotations import DEFAULT_CONSTRAINTS
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.snapshot.pods import nanoseconds


def admitted_constraints(pods: Iterable[Pod]) -> tuple[TopologySpreadConstraint, ...]:
    """The default constraints that admission added to the pods of a workload; none if no pod has such.

    Those of the last pod decide, because the next one will have the same. They are without selectors, which name the
    pods of one revision: a workload counts its own pods.
    """
    defaulted = [pod for pod in pods if pod.active and DEFAULT_CONSTRAINTS in pod.metadata.annotations]
    if not defaulted:
        return ()
    last = max(defaulted, key=lambda pod: (nanoseconds(pod.metadata.creation_timestamp), pod.metadata.uid))
    return tuple(
        msgspec.structs.replace(each, label_selector=None, match_label_keys=())
        for each in last.spec.topology_spread_constraints
    )
