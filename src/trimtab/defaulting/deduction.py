"""Which pods get default constraints at admission, and with which selector. Pure.

1. Pods that state constraints keep them, and so do those with the label `trimtab.dev/default-constraints: disabled`.
2. Pods of DaemonSets and Jobs, and mirror pods, never get any: they are bound to their nodes, or end.
3. The selector is that of the pod's controller, if that is a ReplicaSet, a ReplicationController, a StatefulSet or a
   CloneSet, together with those of all services that select the pod. A pod with neither is not spread.
4. A ReplicaSet's selector holds `pod-template-hash`, so each revision of a Deployment (or of another workload that owns
   ReplicaSets) is spread by itself, and a rollout ends level.
5. A key of `matchLabelKeys` that the selector holds is left out: an API server refuses it.
6. A selector that does not match the pod itself would spread other pods: it is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from trimtab.api import codec, selectors
from trimtab.api.annotations import DEFAULT_CONSTRAINTS, NOT_DEFAULTED
from trimtab.api.core import Service
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, ObjectMeta
from trimtab.api.model import Model
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.defaulting.rules import Rule

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of mirror pods, which kubelets create for static pods."""
NEVER = frozenset({("apps", "DaemonSet"), ("batch", "Job")})
"""The controllers whose pods never get default constraints: API group and kind."""


class Result(StrEnum):
    """What was done with a pod; also a label of metrics."""

    ADDED = "added"
    STATED = "stated"
    """It states constraints of its own."""
    EXEMPT = "exempt"
    """Its label, or the rule of its namespace, exempts it."""
    EXCLUDED = "excluded"
    """It is a pod of a DaemonSet or a Job, or a mirror pod."""
    UNGROUPED = "ungrouped"
    """It has neither a controller nor a service whose selector matches it."""
    FAILED = "failed"
    """An error; the log has it."""


class PodSpec(Model):
    """The part of a new pod's spec that decides."""

    topology_spread_constraints: tuple[Any, ...] = ()


class NewPod(Model):
    """The part of a new pod that decides."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


def is_left_alone(pod: NewPod) -> Result | None:
    """Why a pod gets no default constraints, whatever its namespace and its groups; None if it may."""
    if pod.spec.topology_spread_constraints:
        return Result.STATED
    if pod.metadata.labels.get(DEFAULT_CONSTRAINTS) == NOT_DEFAULTED:
        return Result.EXEMPT
    owner = pod.metadata.controller
    group = "" if owner is None else owner.api_version.rpartition("/")[0]
    if MIRROR in pod.metadata.annotations or (owner is not None and (group, owner.kind) in NEVER):
        return Result.EXCLUDED
    return None


def deduced_selector(
    labels: Mapping[str, str], controller: LabelSelector | None, services: Iterable[Service]
) -> LabelSelector | None:
    """The selector of a pod with these labels; None if there is none that matches it."""
    found = controller or LabelSelector()
    match_labels = dict(found.match_labels)
    for service in services:
        wanted = service.spec.selector
        if len(wanted) <= selectors.MAX_ENTRIES and all(labels.get(key) == value for key, value in wanted.items()):
            match_labels = {**wanted, **match_labels}
    selector = LabelSelector(match_labels=match_labels, match_expressions=found.match_expressions)
    try:
        compiled = selectors.compile(selector)
    except InvalidError:
        return None
    return None if compiled.empty or not compiled.matches(labels) else selector


def patch(pod: NewPod, rule: Rule, selector: LabelSelector) -> list[JSON]:
    """The JSON patch that adds a rule's constraints, and the annotation that says so."""
    held = {*selector.match_labels, *(each.key for each in selector.match_expressions)}
    constraints = [codec.to_tree(_with_selector(each, selector, held)) for each in rule.constraints]
    annotations = {**pod.metadata.annotations, DEFAULT_CONSTRAINTS: rule.name}
    return [
        {"op": "add", "path": "/spec/topologySpreadConstraints", "value": constraints},
        {"op": "add", "path": "/metadata/annotations", "value": annotations},
    ]


def _with_selector(
    constraint: TopologySpreadConstraint, selector: LabelSelector, held: Iterable[str]
) -> TopologySpreadConstraint:
    keys = tuple(key for key in constraint.match_label_keys if key not in held)
    return msgspec.structs.replace(constraint, label_selector=selector, match_label_keys=keys)
