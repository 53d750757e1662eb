"""Trimtab's protocol on Kubernetes objects: annotations, labels, who owns a deletion cost, and all reasons.

Everything that Trimtab writes to an object under its own name is defined here and nowhere else, so that every process
and every version reads it the same way.

**Who owns a cost.** A cost belongs to Trimtab while it equals the cost recorded in the annotation beside it. An author
that changes it afterwards owns it from then on, and Trimtab then removes only its own annotation. `cost_owner` decides,
and `REPLACEABLE` says which part of Trimtab may replace a cost of which owner:

| owner | recognized by | a plan may replace it | a policy may | a subset may |
|---|---|---|---|---|
| `NONE` | no cost | yes | yes | yes |
| `PLAN` | `trimtab.dev/scale-plan` | yes, a later plan | no | no |
| `POLICY` | `trimtab.dev/policy-cost` names this cost | no | yes | no |
| `SUBSET` | `trimtab.dev/subset-cost` equals the cost | inside its band | inside its band | yes |
| `OTHER` | none of these | no | no | no |
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model

# Keys of Kubernetes and of the cost proposal.

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""The lower cost goes first; no cost counts as 0."""
ALPHA_COST = "scheduling.alpha.kubernetes.io/cost"
"""The cost proposal's annotation: the higher cost goes first; no cost means that the pod is not ranked."""

FIELD_MANAGER = "trimtab"
"""The field manager of everything that Trimtab writes."""

# Keys of Trimtab on pods.

SCALE_PLAN = "trimtab.dev/scale-plan"
"""Beside a cost that was written for one scale-down: a `PlanAnnotation` as JSON."""
POLICY_COST = "trimtab.dev/policy-cost"
"""Beside a cost that a policy keeps current: a `PolicyCostAnnotation` as JSON. On a PodGroupCost: the policy's name."""
RANKED_AMONG = "trimtab.dev/ranked-among"
"""Beside a rank that must be recomputed after each removal: the `fingerprint` of the pods it was computed among."""
SUBSET_COST = "trimtab.dev/subset-cost"
"""Beside a cost that was written because of a subset: that cost."""
AIMED_SIZE = "trimtab.dev/aimed-size"
"""Beside a subset's cost that was written ahead of a scale-down: `3@1767225615`, the size and when it expires."""
TOPOLOGY = "trimtab.dev/united-topology"
"""The UnitedTopology whose subset the pod is in."""
SUBSET = "trimtab.dev/subset"
"""The name of that subset."""
RESERVATION = "trimtab.dev/reservation"
"""The key of the pod's entry in `creating`: at admission it has no name yet."""
STATED_COST = "trimtab.dev/cost"
"""The cost of deleting the pod as stated by its author, for the strategy `Stated`."""

# Keys of Trimtab on other objects.

NAMESPACE_LABEL = "trimtab.dev/united-topology"
"""A label of namespaces that hold a UnitedTopology: only their pods are sent to the pod webhook."""
NAMESPACE_LABEL_VALUE = "enabled"
MANAGED_BY = "trimtab.dev/managed-by"
"""On a CloneSet: the name of the controller that manages it."""
RANK = "trimtab.dev/rank"
"""On a CloneSet: how the number of pods in a domain becomes a rank, one of `RANKS`."""
RANKS = ("balanced", "proportional")
OPT_OUT = "trimtab.dev/scale-down"
"""On a workload or a namespace: `disabled` exempts it from every policy. As a label of a namespace, `enforce` and
`observe` are the mode of default policies there."""
OPTED_OUT = "disabled"
PROTECT_COSTS = "trimtab.dev/protect-costs"
"""A label of namespaces in which only Trimtab may change the costs of existing pods."""
DEFAULT_CONSTRAINTS = "trimtab.dev/default-constraints"
"""As a label of a namespace, `enabled`: its pods get default constraints at admission, if the configuration says so. As
a label of a pod, `disabled` exempts it. As an annotation of a pod: the name of the rule whose constraints it got."""
DEFAULTED = "enabled"
NOT_DEFAULTED = "disabled"
CONFIGURATION_DIGEST = "trimtab.dev/configuration"
"""On the pods of an installation: the digest of their configuration, so that a new one restarts them."""

PROTECTED = (DELETION_COST, ALPHA_COST, SCALE_PLAN, POLICY_COST, RANKED_AMONG, SUBSET_COST, AIMED_SIZE)
"""The annotations of pods that the protection of costs covers."""


class PlanAnnotation(Model):
    """What a cost was written for, and how to revert it: the value of `SCALE_PLAN`."""

    plan: str
    """Names the plan; the same for all its pods."""
    workload: str
    """`Deployment/web`: the workload that was to shrink, in the pod's namespace."""
    uid: str
    """The workload's."""
    generation: int
    """The workload's when it was planned: a request that took effect has increased it."""
    to: int
    """The size that the workload was to have."""
    at: int
    """When, in milliseconds since 1970."""
    share: int = 0
    """The size that the pod's own controller was to have: the same, unless a Deployment has several ReplicaSets."""
    was: int = 0
    """The size that the pod's own controller had: while it still has that, it has not been resized yet."""
    side: str = ""
    """Whether costs were written to the `victims` or to the `survivors`."""
    cost: int = 0
    before: str | None = None
    """The previous cost; None where there was none."""


class PolicyCostAnnotation(Model):
    """Which policy wrote a cost, and how to revert it: the value of `POLICY_COST`."""

    policy: str
    carrier: str
    cost: int
    before: str | None = None
    """The previous cost; None where there was none."""


@dataclass(frozen=True, slots=True)
class SubsetAnnotations:
    """The subset that a pod is counted in, and the reservation it came by; a pod that was matched later has none."""

    topology: str
    subset: str
    reservation: str = ""

    def written(self) -> dict[str, str]:
        """These annotations as a pod carries them."""
        annotations = {TOPOLOGY: self.topology, SUBSET: self.subset}
        return annotations | ({RESERVATION: self.reservation} if self.reservation else {})


SUBSET_KEYS = (TOPOLOGY, SUBSET, RESERVATION)
"""The annotations that `SubsetAnnotations` writes."""


class CostOwner(enum.Enum):
    """Who owns the cost of a pod."""

    NONE = "none"
    PLAN = "plan"
    POLICY = "policy"
    SUBSET = "subset"
    OTHER = "other"


REPLACEABLE: Mapping[CostOwner, frozenset[CostOwner]] = {
    CostOwner.PLAN: frozenset({CostOwner.NONE, CostOwner.PLAN, CostOwner.SUBSET}),
    CostOwner.POLICY: frozenset({CostOwner.NONE, CostOwner.POLICY, CostOwner.SUBSET}),
    CostOwner.SUBSET: frozenset({CostOwner.NONE, CostOwner.SUBSET}),
}
"""For each part of Trimtab that writes costs, the owners whose costs it may replace."""

Annotations = Mapping[str, str]
_T = TypeVar("_T")


def plan_annotation(annotations: Annotations) -> PlanAnnotation | None:
    """The plan that a cost was written for, if there is one that can be read."""
    return _decoded(annotations.get(SCALE_PLAN), PlanAnnotation)


def policy_cost_annotation(annotations: Annotations) -> PolicyCostAnnotation | None:
    """The policy that wrote a cost, if there is one that can be read."""
    return _decoded(annotations.get(POLICY_COST), PolicyCostAnnotation)


def subset_annotations(annotations: Annotations) -> SubsetAnnotations | None:
    """The subset that a pod is counted in."""
    topology, subset = annotations.get(TOPOLOGY), annotations.get(SUBSET)
    if not topology or not subset:
        return None
    return SubsetAnnotations(topology, subset, annotations.get(RESERVATION, ""))


_COST = re.compile(r"0|-?[1-9][0-9]*|-0[0-9]*")
_INT32 = range(-(2**31), 2**31)


def parse_cost(text: str | None) -> int | None:
    """A deletion cost as API servers accept it, an int32; None if there is none, or it is anything else."""
    if text is None or not _COST.fullmatch(text):
        return None
    digits = text.lstrip("-0") or "0"  # any number of zeros may follow a minus sign
    cost = int(digits) * (-1 if text.startswith("-") else 1) if len(digits) <= 10 else 2**31
    return cost if cost in _INT32 else None


def previous_cost(written: PlanAnnotation | PolicyCostAnnotation) -> str | None:
    """The cost to restore; None if there was none, or if the annotation has a value that no API server would accept.

    Anyone who may write a pod may have written the annotation.
    """
    return None if parse_cost(written.before) is None else written.before


def cost_owner(annotations: Annotations, key: str = DELETION_COST) -> CostOwner:
    """Who owns the cost that a pod has under this key. An active plan owns all costs of its pods."""
    if SCALE_PLAN in annotations:
        return CostOwner.PLAN
    cost = annotations.get(key)
    if cost is None:
        return CostOwner.NONE
    policy = policy_cost_annotation(annotations)
    if policy is not None and CARRIER_KEYS.get(policy.carrier) == key and str(policy.cost) == cost:
        return CostOwner.POLICY
    is_subset_cost = key == DELETION_COST and annotations.get(SUBSET_COST) == cost
    return CostOwner.SUBSET if is_subset_cost else CostOwner.OTHER


CARRIER_KEYS: Mapping[str, str] = {"Annotation": DELETION_COST, "AlphaAnnotation": ALPHA_COST}
"""The annotation in which each carrier of ScaleDownPolicy writes costs; PodGroupCost writes none."""


def fingerprint(names: Iterable[str]) -> str:
    """A digest of a set of pod names, whatever their order: the value of `RANKED_AMONG`."""
    return hashlib.blake2b("\n".join(sorted(names)).encode(), digest_size=8).hexdigest()


_LONGEST = 16_384
"""Characters of an annotation that is read: those that Trimtab writes are shorter, and pods may have any."""


def _decoded(text: str | None, kind: type[_T]) -> _T | None:
    if text is None or len(text) > _LONGEST:
        return None
    try:
        return codec.decode(text, kind)
    except InvalidError:
        return None


# Reasons.


class Reason(enum.StrEnum):
    """Every reason and condition type that Trimtab writes.

    The line below a member says where it appears, what it means and, where there is something to do, what:
    `Where: Meaning. Fix: action.` docs/reasons.md is generated from these lines.
    """

    # All kinds.
    UNREADABLE = "Unreadable"
    """Event on any object: The object does not fit its type, is nested too deep or has too many values. It is skipped,
    and a version that was read before is used. Fix: correct the field that the message names."""
    IGNORED_RULES = "IgnoredRules"
    """Event on a Pod, Service, workload or UnitedTopology: Some of its rules are invalid or too many, such as affinity
    terms, host ports or spread constraints. Trimtab works as if they were not there. Fix: correct the field that the
    message names."""
    # ScaleDownPolicy, condition Ready.
    RANKING = "Ranking"
    """Condition Ready of ScaleDownPolicy: The policy works: its costs are kept current."""
    OBSERVING = "Observing"
    """Condition Ready of ScaleDownPolicy: Its scale-downs are observed, and nothing is written to pods."""
    ON_SCALE_INTENT = "OnScaleIntent"
    """Condition Ready of ScaleDownPolicy: The policy works: costs are written on each scale-down."""
    INVALID = "Invalid"
    """Condition Ready of ScaleDownPolicy and of UnitedTopology: The object cannot work as it is written. Fix: change
    the fields that the message names."""
    NOT_SUPPORTED = "NotSupported"
    """Condition Ready of ScaleDownPolicy: The workload does not choose its victims by cost (a StatefulSet, a Job). Fix:
    remove the policy, or target another workload."""
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"
    """Condition Ready of ScaleDownPolicy: The target does not exist, or the selector matches no pods. Fix: create the
    workload, or correct `targetRef` or `selector`."""
    DISABLED = "Disabled"
    """Condition Ready of ScaleDownPolicy: No policy applies: scale-downs are switched off, the namespace is exempt, or
    the workload opts out. Fix: remove the opt-out, or switch scale-downs on."""
    OVERRIDDEN = "Overridden"
    """Condition Ready of ScaleDownPolicy, and condition Overlapping: Other policies apply to the workloads of this one.
    Fix: remove one of them, or name the workload in `targetRef`."""
    OVERLAPPING_SELECTORS = "OverlappingSelectors"
    """Condition Ready of ScaleDownPolicy, and condition of the same name: Two workloads select the same pods; their
    pods are not ranked. Fix: give each selector labels of its own."""
    MANAGED_BY_DEPLOYMENT = "ManagedByDeployment"
    """Condition Ready of ScaleDownPolicy: The target is a ReplicaSet that a Deployment, or another workload that owns
    it, resizes; only requests to that are held. Fix: name it in `targetRef`, or use `delivery: Continuous`."""
    STRATEGY_FAILED = "StrategyFailed"
    """Condition Ready of ScaleDownPolicy: A strategy raised an error. Fix: read the message and the log."""
    CARRIER_NOT_CONSUMED = "CarrierNotConsumed"
    """Condition Ready of ScaleDownPolicy, and condition of the same name: No controller reads the chosen carrier for
    some workload. Fix: use `carrier: Annotation`."""
    UNRANKED = "Unranked"
    """Condition Ready of ScaleDownPolicy, and condition WaitingForRanks of CloneSet: Some pods have no rank; the
    message names them and the strategies. Fix: make the pods' signal available, or set `whenUnranked`."""
    WRITE_FAILED = "WriteFailed"
    """Condition Ready of ScaleDownPolicy: Costs could not be written. Fix: check the permissions and the load of the
    API server."""
    # ScaleDownPolicy, other conditions.
    OVERLAPPING = "Overlapping"
    """Condition type of ScaleDownPolicy: Several policies select the same workloads. Fix: remove one of them, or name
    the workload in `targetRef`."""
    OVERRIDES = "Overrides"
    """Condition Overlapping of ScaleDownPolicy: This policy applies before others."""
    RIVAL_COSTS = "RivalCosts"
    """Condition of ScaleDownPolicy, reason of its Ready, and event on the workload: PodGroupCosts of other writers rank
    the same pods and do not count: beside those of a policy, or because several name one workload. Fix: delete all but
    one; find out who may write PodGroupCosts."""
    # Scale-downs.
    SCALE_DOWN_PLANNED = "ScaleDownPlanned"
    """Event on the workload: A scale-down was planned, and its costs were written. The message says what stays, what
    stock would or may leave, and by which topology key the pods are counted."""
    SCALE_DOWN_PARTIAL = "ScaleDownPartial"
    """Event on the workload: Not all costs of a plan, or of the subsets of a UnitedTopology for the new size, could be
    written in time. The message says how level the result will be at worst, or why they were not. Fix: Raise
    `scaleDown.budgetSeconds`, or relieve the API server."""
    SCALE_DOWN_SKIPPED = "ScaleDownSkipped"
    """Event on the workload: A scale-down was admitted without a plan although a policy applies. Fix: The message
    names the cause."""
    SCALE_DOWN_OBSERVED = "ScaleDownObserved"
    """Event on the workload: A scale-down was observed. The message says what the controller left, and what Trimtab
    would have left. Fix: To let Trimtab act, set the policy's `mode` to `Enforce`."""
    SCALE_DOWN_MISSED = "ScaleDownMissed"
    """Event on the workload: A scale-down ended less level than was possible. Fix: The message has both skews, and the
    cause as metrics name it and in words; see docs/scale-down.md."""
    SCALE_DOWN_DURING_ROLLOUT = "ScaleDownDuringRollout"
    """Event on the workload: A scale-down ended level while a rollout was in progress, which replaces the pods and
    decides how level they are in the end."""
    COSTS_OVERWRITTEN = "CostsOverwritten"
    """Event on the workload: Another writer replaced deletion costs during a scale-down. Fix: Use `otherCosts:
    TieBreak`, or exclude the workload from the other writer."""
    COSTS_NOT_REVERTED = "CostsNotReverted"
    """Event on the workload: Some pods had no rank, and the costs of the others could not be reverted before the
    request was admitted: the controller may follow them. Fix: Raise `scaleDown.budgetSeconds`, or relieve the API
    server; the log has the errors."""
    UNKNOWN_LABEL_VALUE = "UnknownLabelValue"
    """Event on the namespace: Its label `trimtab.dev/scale-down` has a value that means nothing, and is ignored. Fix:
    write `enforce`, `observe` or `disabled`, or remove the label."""
    # UnitedTopology.
    POD_WEBHOOK_DISABLED = "PodWebhookDisabled"
    """Condition Ready of UnitedTopology: The feature gate `PodWebhook` is off. Fix: set `featureGates.PodWebhook:
    true`."""
    TARGET_CONFLICT = "TargetConflict"
    """Condition Ready of UnitedTopology: An older UnitedTopology has the same target, or the target is a ReplicaSet
    with an owner. Fix: delete one of them, or target the owner."""
    TARGET_IN_SCHEDULING_GROUP = "TargetInSchedulingGroup"
    """Condition Ready of UnitedTopology: The pods of the target belong to a scheduling group, and are disrupted as its
    PodGroup says: no subset gets them, and none of them is evicted. Fix: remove `schedulingGroup` from the template, or
    delete the UnitedTopology."""
    TARGET_NOT_FOUND = "TargetNotFound"
    """Condition Ready of UnitedTopology: The target does not exist. Fix: create it, or correct `targetRef`."""
    RECONCILED = "Reconciled"
    """Condition Ready of UnitedTopology: The pods of the target are allocated to subsets."""
    ADMITTED_WITHOUT_SUBSET = "AdmittedWithoutSubset"
    """Event on UnitedTopology: A pod was admitted without a subset, because no decision was made in time. Fix: for
    single pods nothing is to be done: the controller matches the pod later. If many, check the webhooks' latency."""
    PATCH_FAILED = "PatchFailed"
    """Event on UnitedTopology: A subset's patch does not apply to a pod, which was admitted without a subset. Fix:
    correct the subset's `patch`."""
    RESERVATION_EXPIRED = "ReservationExpired"
    """Event on UnitedTopology: A pod was admitted into a subset and never stored. Fix: look for another webhook, a
    quota or a policy that refuses the pods."""
    DELETION_REVERTED = "DeletionReverted"
    """Event on UnitedTopology: A pod whose deletion was announced still exists; it is counted again."""
    RESCHEDULED = "Rescheduled"
    """Event on UnitedTopology: A pod that no node of its subset could take was deleted; its successor goes to another
    subset."""
    RETURNED = "Returned"
    """Event on UnitedTopology: A pod was evicted, as an earlier subset has room again: its successor goes there."""
    RETURN_DELAYED = "ReturnDelayed"
    """Event on UnitedTopology: A pod is to return to an earlier subset, and a disruption budget does not allow its
    eviction now. It is tried again."""
    # CloneSet.
    SUCCESSFUL_CREATE = "SuccessfulCreate"
    """Event on CloneSet: A pod was created."""
    SUCCESSFUL_DELETE = "SuccessfulDelete"
    """Event on CloneSet: A pod was deleted."""
    FAILED_CREATE = "FailedCreate"
    """Event on CloneSet: A pod could not be created. Fix: read the API server's message."""
    FAILED_DELETE = "FailedDelete"
    """Event on CloneSet: A pod could not be deleted. Fix: read the API server's message."""
    FAILED_SCALE = "FailedScale"
    """Condition of CloneSet, and event on it: Pods could not be created or deleted to reach the size.
    Fix: read the message."""
    FAILED_UPDATE = "FailedUpdate"
    """Condition of CloneSet, and event on it: Pods could not be replaced by those of the new template. Fix: read the
    message."""
    INVALID_SPEC = "InvalidSpec"
    """Condition of CloneSet, and event on it: The spec uses a field that is not supported, or cannot work. Fix: change
    the field that the message names."""
    SELECTOR_OVERLAP = "SelectorOverlap"
    """Condition of CloneSet, and event on it: Another CloneSet selects the same pods. Fix: give each selector labels of
    its own."""
    WAITING_FOR_RANKS = "WaitingForRanks"
    """Condition of CloneSet, and event on it: A scale-down waits until all pods have a rank, or until the policy's
    timeout."""
    RANKS_IGNORED = "RanksIgnored"
    """Event on CloneSet: A scale-down used the original order, because ranks were missing or out of date. Fix: check
    the component that writes the ranks."""
    ERROR = "Error"
    """Conditions FailedScale and FailedUpdate of CloneSet: The API server refused a request. Fix: read the message."""
    OVERLAP = "Overlap"
    """Condition SelectorOverlap of CloneSet: Another CloneSet selects the same pods. Fix: give each selector labels of
    its own."""
    UNSUPPORTED = "Unsupported"
    """Condition InvalidSpec of CloneSet: The spec uses a field or a value that is not supported. Fix: change the field
    that the message names."""
    SCALE_UP_LIMITED = "ScaleUpLimited"
    """Event on CloneSet: `scaleStrategy.maxUnavailable` delays the creation of pods."""
    NOT_MANAGED = "NotManaged"
    """Event on the CustomResourceDefinition of CloneSet: The definition is OpenKruise's: Trimtab leaves CloneSets to
    OpenKruise."""
    # Scheduler.
    SCHEDULED = "Scheduled"
    """Event on Pod: Trimtab's scheduler bound the pod to a node."""
    FAILED_SCHEDULING = "FailedScheduling"
    """Event on Pod: No node can take the pod, or the pod needs what this scheduler does not decide. Fix: read the
    message: it counts the nodes by the reason for which each is excluded."""
    UNSCHEDULABLE = "Unschedulable"
    """Condition PodScheduled of Pod: All nodes were refused, or the pod needs what this scheduler does not support.
    Fix: read the message: it counts the nodes by the reason for which each is excluded."""
    SCHEDULER_ERROR = "SchedulerError"
    """Condition PodScheduled of Pod: The attempt to schedule the pod failed, and is repeated after a back-off. Fix:
    read the message: the pod is invalid, or the API server did not bind it."""
