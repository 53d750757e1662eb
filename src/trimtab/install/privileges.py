"""Policies about privileges: who may write patches of subsets, and what Trimtab's controllers may not do.

Both are ValidatingAdmissionPolicies, which the API server evaluates itself: they hold while Trimtab is down, and a
process of Trimtab that was taken over cannot change them.

**Patches.** A subset's patch changes pods that the workload's controller creates. So whoever writes a UnitedTopology
with a patch must be allowed to create pods in its namespace; `authorizer` asks what RBAC grants the user. An update
that leaves the spec as it is needs nothing: labels and finalizers can always be changed.

**Webhooks.** The patches of a UnitedTopology are tried by dry runs. RBAC cannot limit the permission to create pods to
these: every other creation by the webhooks is refused here.

**Controllers.** RBAC grants verbs in all namespaces or by name, and can neither exclude a namespace nor limit a patch
to one label. So what no code of the controllers does is refused here: creating, deleting and evicting pods in the
exempt namespaces, and every change of a namespace but that of the label for UnitedTopologies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from trimtab.api.annotations import NAMESPACE_LABEL
from trimtab.api.documents import JSON
from trimtab.install.options import NAME, Options, account

PATCHES = f"{NAME}-patches"
DRY_RUNS = f"{NAME}-webhooks-pods"
PODS = f"{NAME}-controllers-pods"
NAMESPACES = f"{NAME}-controllers-namespaces"

_API = "admissionregistration.k8s.io/v1"
_HAS_PATCH = "object.spec.?subsets.orValue([]).exists(s, has(s.patch))"
_SAME_SPEC = "request.operation == 'UPDATE' && object.spec == oldObject.spec"
_MAY_CREATE_PODS = "authorizer.group('').resource('pods').namespace(request.namespace).check('create').allowed()"


def manifests(options: Options) -> Iterator[JSON]:
    """The policies with their bindings, as far as the components that they are about are installed."""
    if "webhooks" in options.components:
        yield from _policy(
            PATCHES,
            options,
            rule=_rule("apps.kruise.io", ("unitedtopologies",), ("CREATE", "UPDATE"), version="*"),
            conditions={"has-patch": _HAS_PATCH, "spec-changed": f"!({_SAME_SPEC})"},
            expression=_MAY_CREATE_PODS,
            message="a subset has a patch, which changes pods: whoever writes it must be allowed to create pods here",
        )
        yield from _policy(
            DRY_RUNS,
            options,
            rule=_rule("", ("pods",), ("CREATE",)),
            conditions={"by-the-webhooks": f"request.userInfo.username == {json.dumps(_user(options, 'webhooks'))}"},
            expression="has(request.dryRun) && request.dryRun",
            message="Trimtab's webhooks create pods as dry runs only",
        )
    if "controllers" in options.components:
        yield from _controllers(options)


def _controllers(options: Options) -> Iterator[JSON]:
    names = exempt(options)
    own = {"by-the-controllers": f"request.userInfo.username == {json.dumps(_user(options, 'controllers'))}"}
    if names:
        yield from _policy(
            PODS,
            options,
            rule=_rule("", ("pods", "pods/eviction"), ("CREATE", "DELETE")),
            conditions=own,
            expression="false",
            message=f"Trimtab's controllers neither create, delete nor evict pods in {' and '.join(names)}",
            namespaces=names,
        )
    yield from _policy(
        NAMESPACES,
        options,
        rule=_rule("", ("namespaces", "namespaces/status", "namespaces/finalize"), ("UPDATE",)),
        conditions=own,
        expression=_ONLY_THE_LABEL,
        message=f"Trimtab's controllers change no more of a namespace than the label {NAMESPACE_LABEL}",
    )


def exempt(options: Options) -> tuple[str, ...]:
    """The namespaces in which the controllers create, delete and evict no pods, unless the configuration names them."""
    named = options.read().namespaces
    return tuple(each for each in dict.fromkeys(("kube-system", options.namespace)) if each not in named)


def _user(options: Options, component: str) -> str:
    return f"system:serviceaccount:{options.namespace}:{account(component)}"


def _unchanged(path: str, default: str) -> str:
    return f"object{path}.orValue({default}) == oldObject{path}.orValue({default})"


def _same_labels(one: str, other: str) -> str:
    """Whether all labels of one object but ours are labels of the other."""
    labels = "{0}.metadata.?labels.orValue({{}})"
    mine, theirs = labels.format(one), labels.format(other)
    return f"{mine}.all(k, k == '{NAMESPACE_LABEL}' || (k in {theirs} && {theirs}[k] == {mine}[k]))"


_ONLY_THE_LABEL = " && ".join(
    (
        "request.?subResource.orValue('') == ''",
        _same_labels("object", "oldObject"),
        _same_labels("oldObject", "object"),
        _unchanged(".metadata.?annotations", "{}"),
        _unchanged(".metadata.?finalizers", "[]"),
        _unchanged(".metadata.?ownerReferences", "[]"),
        _unchanged(".?spec.?finalizers", "[]"),
    )
)


def _rule(group: str, resources: Sequence[str], operations: Sequence[str], *, version: str = "v1") -> JSON:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": list(resources),
        "operations": list(operations),
    }


def _policy(
    name: str,
    options: Options,
    *,
    rule: JSON,
    conditions: dict[str, str],
    expression: str,
    message: str,
    namespaces: Sequence[str] = (),
) -> Iterator[JSON]:
    """A policy that refuses, and its binding to all namespaces or to some."""
    metadata: JSON = {"name": options.scoped(name), "labels": options.labels()}
    yield {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": key, "expression": text} for key, text in conditions.items()],
            "validations": [{"expression": expression, "message": message, "reason": "Forbidden"}],
        },
    }
    spec: JSON = {"policyName": metadata["name"], "validationActions": ["Deny"]}
    if namespaces:
        by_name = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
        spec |= {"matchResources": {"namespaceSelector": {"matchExpressions": [by_name]}}}
    yield {"apiVersion": _API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": spec}
