"""Defaults of built-in kinds.

`apply_defaults` changes a tree in place. It expects the result of `wiretypes.read` (no nulls, no values of the wrong
type, no empty strings where Go would have none), and may be applied to its own result, which the API server does after
each webhook that patched the object. Nothing depends on other objects: what does (a service account, a priority class,
a cluster IP) is in `admission.builtin_plugins`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trimtab_lab.apiserver.kinds.defaults.core import (
    default_claim,
    default_endpoints,
    default_lease,
    default_limit_range,
    default_namespace,
    default_node,
    default_persistent_volume,
    default_secret,
    default_service,
)
from trimtab_lab.apiserver.kinds.defaults.groups import (
    default_autoscaler,
    default_custom_definition,
    default_mutating_webhooks,
    default_priority_class,
    default_role_binding,
    default_webhooks,
)
from trimtab_lab.apiserver.kinds.defaults.pods import default_pod
from trimtab_lab.apiserver.kinds.defaults.workloads import (
    default_daemon_set,
    default_deployment,
    default_replica_set,
    default_replication_controller,
    default_stateful_set,
    default_template,
)
from trimtab_lab.apiserver.storage.store import Tree


def apply_defaults(kind: str, tree: Tree) -> None:
    """Set the missing fields of an object of this kind (`apps/v1 Deployment`); kinds without defaults are left
    unchanged."""
    fill = _DEFAULTS.get(kind)
    if fill is not None:
        fill(tree)


_DEFAULTS: Mapping[str, Callable[[Tree], None]] = {
    "v1 Pod": default_pod,
    "v1 PodTemplate": default_template,
    "v1 ReplicationController": default_replication_controller,
    "v1 Service": default_service,
    "v1 Secret": default_secret,
    "v1 Namespace": default_namespace,
    "v1 Node": default_node,
    "v1 PersistentVolume": default_persistent_volume,
    "v1 PersistentVolumeClaim": default_claim,
    "v1 Endpoints": default_endpoints,
    "v1 LimitRange": default_limit_range,
    "apps/v1 Deployment": default_deployment,
    "apps/v1 ReplicaSet": default_replica_set,
    "apps/v1 StatefulSet": default_stateful_set,
    "apps/v1 DaemonSet": default_daemon_set,
    "autoscaling/v1 HorizontalPodAutoscaler": default_autoscaler,
    "coordination.k8s.io/v1 Lease": default_lease,
    "scheduling.k8s.io/v1 PriorityClass": default_priority_class,
    "rbac.authorization.k8s.io/v1 RoleBinding": default_role_binding,
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": default_role_binding,
    "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": default_webhooks,
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": default_mutating_webhooks,
    "apiextensions.k8s.io/v1 CustomResourceDefinition": default_custom_definition,
}
