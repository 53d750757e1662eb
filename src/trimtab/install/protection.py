"""Protection of costs: ValidatingAdmissionPolicies for the namespaces that an administrator labels.

A cost decides which pod is deleted first, and everyone who may update a pod may write one. In a namespace with the
label `trimtab.dev/protect-costs: "true"` only Trimtab may change costs: the annotations of existing pods, and all
PodGroupCosts. Pods may be *created* with any cost: that is up to the author of the template. Both ways of changing a
pod's metadata are covered, the pod itself and its status. Users named in `scaleDown.costWriters` of the configuration
are exempt, and so are the garbage collector and the namespace controller, which delete PodGroupCosts with their owners.

By default a change is admitted with a warning and an entry in the audit log; `deny` refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from trimtab.api.annotations import PROTECT_COSTS, PROTECTED
from trimtab.api.documents import JSON
from trimtab.install.options import NAME, Options, account

POLICY = f"{NAME}-costs"
GROUP_POLICY = f"{NAME}-group-costs"

_WRITERS = ("webhooks", "controllers")
_DELETERS = (
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
)
_WITHDRAWAL = f"leave it, or remove the label {PROTECT_COSTS}"


def manifests(options: Options) -> Iterator[JSON]:
    """The policies, and their bindings to the labelled namespaces."""
    for each in (policy(options), group_policy(options)):
        yield each
        yield _binding(each["metadata"]["name"], options)


def policy(options: Options) -> JSON:
    """The policy for the annotations of pods: what it compares, and the exempt users."""
    rule = _rule("", "v1", ("UPDATE",), ("pods", "pods/status"))
    return _policy(POLICY, options, rule, _writers(options), [_unchanged(key) for key in PROTECTED])


def group_policy(options: Options) -> JSON:
    """The policy for PodGroupCosts: nobody but Trimtab and the exempt users writes them."""
    rule = _rule("trimtab.dev", "*", ("CREATE", "UPDATE", "DELETE"), ("podgroupcosts",))
    exempt = [*_writers(options), *_DELETERS]
    message = f"PodGroupCosts are written by Trimtab in this namespace: {_WITHDRAWAL}"
    return _policy(
        GROUP_POLICY, options, rule, exempt, [{"expression": "false", "message": message, "reason": "Forbidden"}]
    )


def _policy(name: str, options: Options, rule: JSON, exempt: Sequence[str], validations: Sequence[JSON]) -> JSON:
    is_other_user = f"!(request.userInfo.username in {json.dumps(list(exempt))})"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": options.scoped(name), "labels": options.labels()},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "not-trimtab", "expression": is_other_user}],
            "validations": list(validations),
        },
    }


def _binding(name: str, options: Options) -> JSON:
    """The binding of a policy to labelled namespaces; if the configuration names namespaces, to those of them."""
    selector: JSON = {"matchLabels": {PROTECT_COSTS: "true"}}
    managed = options.read().namespaces
    if managed:
        by_name = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(managed)}
        selector |= {"matchExpressions": [by_name]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": options.labels()},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny", "Audit"] if options.deny_cost_changes else ["Warn", "Audit"],
            "matchResources": {"namespaceSelector": selector},
        },
    }


def _rule(group: str, version: str, operations: Sequence[str], resources: Sequence[str]) -> JSON:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
    }


def _writers(options: Options) -> list[str]:
    own = [f"system:serviceaccount:{options.namespace}:{account(component)}" for component in _WRITERS]
    return [*own, *options.read().scale_down.cost_writers]


def _unchanged(key: str) -> JSON:
    value = "{0}.metadata.?annotations[?{1}].orValue('')"
    new, old = value.format("object", f"'{key}'"), value.format("oldObject", f"'{key}'")
    return {
        "expression": f"{new} == {old}",
        "message": f"{key} is written by Trimtab in this namespace: {_WITHDRAWAL}",
        "reason": "Forbidden",
    }
