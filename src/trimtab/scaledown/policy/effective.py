"""Which policy applies to a workload. Pure.

Of several policies that refer to a workload, the most specific one applies:

1. one whose `targetRef` names the workload itself;
2. one whose `targetRef` names the workload's owner (the Deployment of a ReplicaSet, for example);
3. one whose `selector` matches the labels of the workload's pods as its template states them; the one with more
   requirements before the one with fewer;
4. a default from the configuration: the first in its list whose namespace selector matches. A label of the namespace
   replaces its mode. Ranks that another component gives to the workload's pods replace its strategies
   (see `explicit_ranks`).

Among equals the older policy applies, then the one whose name comes first: an order that does not change when either is
edited. Policies of 1 to 3 that refer to one workload *overlap*, and both report it in a condition. A default is made to
be overridden, so a policy that overrides one does not overlap. A policy that is more specific but invalid still
applies: a mistake in it must not make another policy's strategies apply to the workload.

No policy applies where scale-downs are disabled, in an exempt namespace, where the workload or its namespace opts out,
for a kind that does not choose its victims by cost, for pods of a scheduling group, which may have to be disrupted all
together, or for pods that two workloads select (see `conflicts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import msgspec

from trimtab.api import times
from trimtab.api.annotations import OPT_OUT, OPTED_OUT
from trimtab.api.scaledown import TARGETS, UNSUPPORTED_KINDS, Mode, ScaleDownPolicy, ScaleDownPolicySpec
from trimtab.api.selectors import Selector
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners, advice
from trimtab.kube.stores import key_of
from trimtab.scaledown.policy.defaults import NO_DEFAULTS, Defaults
from trimtab.scaledown.policy.workloads import WorkloadRef, compile_selector, opts_out

_MODES: Mapping[str, Mode] = {"enforce": "Enforce", "observe": "Observe"}
"""The modes of default policies by the label of a namespace."""


def unknown_mode(namespace_labels: Mapping[str, str]) -> str | None:
    """The value of the label `trimtab.dev/scale-down` of a namespace, where it means nothing; else None."""
    value = namespace_labels.get(OPT_OUT)
    return None if value is None or value.lower() in (OPTED_OUT, *_MODES) else value


def unknown_mode_message(value: str) -> str:
    """What is said about such a value."""
    known = ", ".join((OPTED_OUT, *_MODES))
    return f'the label {OPT_OUT} has the value "{value}", which means nothing: write one of {known}'


def is_on_scale_intent(spec: ScaleDownPolicySpec) -> bool:
    """Whether costs are written while a request to scale down is held, and at no other time."""
    return spec.delivery == "OnScaleIntent" and spec.carrier == "Annotation"


class Specificity(IntEnum):
    """How specifically a policy refers to a workload; the lower comes first."""

    TARGET = 1
    OWNER = 2
    SELECTOR = 3
    DEFAULT = 4


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The policy that applies to a workload."""

    spec: ScaleDownPolicySpec
    key: str
    """`namespace/name` of the policy; empty for a default from the configuration."""
    name: str
    """The policy's name, or the default's."""
    uid: str = ""
    specificity: Specificity = Specificity.DEFAULT
    overridden: tuple[str, ...] = ()
    """The policies (`namespace/name`) that would apply without this one, the next one first."""
    ranked_by: str = ""
    """Where the explicit ranks are that replace the strategies of a default policy; empty where there are none."""

    @property
    def is_default(self) -> bool:
        """Whether it is from the configuration, and no ScaleDownPolicy."""
        return self.specificity is Specificity.DEFAULT

    @property
    def is_enforced(self) -> bool:
        """Whether anything is written to pods."""
        return self.spec.mode == "Enforce"

    def __str__(self) -> str:
        return f"ScaleDownPolicy {self.key}" if self.key else f'the default policy "{self.name}"'


def effective_policy(
    workload: WorkloadRef,
    policies: Iterable[ScaleDownPolicy],
    defaults: Defaults = NO_DEFAULTS,
    namespace_labels: Mapping[str, str] | None = None,
) -> EffectivePolicy | None:
    """The policy that applies to a workload, if one does. `policies` may be those of all namespaces."""
    return effective_policy_by(PolicyTable(policies).policy_for, workload, defaults, namespace_labels or {})


def effective_policy_by(
    lookup: Callable[[WorkloadRef], EffectivePolicy | None],
    workload: WorkloadRef,
    defaults: Defaults,
    namespace_labels: Mapping[str, str],
) -> EffectivePolicy | None:
    """The policy that applies to a workload, if one does; `lookup` finds the ScaleDownPolicy, as `PolicyTable` does."""
    if exemption(workload, defaults, namespace_labels):
        return None
    return lookup(workload) or _default_policy(defaults, namespace_labels)


def exemption(workload: WorkloadRef, defaults: Defaults, namespace_labels: Mapping[str, str]) -> str:
    """Why no policy applies to a workload, whatever policies there are; empty where one may."""
    if not defaults.enabled:
        return "scale-downs are disabled in Trimtab's configuration"
    if defaults.only and workload.namespace not in defaults.only:
        return f"namespace {workload.namespace} is not among the namespaces of Trimtab's configuration"
    if workload.namespace in defaults.exempt:
        return f"namespace {workload.namespace} is exempt by the configuration"
    if opts_out(namespace_labels):
        return f"namespace {workload.namespace} opts out with {OPT_OUT}: {OPTED_OUT}"
    if workload.opted_out:
        return f"{workload} opts out with {OPT_OUT}: {OPTED_OUT}"
    reason = "" if workload.is_configured else unsupported(workload.api_version, workload.kind)
    return reason or scheduling_group_reason(workload)


def scheduling_group_reason(workload: WorkloadRef) -> str:
    """Why no policy applies to a workload whose pods belong to a scheduling group; empty for others."""
    if not workload.in_scheduling_group:
        return ""
    return (
        f"the pods of {workload} belong to a scheduling group (schedulingGroup), which is disrupted as its PodGroup "
        "says: Trimtab chooses none of them"
    )


def unsupported(api_version: str, kind: str, owners: ReplicaSetOwners = DEPLOYMENTS) -> str:
    """Why no policy can apply to a kind; empty where one can."""
    if kind in UNSUPPORTED_KINDS:
        return f"{kind} is not supported: {UNSUPPORTED_KINDS[kind]}"
    targets = owners.added_to(TARGETS)
    if kind not in targets.get(api_version, ()):
        reason = "it is not known to choose its victims by cost"
        return f"{kind} of {api_version} is not supported: {reason}{advice(api_version, targets)}"
    return ""


class PolicyTable:
    """Policies in the order of their precedence, without those that are being deleted, to look up many workloads."""

    def __init__(self, policies: Iterable[ScaleDownPolicy]) -> None:
        self._naming: dict[tuple[str, tuple[str, str, str]], list[ScaleDownPolicy]] = {}
        """By namespace, and by the workload that they name."""
        self._selecting: dict[str, list[tuple[Selector, ScaleDownPolicy]]] = {}
        """By namespace."""
        for policy in sorted((each for each in policies if each.metadata.deletion_timestamp is None), key=_precedence):
            self._add(policy)

    def _add(self, policy: ScaleDownPolicy) -> None:
        namespace, target = policy.metadata.namespace, policy.spec.target_ref
        if target is None:
            selecting = (compile_selector(policy.spec.selector), policy)
            self._selecting.setdefault(namespace, []).append(selecting)
        else:
            named = (namespace, (target.api_version, target.kind, target.name))
            self._naming.setdefault(named, []).append(policy)

    def matching(self, workload: WorkloadRef) -> list[tuple[Specificity, ScaleDownPolicy]]:
        """The policies that refer to a workload, the most specific first."""
        namespace, labels = workload.namespace, workload.pod_labels
        found = [(Specificity.TARGET, each) for each in self._naming.get((namespace, workload.identity), ())]
        if workload.owner is not None and workload.owner != workload.identity:
            found += ((Specificity.OWNER, each) for each in self._naming.get((namespace, workload.owner), ()))
        selecting = self._selecting.get(namespace, ())
        found += ((Specificity.SELECTOR, each) for selector, each in selecting if selector.matches(labels))
        return found

    def policy_for(self, workload: WorkloadRef) -> EffectivePolicy | None:
        """The policy that applies to a workload that is not exempt, if one refers to it."""
        matching = self.matching(workload)
        if not matching:
            return None
        specificity, first = matching[0]
        metadata = first.metadata
        others = tuple(key_of(policy) for _, policy in matching[1:])
        return EffectivePolicy(first.spec, key_of(first), metadata.name, metadata.uid, specificity, others)


def _precedence(policy: ScaleDownPolicy) -> tuple[int, int, str]:
    """Among equals: more requirements, then older, then by name."""
    requirements = 0 if policy.spec.selector is None else len(compile_selector(policy.spec.selector).requirements)
    created = policy.metadata.creation_timestamp
    return (-requirements, 0 if created is None else times.to_ns(created), policy.metadata.name)


def _default_policy(defaults: Defaults, namespace_labels: Mapping[str, str]) -> EffectivePolicy | None:
    for each in defaults.policies:
        if each.namespaces.matches(namespace_labels):
            mode = _MODES.get(namespace_labels.get(OPT_OUT, "").lower(), each.spec.mode)
            spec = each.spec if mode == each.spec.mode else msgspec.structs.replace(each.spec, mode=mode)
            return EffectivePolicy(spec, "", each.name)
    return None
