"""Features of pods that Trimtab does not support: such a pod is left to kube-scheduler and never placed wrongly.

Storage restricts nodes by classes, claims, volumes and drivers; dynamic resources by devices; some features by what
nodes declare. Trimtab reads none of these. And pods of a scheduling group are placed together or not at all, while
Trimtab places one at a time.

A pod with thousands of rules is not supported either: an API server stores it, and each rule is evaluated for each
node, so that whoever may create pods could keep the scheduler busy for minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trimtab.api.meta import LabelSelector
from trimtab.api.pods import NodeAffinity, NodeSelectorTerm, Pod, PodSpec, Volume
from trimtab.api.selectors import entries
from trimtab.placement.changes import Subject
from trimtab.placement.hints import Hints, hint
from trimtab.snapshot.shapes import pod_terms, term_entries

_MOUNTED_ANYWHERE = ("image",)
STORAGE = {f.name: f.encode_name for f in msgspec.structs.fields(Volume) if f.name not in _MOUNTED_ANYWHERE}
"""The sources of volumes that not every node can mount: field names in JSON, by attribute."""

_MAX_RULES = 100
"""Terms and expressions of an affinity, or of all spread constraints. Large ones have about ten."""
_MAX_TERMS = 32
"""Terms between pods: for each, the pods of the cluster are counted."""
_MAX_CONSTRAINTS = 16
_MAX_CONTAINERS = 500
_MAX_ENTRIES = 1000
"""Tolerations, ports, and labels of the node selector."""
_MAX_VALUES = 2000
"""Values of all expressions of an affinity, or of all spread constraints."""


HINTS: Hints = (hint(Subject.WAITING_POD),)
"""Only a change of the pod itself can make it supported."""


def unsupported(pod: Pod) -> str | None:
    """The first field of a pod that Trimtab does not support, with the reason; None if it supports all."""
    for field, size, most in _sizes(pod.spec):
        if size > most:
            return f"{field} has {size:,} entries, and {most:,} is the most"
    return next(_needs(pod.spec), None)


def _sizes(spec: PodSpec) -> Iterator[tuple[str, int, int]]:
    """How many rules a pod has, by field, and how many it may have."""
    containers = (*spec.containers, *spec.init_containers)
    yield "spec.containers, together with initContainers,", len(containers), _MAX_CONTAINERS
    yield "spec.containers[*].ports", sum(len(each.ports) for each in containers), _MAX_ENTRIES
    yield "spec.tolerations", len(spec.tolerations), _MAX_ENTRIES
    yield "spec.nodeSelector", len(spec.node_selector), _MAX_ENTRIES
    if constraints := spec.topology_spread_constraints:
        yield "spec.topologySpreadConstraints", len(constraints), _MAX_CONSTRAINTS
        rules = sum(_rules(each.label_selector) for each in constraints)
        yield "spec.topologySpreadConstraints[*].labelSelector", rules, _MAX_RULES
        values = sum(entries(each.label_selector) for each in constraints)
        yield "spec.topologySpreadConstraints[*].labelSelector", values, _MAX_VALUES
    if affinity := spec.affinity:
        yield "spec.affinity.nodeAffinity", _node_rules(affinity.node_affinity), _MAX_RULES
        terms = pod_terms(affinity)
        yield "spec.affinity.podAffinity, together with podAntiAffinity,", len(terms), _MAX_TERMS
        rules = sum(_rules(each.label_selector) + _rules(each.namespace_selector) for each in terms)
        yield "spec.affinity.podAffinity, together with podAntiAffinity,", rules, _MAX_RULES
        yield "spec.affinity", term_entries(terms) + _node_values(affinity.node_affinity), _MAX_VALUES


def _node_terms(affinity: NodeAffinity | None) -> list[NodeSelectorTerm]:
    if affinity is None:
        return []
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = [each.preference for each in affinity.preferred_during_scheduling_ignored_during_execution]
    return [*terms, *(required.node_selector_terms if required is not None else ())]


def _node_rules(affinity: NodeAffinity | None) -> int:
    terms = _node_terms(affinity)
    return len(terms) + sum(len(each.match_expressions) + len(each.match_fields) for each in terms)


def _node_values(affinity: NodeAffinity | None) -> int:
    terms = _node_terms(affinity)
    return sum(len(rule.values) for each in terms for rule in (*each.match_expressions, *each.match_fields))


def _rules(selector: LabelSelector | None) -> int:
    return 0 if selector is None else len(selector.match_labels) + len(selector.match_expressions)


def _needs(spec: PodSpec) -> Iterator[str]:
    for index, volume in enumerate(spec.volumes):
        for attribute, field_name in STORAGE.items():
            if getattr(volume, attribute) is not None:
                yield f"spec.volumes[{index}].{field_name} takes knowledge of storage"
    if spec.resource_claims:
        yield "spec.resourceClaims takes knowledge of devices"
    if spec.scheduling_group is not None:
        yield "spec.schedulingGroup takes placing several pods at once"
    if spec.host_network and spec.host_users is False:
        yield "spec.hostUsers, with spec.hostNetwork, takes knowledge of which nodes support it"
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
                yield f"spec.{field}[{index}].restartPolicyRules takes knowledge of which nodes support it"
