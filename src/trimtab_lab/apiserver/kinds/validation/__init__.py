"""Validation of built-in kinds, with Kubernetes' messages.

`validate` takes a tree that `wiretypes.read` and `defaults.apply_defaults` have processed, and returns the causes of a
422 in Kubernetes' order; `invalid` builds the Status. The checks follow Kubernetes 1.36 with its default feature gates.
They cover what people and controllers write; deliberate omissions are stated where they are (volumes of storage
systems, Windows, CEL).

Belongs here: one module for each family of kinds, which checks values and reads no storage. Does not belong here: rules
that depend on other objects (`admission.builtin_plugins`), custom kinds (`schemas`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trimtab_lab.apiserver.kinds.validation import (
    cluster,
    configuration,
    definitions,
    events,
    metadata,
    names,
    pod_updates,
    pods,
    policies,
    rbac,
    services,
    webhooks,
    workload_status,
    workloads,
)
from trimtab_lab.apiserver.kinds.validation.causes import Cause, Causes
from trimtab_lab.apiserver.kinds.validation.warnings import warnings
from trimtab_lab.apiserver.storage.store import Tree

__all__ = ["Cause", "Causes", "invalid", "validate", "warnings"]

Check = Callable[[Tree, Causes, Tree | None], None]
"""Appends the causes for which an object is invalid; the last argument is the object before an update."""
UpdateCheck = Callable[[Tree, Tree, Causes], None]
"""Appends the causes for which an update of a subresource is invalid: the new object, the old one."""


def validate(kind: str, tree: Tree, old: Tree | None = None, subresource: str = "") -> list[Cause]:
    """The causes for which an object of this kind (`apps/v1 Deployment`) is invalid.

    With `old`, the update from it is checked as well; `subresource` names the updated part (`status`).
    """
    if old is None:
        return _created(kind, tree)
    causes: list[Cause] = []
    namespaced = kind not in CLUSTER_KINDS
    metadata.validate_create(tree["metadata"], causes, namespaced=namespaced, name=names.path_segment, finalizers=False)
    metadata.validate_update(tree["metadata"], old["metadata"], causes, finalizers=False)
    if subresource:
        _SUBRESOURCES.get((kind, subresource), _unchecked)(tree, old, causes)
    else:
        _CHECKS.get(kind, _unchecked_object)(tree, causes, old)
    return causes


def invalid(group: str, kind: str, name: str, causes: list[Cause]) -> Tree:
    """The Status of a 422: all causes in one message, and as a list."""
    texts = list(dict.fromkeys(map(str, causes)))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: Tree = {"name": name, "group": group, "kind": kind, "causes": [cause.tree() for cause in causes]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'{qualified} "{name}" is invalid: {listed}' if causes else f'{qualified} "{name}" is invalid',
        "reason": "Invalid",
        "details": {key: value for key, value in details.items() if value},
        "code": 422,
    }


def _created(kind: str, tree: Tree) -> list[Cause]:
    causes: list[Cause] = []
    _CHECKS.get(kind, _unchecked_object)(tree, causes, None)
    if not causes and kind not in _NAMED_BY_DNS:
        namespaced = kind not in CLUSTER_KINDS
        metadata.validate_create(
            tree["metadata"], causes, namespaced=namespaced, name=names.path_segment, finalizers=False
        )
    return causes


def _unchecked(tree: Tree, old: Tree, causes: Causes) -> None:
    """A subresource without rules of its own."""


def _unchecked_object(tree: Tree, causes: Causes, old: Tree | None) -> None:
    """A kind without rules of its own."""


def _pod(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    if old is None:
        pods.validate_create(tree, causes)
    else:
        pod_updates.validate_update(tree, old, causes)


def _binding(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    del old
    pods.binding(tree, causes)


CLUSTER_KINDS = frozenset(
    [
        "v1 Namespace",
        "v1 Node",
        "v1 PersistentVolume",
        "scheduling.k8s.io/v1 PriorityClass",
        "rbac.authorization.k8s.io/v1 ClusterRole",
        "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
        "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
        "apiextensions.k8s.io/v1 CustomResourceDefinition",
    ]
)
"""The cluster-scoped built-in kinds."""

_CHECKS: Mapping[str, Check] = {
    "v1 Pod": _pod,
    "v1 Binding": _binding,
    "v1 PodTemplate": workloads.pod_template,
    "v1 ReplicationController": workloads.replication_controller,
    "v1 Service": services.service,
    "v1 ConfigMap": configuration.config_map,
    "v1 Secret": configuration.secret,
    "v1 ServiceAccount": configuration.service_account,
    "v1 Namespace": cluster.namespace,
    "v1 Node": cluster.node,
    "v1 Event": events.event,
    "v1 Endpoints": cluster.only_metadata,
    "v1 LimitRange": cluster.only_metadata,
    "v1 ResourceQuota": cluster.only_metadata,
    "v1 PersistentVolumeClaim": cluster.only_metadata,
    "v1 PersistentVolume": cluster.only_cluster_metadata,
    "apps/v1 Deployment": workloads.deployment,
    "apps/v1 ReplicaSet": workloads.replica_set,
    "apps/v1 StatefulSet": workloads.stateful_set,
    "apps/v1 DaemonSet": workloads.daemon_set,
    "apps/v1 ControllerRevision": workloads.controller_revision,
    "policy/v1 PodDisruptionBudget": policies.disruption_budget,
    "coordination.k8s.io/v1 Lease": policies.lease,
    "scheduling.k8s.io/v1 PriorityClass": policies.priority_class,
    "events.k8s.io/v1 Event": events.new_event,
    "rbac.authorization.k8s.io/v1 Role": rbac.role,
    "rbac.authorization.k8s.io/v1 ClusterRole": rbac.cluster_role,
    "rbac.authorization.k8s.io/v1 RoleBinding": rbac.role_binding,
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": rbac.cluster_role_binding,
    "autoscaling/v1 HorizontalPodAutoscaler": cluster.only_metadata,
    "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": webhooks.validating,
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": webhooks.mutating,
    "apiextensions.k8s.io/v1 CustomResourceDefinition": definitions.definition,
}

# Kinds that check names more strictly than the common rule, which is then skipped.
_NAMED_BY_DNS = frozenset(_CHECKS) - {"v1 Event", "v1 Binding", "policy/v1 PodDisruptionBudget"}

_SUBRESOURCES: Mapping[tuple[str, str], UpdateCheck] = {
    ("v1 Pod", "status"): pod_updates.validate_status_update,
    ("v1 Namespace", "status"): cluster.namespace_status,
    ("v1 Namespace", "finalize"): cluster.namespace_finalize,
    ("v1 Node", "status"): cluster.node_update,
    ("v1 ReplicationController", "status"): workload_status.replica_set_status,
    ("apps/v1 Deployment", "status"): workload_status.deployment_status,
    ("apps/v1 ReplicaSet", "status"): workload_status.replica_set_status,
    ("apps/v1 StatefulSet", "status"): workload_status.stateful_set_status,
    ("apps/v1 DaemonSet", "status"): workload_status.daemon_set_status,
    ("policy/v1 PodDisruptionBudget", "status"): policies.disruption_budget_status,
    ("apiextensions.k8s.io/v1 CustomResourceDefinition", "status"): definitions.definition_status,
}
