"""Tables as `kubectl get` prints them: the server provides columns and cells, the client aligns them.

Columns of priority 0 are always shown, those of priority 1 with `-o wide`; a row has cells for all of them. A kind
without columns of its own shows its name and creation time. For custom kinds see `custom`.

`now` is in nanoseconds since 1970; ages are computed when the row is created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trimtab_lab.apiserver.kinds.printers.cells import (
    AGE_COLUMN,
    CONTAINER_COLUMNS,
    NAME_COLUMN,
    SELECTOR_COLUMN,
    Layout,
    column,
    integer_columns,
    name_of,
    name_values_age,
    status_count,
    text_columns,
    wide_columns,
)
from trimtab_lab.apiserver.kinds.printers.cluster import (
    event_cells,
    new_event_cells,
    node_cells,
    priority_class_cells,
    role_binding_cells,
    service_cells,
)
from trimtab_lab.apiserver.kinds.printers.pods import pod_cells
from trimtab_lab.apiserver.kinds.printers.workloads import (
    controller_of,
    daemon_set_cells,
    deployment_cells,
    pod_template_cells,
    replica_set_cells,
    replication_controller_cells,
    stateful_set_cells,
)
from trimtab_lab.apiserver.storage.store import Tree


def columns(kind: str) -> list[Tree]:
    """The columns of a built-in kind, as in `columnDefinitions`."""
    return layout(kind).columns


def row(kind: str, tree: Tree, now: int) -> list[Any]:
    """The cells of one object of a built-in kind."""
    return layout(kind).cells(tree, now)


def layout(kind: str) -> Layout:
    """The layout of a built-in kind."""
    return _LAYOUTS.get(kind, _PLAIN)


def _size(*fields: str) -> Callable[[Tree], int]:
    return lambda tree: sum(len(tree.get(field) or ()) for field in fields)


def _count_or_none(field: str) -> Callable[[Tree], str]:
    return lambda tree: str(tree["spec"].get(field, "N/A"))


def _plain(tree: Tree, _now: int) -> list[Any]:
    return [name_of(tree), tree["metadata"].get("creationTimestamp", "")]


_PLAIN = Layout([NAME_COLUMN, column("Created At", "date", description="When the object was created.")], _plain)
_BINDING = Layout(
    [NAME_COLUMN, *text_columns("Role"), AGE_COLUMN, *wide_columns("Users", "Groups", "ServiceAccounts")],
    role_binding_cells,
)
_WEBHOOKS = Layout([NAME_COLUMN, *integer_columns("Webhooks"), AGE_COLUMN], name_values_age(_size("webhooks")))
_EVENT_COLUMNS = [
    *text_columns("Last Seen", "Type", "Reason", "Object"),
    *wide_columns("Subobject", "Source"),
    *text_columns("Message"),
    *wide_columns("First Seen", "Count"),
    {**NAME_COLUMN, "priority": 1},
]

_LAYOUTS: Mapping[str, Layout] = {
    "v1 Pod": Layout(
        [
            NAME_COLUMN,
            *text_columns("Ready", "Status", "Restarts"),
            AGE_COLUMN,
            *wide_columns("IP", "Node", "Nominated Node", "Readiness Gates"),
        ],
        pod_cells,
    ),
    "v1 PodTemplate": Layout([NAME_COLUMN, *text_columns("Containers", "Images", "Pod Labels")], pod_template_cells),
    "v1 ReplicationController": Layout(
        [NAME_COLUMN, *integer_columns("Desired", "Current", "Ready"), AGE_COLUMN, *CONTAINER_COLUMNS, SELECTOR_COLUMN],
        replication_controller_cells,
    ),
    "v1 Service": Layout(
        [NAME_COLUMN, *text_columns("Type", "Cluster-IP", "External-IP", "Port(s)"), AGE_COLUMN, SELECTOR_COLUMN],
        service_cells,
    ),
    "v1 Node": Layout(
        [
            NAME_COLUMN,
            *text_columns("Status", "Roles"),
            AGE_COLUMN,
            *text_columns("Version"),
            *wide_columns("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ],
        node_cells,
    ),
    "v1 Namespace": Layout(
        [NAME_COLUMN, *text_columns("Status"), AGE_COLUMN],
        name_values_age(lambda tree: (tree.get("status") or {}).get("phase", "")),
    ),
    "v1 Secret": Layout(
        [NAME_COLUMN, *text_columns("Type", "Data"), AGE_COLUMN],
        name_values_age(lambda tree: tree.get("type", ""), _size("data")),
    ),
    "v1 ConfigMap": Layout(
        [NAME_COLUMN, *text_columns("Data"), AGE_COLUMN], name_values_age(_size("data", "binaryData"))
    ),
    "v1 ServiceAccount": Layout([NAME_COLUMN, AGE_COLUMN], name_values_age()),
    "v1 Event": Layout(_EVENT_COLUMNS, event_cells),
    "events.k8s.io/v1 Event": Layout(_EVENT_COLUMNS, new_event_cells),
    "apps/v1 Deployment": Layout(
        [
            NAME_COLUMN,
            *text_columns("Ready", "Up-to-date", "Available"),
            AGE_COLUMN,
            *CONTAINER_COLUMNS,
            SELECTOR_COLUMN,
        ],
        deployment_cells,
    ),
    "apps/v1 ReplicaSet": Layout(
        [NAME_COLUMN, *integer_columns("Desired", "Current", "Ready"), AGE_COLUMN, *CONTAINER_COLUMNS, SELECTOR_COLUMN],
        replica_set_cells,
    ),
    "apps/v1 StatefulSet": Layout(
        [NAME_COLUMN, *text_columns("Ready"), AGE_COLUMN, *CONTAINER_COLUMNS], stateful_set_cells
    ),
    "apps/v1 DaemonSet": Layout(
        [
            NAME_COLUMN,
            *integer_columns("Desired", "Current", "Ready", "Up-to-date", "Available"),
            *text_columns("Node Selector"),
            AGE_COLUMN,
            *CONTAINER_COLUMNS,
            SELECTOR_COLUMN,
        ],
        daemon_set_cells,
    ),
    "apps/v1 ControllerRevision": Layout(
        [NAME_COLUMN, *text_columns("Controller", "Revision"), AGE_COLUMN],
        name_values_age(controller_of, lambda tree: tree.get("revision", 0)),
    ),
    "policy/v1 PodDisruptionBudget": Layout(
        [
            NAME_COLUMN,
            *text_columns("Min Available", "Max Unavailable"),
            *integer_columns("Allowed Disruptions"),
            AGE_COLUMN,
        ],
        name_values_age(
            _count_or_none("minAvailable"), _count_or_none("maxUnavailable"), status_count("disruptionsAllowed")
        ),
    ),
    "coordination.k8s.io/v1 Lease": Layout(
        [NAME_COLUMN, *text_columns("Holder"), AGE_COLUMN],
        name_values_age(lambda tree: tree["spec"].get("holderIdentity", "")),
    ),
    "scheduling.k8s.io/v1 PriorityClass": Layout(
        [
            NAME_COLUMN,
            *integer_columns("Value"),
            column("Global-Default", "boolean"),
            AGE_COLUMN,
            *text_columns("PreemptionPolicy"),
        ],
        priority_class_cells,
    ),
    "rbac.authorization.k8s.io/v1 RoleBinding": _BINDING,
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": _BINDING,
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": _WEBHOOKS,
    "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": _WEBHOOKS,
    "autoscaling/v1 Scale": Layout(
        [{**NAME_COLUMN, "format": ""}, *integer_columns("Desired", "Available"), AGE_COLUMN],
        name_values_age(lambda tree: tree["spec"].get("replicas", 0), status_count("replicas")),
    ),
}
