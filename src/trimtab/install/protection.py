"""Protection of costs: a ValidatingAdmissionPolicy for the namespaces that an administrator labels.

A cost decides which pod is deleted first, and everyone who may update a pod may write one. In a namespace with the
label `trimtab.dev/protect-costs: "true"` only Trimtab may change the costs of existing pods. Pods may be *created* with
any cost: that is up to the author of the template. Both ways of changing a pod's metadata are covered, the pod itself
and its status. Users named in `scaleDown.costWriters` of the configuration are exempt.

By default a change is admitted with a warning and an entry in the audit log; `deny` refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from trimtab.api.annotations import PROTECT_COSTS, PROTECTED
from trimtab.api.documents import JSON
from trimtab.install.options import NAME, Options, account

POLICY = f"{NAME}-costs"

_WRITERS = ("webhooks", "controllers")


def manifests(options: Options) -> Iterator[JSON]:
    """The policy, and its binding to the labelled namespaces."""
    yield policy(options)
    yield {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY, "labels": options.labels()},
        "spec": {
            "policyName": POLICY,
            "validationActions": ["Deny", "Audit"] if options.deny_cost_changes else ["Warn", "Audit"],
            "matchResources": {"namespaceSelector": {"matchLabels": {PROTECT_COSTS: "true"}}},
        },
    }


def policy(options: Options) -> JSON:
    """The policy: the annotations that it compares, and the exempt users."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY, "labels": options.labels()},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["UPDATE"],
                        "resources": ["pods", "pods/status"],
                    }
                ]
            },
            "matchConditions": [{"name": "not-trimtab", "expression": _is_other_user(options)}],
            "validations": [_unchanged(key) for key in PROTECTED],
        },
    }


def _is_other_user(options: Options) -> str:
    own = [f"system:serviceaccount:{options.namespace}:{account(component)}" for component in _WRITERS]
    names = [*own, *options.read().scale_down.cost_writers]
    return f"!(request.userInfo.username in {json.dumps(names)})"


def _unchanged(key: str) -> JSON:
    value = "{0}.metadata.?annotations[?{1}].orValue('')"
    new, old = value.format("object", f"'{key}'"), value.format("oldObject", f"'{key}'")
    return {
        "expression": f"{new} == {old}",
        "message": f"{key} is written by Trimtab in this namespace: leave it, or remove the label {PROTECT_COSTS}",
        "reason": "Forbidden",
    }
