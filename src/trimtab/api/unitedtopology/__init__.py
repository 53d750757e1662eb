"""UnitedTopology (`apps.kruise.io/v1alpha1`): subsets for an existing workload.

`objects` has the types, `validation` the rules that a schema cannot express.

**The status is the only record** of which reservations exist. Webhooks and controller decide from it and update it
conditionally (with its resourceVersion). Only Trimtab writes it, always as a whole (`status_tree`): every list and
every number, so that no earlier value is left.

**Revisions.** Pods of two templates do not use each other's reservations. `subsetStatuses` counts the pods of
`revision`, the newest one; `otherRevisions` counts those of older templates, or of a template that a webhook saw before
the controller did. A revision is named by the UID of the ReplicaSet that owns its pods, or by the hash with which a
CloneSet labels its pods.

**Versions.** `countedVersion` is the latest resourceVersion of a pod that was counted. A count from an older view must
not replace one from a newer view: it would show reservations as free that have been used since.
"""

from __future__ import annotations

from trimtab.api.unitedtopology.objects import (
    API_VERSION,
    KIND,
    MAX_FLOORS,
    MAX_PENDING,
    MAX_RETURNS,
    MAX_SUBSETS,
    TARGETS,
    AdaptiveStrategy,
    Level,
    ReturnStrategy,
    RevisionStatus,
    ScheduleStrategy,
    Shortage,
    Subset,
    SubsetReturn,
    SubsetStatus,
    TargetReference,
    UnitedTopology,
    UnitedTopologySpec,
    UnitedTopologyStatus,
    status_tree,
)
from trimtab.api.unitedtopology.validation import problems

__all__ = [
    "API_VERSION",
    "KIND",
    "MAX_FLOORS",
    "MAX_PENDING",
    "MAX_RETURNS",
    "MAX_SUBSETS",
    "TARGETS",
    "AdaptiveStrategy",
    "Level",
    "ReturnStrategy",
    "RevisionStatus",
    "ScheduleStrategy",
    "Shortage",
    "Subset",
    "SubsetReturn",
    "SubsetStatus",
    "TargetReference",
    "UnitedTopology",
    "UnitedTopologySpec",
    "UnitedTopologyStatus",
    "problems",
    "status_tree",
]
