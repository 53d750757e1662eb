"""Which policy speaks for a workload, who else would have, and who speaks for nobody. Pure.

Of several policies that could speak for a workload, the more specific one does:

1. one whose `targetRef` names the workload itself;
2. one whose `targetRef` names the workload's owner (the Deployment of a ReplicaSet);
3. one whose `selector` matches the labels of the workload's pods as its template states them; the one with more
   requirements before the one with fewer;
4. a default from the configuration: the first in its list whose namespaces these are.

Among equals the older policy wins, then the one whose name comes first: an order that does not change when either is
edited. Policies of 1 to 3 that both could speak for one workload *overlap*, and both say so in a condition. A default
is made to be overridden, so giving way to a policy is no overlap. A policy that is more specific but cannot work still
wins: a mistake in it must not bring another policy's strategies upon the workload.

Nobody speaks for a workload where the switch is off, in an exempt namespace, where the workload or its namespace opts
out, for a kind that does not choose its victims by cost, or for pods that two workloads claim at once. Two owners of
one group make and delete each other's pods without end; ranking those pods would be taking sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from trimtab.api import codec, configuration, selectors, times
from trimtab.api.annotations import OPT_OUT, OPTED_OUT
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.configuration import ScaleDown
from trimtab.api.core import ReplicationController
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, ObjectMeta
from trimtab.api.model import Model
from trimtab.api.scaledown import TARGETS, UNSUPPORTED_KINDS, ScaleDownPolicy, ScaleDownPolicySpec
from trimtab.api.selectors import EVERYTHING, NOTHING, Operator, Selector
from trimtab.ranking.faults import strategy_faults
from trimtab.ranking.strategies import STRATEGIES, Factory

Workload = Deployment | ReplicaSet | ReplicationController | CloneSet | StatefulSet


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """A workload, and what of it decides which policy is its own."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The labels that its template gives to pods."""
    selector: Selector = NOTHING
    """Which pods it claims."""
    opted_out: bool = False
    owner: tuple[str, str, str] | None = None
    """API version, kind and name of what manages the workload itself."""
    owner_uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def identity(self) -> tuple[str, str, str]:
        """As a `targetRef` names it."""
        return (self.api_version, self.kind, self.name)

    @property
    def is_part(self) -> bool:
        """Whether it is a Deployment's ReplicaSet, and not what people call a workload."""
        return self.owner is not None and self.owner[1] == "Deployment"


_KINDS: Mapping[type[Any], tuple[str, str]] = {
    Deployment: ("apps/v1", "Deployment"),
    ReplicaSet: ("apps/v1", "ReplicaSet"),
    StatefulSet: ("apps/v1", "StatefulSet"),
    ReplicationController: ("v1", "ReplicationController"),
    CloneSet: ("apps.kruise.io/v1alpha1", "CloneSet"),
}


class _Template(Model):
    metadata: ObjectMeta = ObjectMeta()


def workload_ref(workload: Workload) -> WorkloadRef:
    """A workload as policies see it. A selector or template that cannot be read claims nothing."""
    api_version, kind = _KINDS[type(workload)]
    metadata = workload.metadata
    owner = metadata.controller
    return WorkloadRef(
        api_version=api_version,
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        pod_labels=_template_labels(workload.spec.template),
        selector=_selector(workload.spec.selector),
        opted_out=opts_out(metadata.annotations) or opts_out(metadata.labels),
        owner=None if owner is None else (owner.api_version, owner.kind, owner.name),
        owner_uid="" if owner is None else owner.uid,
    )


def is_part(workload: Workload) -> bool:
    """Whether a workload is a Deployment's ReplicaSet. Whoever else owns one, as operators do, is nobody to us."""
    owner = workload.metadata.controller
    return owner is not None and owner.kind == "Deployment"


def is_held(spec: ScaleDownPolicySpec) -> bool:
    """Whether costs are written while a request to shrink is held, and at no other time."""
    return spec.delivery == "OnScaleIntent" and spec.carrier == "Annotation"


def opts_out(marks: Mapping[str, str]) -> bool:
    """Whether these labels or annotations ask to be left alone."""
    return marks.get(OPT_OUT, "").lower() == OPTED_OUT


def _template_labels(template: Document | None) -> Mapping[str, str]:
    try:
        return {} if template is None else codec.view(template, _Template).metadata.labels
    except InvalidError:
        return {}


def _selector(written: LabelSelector | Mapping[str, str] | None) -> Selector:
    try:
        if isinstance(written, Mapping):
            return selectors.from_labels(written) if written else NOTHING
        return selectors.compile(written)
    except InvalidError:
        return NOTHING


# The configuration.


@dataclass(frozen=True, slots=True)
class DefaultPolicy:
    """A policy for workloads that have none of their own."""

    name: str
    spec: ScaleDownPolicySpec = field(default_factory=ScaleDownPolicySpec)
    namespaces: Selector = EVERYTHING
    """Labels of the namespaces that it is for."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the configuration says of scale-downs."""

    enabled: bool = True
    """The switch: where it is off nobody is ranked, and what was written is taken back."""
    policies: tuple[DefaultPolicy, ...] = ()
    exempt: frozenset[str] = frozenset({"kube-system"})
    """Namespaces that are never touched: the cluster's own, and Trimtab's."""
    only: frozenset[str] = frozenset()
    """The namespaces that are looked after; all of them, where none are named."""

    def covers(self, namespace: str) -> bool:
        """Whether a namespace is ours to write to: what another Trimtab looks after is its own."""
        return not self.only or namespace in self.only

    def looks_after(self, namespace: str) -> bool:
        """Whether anything may be written for a scale-down in a namespace."""
        return self.enabled and self.covers(namespace) and namespace not in self.exempt


NO_DEFAULTS = Defaults()
LEVEL_EVERYONE = Defaults(policies=(DefaultPolicy("everyone"),))
"""One default policy: all workloads are kept level."""


def read_defaults(
    written: ScaleDown,
    *,
    exempt: Iterable[str] = ("kube-system",),
    only: Iterable[str] = (),
    registry: Mapping[str, Factory] = STRATEGIES,
) -> Defaults:
    """What a configuration says. Raises InvalidError with a path such as `defaultPolicies[0].strategies[1].name`."""
    read = []
    for at, form in enumerate(written.default_policies):
        for error in strategy_faults(form.strategies, registry):
            raise InvalidError(error.path.replace("spec", f"defaultPolicies[{at}]", 1), error.reason)
        read.append(_default(form))
    return Defaults(written.enabled, tuple(read), frozenset(exempt), frozenset(only))


def _default(form: configuration.DefaultPolicy) -> DefaultPolicy:
    spec = ScaleDownPolicySpec(
        strategies=form.strategies, delivery=form.delivery, carrier=form.carrier, when_unranked=form.when_unranked
    )
    everywhere = form.namespace_selector is None
    return DefaultPolicy(form.name, spec, EVERYTHING if everywhere else _selector(form.namespace_selector))


# Who speaks for whom.


class Specificity(IntEnum):
    """How closely a policy means a workload; the lower comes first."""

    TARGET = 1
    OWNER = 2
    SELECTOR = 3
    DEFAULT = 4


@dataclass(frozen=True, slots=True)
class Governing:
    """The policy that speaks for a workload."""

    spec: ScaleDownPolicySpec
    key: str
    """`namespace/name` of the policy; empty for a default from the configuration."""
    name: str
    """The policy's name, or the default's."""
    uid: str = ""
    specificity: Specificity = Specificity.DEFAULT
    yielding: tuple[str, ...] = ()
    """The policies (`namespace/name`) that would speak for it if this one did not, the next one first."""

    def __str__(self) -> str:
        return f"ScaleDownPolicy {self.key}" if self.key else f'the default policy "{self.name}"'


def governing(
    workload: WorkloadRef,
    policies: Iterable[ScaleDownPolicy],
    defaults: Defaults = NO_DEFAULTS,
    namespace_labels: Mapping[str, str] | None = None,
) -> Governing | None:
    """The policy that speaks for a workload, if one does. `policies` may be those of all namespaces."""
    labels = namespace_labels or {}
    if silence(workload, defaults, labels):
        return None
    claims = claimants(workload, policies)
    if claims:
        specificity, first = claims[0]
        metadata = first.metadata
        others = tuple(key_of(policy) for _, policy in claims[1:])
        return Governing(first.spec, key_of(first), metadata.name, metadata.uid, specificity, others)
    return _defaulted(defaults, labels)


def silence(workload: WorkloadRef, defaults: Defaults, namespace_labels: Mapping[str, str]) -> str:
    """Why nobody speaks for a workload, whatever policies there are; empty where somebody may."""
    if not defaults.enabled:
        return "Trimtab's scale-downs are switched off in its configuration"
    if defaults.only and workload.namespace not in defaults.only:
        return f"namespace {workload.namespace} is not one that Trimtab was told to look after"
    if workload.namespace in defaults.exempt:
        return f"namespace {workload.namespace} is exempt by the configuration"
    if opts_out(namespace_labels):
        return f"namespace {workload.namespace} opts out with {OPT_OUT}: {OPTED_OUT}"
    if workload.opted_out:
        return f"{workload} opts out with {OPT_OUT}: {OPTED_OUT}"
    return refusal(workload.api_version, workload.kind)


def refusal(api_version: str, kind: str) -> str:
    """Why no policy can speak for a kind; empty where one can."""
    if kind in UNSUPPORTED_KINDS:
        return f"{kind} is not supported: {UNSUPPORTED_KINDS[kind]}"
    if kind not in TARGETS.get(api_version, ()):
        return f"{kind} of {api_version} is not supported: it is not known to choose its victims by cost"
    return ""


def claimants(
    workload: WorkloadRef, policies: Iterable[ScaleDownPolicy]
) -> Sequence[tuple[Specificity, ScaleDownPolicy]]:
    """The policies that mean a workload, the most specific first. Those on their way out mean nobody."""
    found = []
    for policy in policies:
        specificity = _meant(workload, policy)
        if specificity is not None:
            found.append((specificity, policy))
    return sorted(found, key=lambda claim: (claim[0], *_precedence(claim[1])))


def _meant(workload: WorkloadRef, policy: ScaleDownPolicy) -> Specificity | None:
    metadata, spec = policy.metadata, policy.spec
    if metadata.namespace != workload.namespace or metadata.deletion_timestamp is not None:
        return None
    if spec.target_ref is not None:
        target = (spec.target_ref.api_version, spec.target_ref.kind, spec.target_ref.name)
        if target == workload.identity:
            return Specificity.TARGET
        return Specificity.OWNER if target == workload.owner else None
    return Specificity.SELECTOR if _selector(spec.selector).matches(workload.pod_labels) else None


def _precedence(policy: ScaleDownPolicy) -> tuple[int, int, str]:
    """Among equals: more requirements, then older, then by name."""
    requirements = 0 if policy.spec.selector is None else len(_selector(policy.spec.selector).requirements)
    created = policy.metadata.creation_timestamp
    return (-requirements, 0 if created is None else times.to_ns(created), policy.metadata.name)


def _defaulted(defaults: Defaults, namespace_labels: Mapping[str, str]) -> Governing | None:
    for each in defaults.policies:
        if each.namespaces.matches(namespace_labels):
            return Governing(each.spec, "", each.name)
    return None


def key_of(policy: ScaleDownPolicy) -> str:
    """`namespace/name` of a policy."""
    return f"{policy.metadata.namespace}/{policy.metadata.name}"


# Two owners.


def rivals(workload: WorkloadRef, others: Iterable[WorkloadRef]) -> tuple[WorkloadRef, ...]:
    """The workloads that claim the same pods by their selectors: theirs match its pods, or its own matches theirs.

    A Deployment and its ReplicaSets, and the ReplicaSets of one Deployment, are one owner.
    """
    return tuple(sorted((other for other in others if _contends(workload, other)), key=str))


def _contends(workload: WorkloadRef, other: WorkloadRef) -> bool:
    if other.namespace != workload.namespace or other.uid == workload.uid:
        return False
    family = {workload.uid, workload.owner_uid} - {""}
    if family & {other.uid, other.owner_uid}:
        return False
    return _claims(other, workload) or _claims(workload, other)


def _claims(claimant: WorkloadRef, workload: WorkloadRef) -> bool:
    return bool(workload.pod_labels) and claimant.selector.matches(workload.pod_labels)


def contests(workloads: Iterable[WorkloadRef]) -> dict[str, tuple[WorkloadRef, ...]]:
    """The rivals of each workload of a namespace that has some, by UID: as `rivals`, for all of them at once.

    Whoever selects by a label is looked for among those whose pods have that label, and not among all.
    """
    refs = list(workloads)
    by_pair: dict[tuple[str, str] | None, list[WorkloadRef]] = {}
    for ref in refs:
        by_pair.setdefault(_pair(ref.selector), []).append(ref)
    found: dict[str, dict[str, WorkloadRef]] = {}
    for ref in refs:
        for pair in (None, *ref.pod_labels.items()):
            for other in by_pair.get(pair, ()):
                if _contends(ref, other):
                    found.setdefault(ref.uid, {})[other.uid] = other
                    found.setdefault(other.uid, {})[ref.uid] = ref
    return {uid: tuple(sorted(others.values(), key=str)) for uid, others in found.items()}


def _pair(selector: Selector) -> tuple[str, str] | None:
    """A label that everybody has whom the selector matches, if there is one that can be told."""
    for each in selector.requirements:
        if each.operator is Operator.EQUALS:
            return each.key, each.values[0]
    return None
