"""Tables as `kubectl get` prints them: the server decides on columns and cells, the client aligns them.

Columns of priority 0 are always shown, those of priority 1 with `-o wide`; a row has cells for all of them. A kind
without columns of its own has its name and the moment of its creation. Custom kinds bring their columns (`custom`).

`now` is in nanoseconds since 1970: a cell such as an age is true for the moment in which the row is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trimtab.api import selectors, times
from trimtab.api.codec import convert
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab_lab.apiserver.kinds.printers.jsonpaths import JSONPath
from trimtab_lab.apiserver.kinds.printers.pod_status import PodState

Tree = dict[str, Any]
Cells = Callable[[Tree, int], list[Any]]

_SECOND = 10**9
_NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a kind's table, and what fills a row of them."""

    columns: list[Tree]
    cells: Cells


def columns(kind: str) -> list[Tree]:
    """The columns of a built-in kind, as `columnDefinitions` has them."""
    return layout(kind).columns


def row(kind: str, tree: Tree, now: int) -> list[Any]:
    """The cells of one object of a built-in kind."""
    return layout(kind).cells(tree, now)


def layout(kind: str) -> Layout:
    """Both, for a built-in kind."""
    return _LAYOUTS.get(kind, _PLAIN)


def custom(definitions: Sequence[Tree]) -> Layout:
    """The layout of a custom kind, given its `additionalPrinterColumns`; without any, there is the age."""
    if not definitions:
        definitions = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    cells = [_custom_cell(definition) for definition in definitions]

    def fill(tree: Tree, now: int) -> list[Any]:
        return [_name(tree), *(cell(tree, now) for cell in cells)]

    return Layout([_NAME, *map(_custom_column, definitions)], fill)


def translate_age(created: str | None, now: int) -> str:
    """How long ago a time was, as people read it: `90s`, `5m30s`, `26h`, `3d4h`."""
    if not created:
        return "<unknown>"
    try:
        return human_duration(now - times.parse_ns(created))
    except InvalidError:
        return "<invalid>"


def human_duration(nanoseconds: int) -> str:
    """A duration with the one or two units that matter; the closer, the finer."""
    seconds = int(nanoseconds / _SECOND)
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 365 * 8 else f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


# --- what cells are made of ------------------------------------------------------------------------------------------


def _column(name: str, type_: str = "string", priority: int = 0, description: str = "", form: str = "") -> Tree:
    return {"name": name, "type": type_, "format": form, "description": description or name, "priority": priority}


_NAME = _column("Name", description="The name of the object, unique for its kind in a namespace.", form="name")
_AGE = _column("Age", description="How long ago the object was created.")
_CONTAINERS = (_column("Containers", priority=1), _column("Images", priority=1))
_SELECTOR = _column("Selector", priority=1)


def _name(tree: Tree) -> str:
    name: str = tree["metadata"].get("name", "")
    return name


def _age(tree: Tree, now: int) -> str:
    return translate_age(tree["metadata"].get("creationTimestamp"), now)


def _named_and_aged(*values: Callable[[Tree], Any]) -> Cells:
    """Name, these, age."""
    return lambda tree, now: [_name(tree), *(value(tree) for value in values), _age(tree, now)]


def _status(field: str) -> Callable[[Tree], int]:
    return lambda tree: (tree.get("status") or {}).get(field, 0)


def _containers(template: Tree | None) -> list[str]:
    held = ((template or {}).get("spec") or {}).get("containers") or ()
    return [",".join(container.get(field, "") for container in held) for field in ("name", "image")]


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or _NONE


def _selector(given: Tree | None, *, empty: str = _NONE, bad: str = "<error>") -> str:
    if given is None:
        return empty
    try:
        return str(selectors.compile(convert(given, LabelSelector))) or empty
    except InvalidError:
        return bad


# --- pods ------------------------------------------------------------------------------------------------------------


def _pod(pod: Tree, now: int) -> list[Any]:
    spec, status, state = pod["spec"], pod.get("status") or {}, PodState(pod)
    addresses = status.get("podIPs") or [{}]
    return [
        _name(pod),
        f"{state.ready}/{state.total}",
        state.reason,
        _restarts(state, now),
        _age(pod, now),
        addresses[0].get("ip") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _gates(spec.get("readinessGates") or (), status.get("conditions") or ()),
    ]


def _restarts(state: PodState, now: int) -> str:
    if state.restarts and state.restarted_at:
        return f"{state.restarts} ({translate_age(state.restarted_at, now)} ago)"
    return str(state.restarts)


def _gates(gates: Sequence[Tree], conditions: Sequence[Tree]) -> str:
    if not gates:
        return _NONE
    first: dict[str, str] = {}
    for condition in conditions:
        first.setdefault(condition.get("type", ""), condition.get("status", ""))
    passed = sum(first.get(gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


# --- nodes and services ----------------------------------------------------------------------------------------------

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _node(node: Tree, now: int) -> list[Any]:
    info = node["status"].get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    architecture = info.get("architecture")
    return [
        _name(node),
        _node_status(node),
        ",".join(_roles(node["metadata"].get("labels") or {})) or _NONE,
        _age(node, now),
        info.get("kubeletVersion", ""),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        f"{kernel} ({architecture})" if architecture else kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _node_status(node: Tree) -> str:
    ready = [c for c in node["status"].get("conditions") or () if c.get("type") == "Ready"]
    words = [("Ready" if ready[-1].get("status") == "True" else "NotReady") if ready else "Unknown"]
    if node["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(labels: Mapping[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return sorted(role for role in roles if role)


def _address(node: Tree, kind: str) -> str:
    held = (a.get("address", "") for a in node["status"].get("addresses") or () if a.get("type") == kind)
    return next(held, _NONE)


def _service(service: Tree, now: int) -> list[Any]:
    spec = service["spec"]
    inside = spec.get("clusterIPs") or [_NONE]
    ports = ",".join(map(_port, spec.get("ports") or ())) or _NONE
    outside = _external(service)
    return [
        _name(service),
        spec.get("type", ""),
        inside[0],
        outside,
        ports,
        _age(service, now),
        _labels(spec.get("selector")),
    ]


def _port(port: Tree) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{outside}/{port.get('protocol', '')}"


def _external(service: Tree) -> str:
    spec = service["spec"]
    given = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or _NONE
        case "LoadBalancer":
            ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
            balanced = sorted({i.get("ip") or i.get("hostname", "") for i in ingress} - {""})
            return ",".join([*balanced, *given]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


# --- workloads -------------------------------------------------------------------------------------------------------


def _deployment(tree: Tree, now: int) -> list[Any]:
    spec, status = tree["spec"], tree.get("status") or {}
    return [
        _name(tree),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(tree, now),
        *_containers(spec.get("template")),
        _selector(spec.get("selector"), empty="", bad="<invalid>"),
    ]


def _replica_set(tree: Tree, now: int) -> list[Any]:
    return [*_counts(tree, now), _selector(tree["spec"].get("selector"))]


def _replication_controller(tree: Tree, now: int) -> list[Any]:
    return [*_counts(tree, now), _labels(tree["spec"].get("selector"))]


def _counts(tree: Tree, now: int) -> list[Any]:
    spec, status = tree["spec"], tree.get("status") or {}
    numbers = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [_name(tree), *numbers, _age(tree, now), *_containers(spec.get("template"))]


def _stateful_set(tree: Tree, now: int) -> list[Any]:
    ready = f"{_status('readyReplicas')(tree)}/{tree['spec'].get('replicas', 0)}"
    return [_name(tree), ready, _age(tree, now), *_containers(tree["spec"].get("template"))]


_DAEMON_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def _daemon_set(tree: Tree, now: int) -> list[Any]:
    spec = tree["spec"]
    return [
        _name(tree),
        *(_status(field)(tree) for field in _DAEMON_COUNTS),
        _labels(((spec.get("template") or {}).get("spec") or {}).get("nodeSelector")),
        _age(tree, now),
        *_containers(spec.get("template")),
        _selector(spec.get("selector")),
    ]


def _pod_template(tree: Tree, _now: int) -> list[Any]:
    template = tree.get("template") or {}
    return [_name(tree), *_containers(template), _labels((template.get("metadata") or {}).get("labels"))]


def _controller(tree: Tree) -> str:
    for owner in tree["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return _NONE


# --- events and the rest ---------------------------------------------------------------------------------------------


def _event(event: Tree, now: int) -> list[Any]:
    """An event of the core group."""
    about, source = event.get("involvedObject") or {}, event.get("source") or {}
    return _event_cells(event, about, source, now, ("firstTimestamp", "lastTimestamp", "count", "message"))


def _new_event(event: Tree, now: int) -> list[Any]:
    """The same event as `events.k8s.io` writes it."""
    about, source = event.get("regarding") or {}, event.get("deprecatedSource") or {}
    fields = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "note")
    return _event_cells(event, about, source, now, fields)


def _event_cells(event: Tree, about: Tree, source: Tree, now: int, fields: tuple[str, str, str, str]) -> list[Any]:
    first_field, last_field, count_field, message = fields
    first = translate_age(event.get(first_field) or event.get("eventTime"), now)
    last = translate_age(event[last_field], now) if event.get(last_field) else first
    count, series = event.get(count_field) or 1, event.get("series")
    if series is not None:
        last, count = translate_age(series.get("lastObservedTime"), now), series.get("count", 0)
    kind = about.get("kind", "").lower()
    reporter = event.get("reportingComponent") or event.get("reportingController", "")
    origin = (source.get("component") or reporter, source.get("host") or event.get("reportingInstance", ""))
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        ", ".join(origin) if origin[1] else origin[0],
        event.get(message, "").strip(),
        first,
        count,
        _name(event),
    ]


def _role_binding(tree: Tree, now: int) -> list[Any]:
    reference, subjects = tree["roleRef"], tree.get("subjects") or ()
    accounts = (f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount")
    return [
        _name(tree),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        _age(tree, now),
        ", ".join(_subjects(subjects, "User")),
        ", ".join(_subjects(subjects, "Group")),
        ", ".join(accounts),
    ]


def _subjects(subjects: Iterable[Tree], kind: str) -> list[str]:
    return [subject.get("name", "") for subject in subjects if subject.get("kind") == kind]


def _priority_class(tree: Tree, now: int) -> list[Any]:
    policy = tree.get("preemptionPolicy", "")
    return [_name(tree), tree.get("value", 0), tree.get("globalDefault", False), _age(tree, now), policy]


def _size(*fields: str) -> Callable[[Tree], int]:
    return lambda tree: sum(len(tree.get(field) or ()) for field in fields)


def _count_or_none(field: str) -> Callable[[Tree], str]:
    return lambda tree: str(tree["spec"].get(field, "N/A"))


def _plain(tree: Tree, _now: int) -> list[Any]:
    return [_name(tree), tree["metadata"].get("creationTimestamp", "")]


_PLAIN = Layout([_NAME, _column("Created At", "date", description="When the object was created.")], _plain)


def _text(*names: str) -> tuple[Tree, ...]:
    return tuple(_column(name) for name in names)


def _whole(*names: str) -> tuple[Tree, ...]:
    return tuple(_column(name, "integer") for name in names)


def _wide(*names: str) -> tuple[Tree, ...]:
    return tuple(_column(name, priority=1) for name in names)


_BINDING = Layout([_NAME, *_text("Role"), _AGE, *_wide("Users", "Groups", "ServiceAccounts")], _role_binding)
_WEBHOOKS = Layout([_NAME, *_whole("Webhooks"), _AGE], _named_and_aged(_size("webhooks")))
_EVENT_COLUMNS = [
    *_text("Last Seen", "Type", "Reason", "Object"),
    *_wide("Subobject", "Source"),
    *_text("Message"),
    *_wide("First Seen", "Count"),
    {**_NAME, "priority": 1},
]

_LAYOUTS: Mapping[str, Layout] = {
    "v1 Pod": Layout(
        [
            _NAME,
            *_text("Ready", "Status", "Restarts"),
            _AGE,
            *_wide("IP", "Node", "Nominated Node", "Readiness Gates"),
        ],
        _pod,
    ),
    "v1 PodTemplate": Layout([_NAME, *_text("Containers", "Images", "Pod Labels")], _pod_template),
    "v1 ReplicationController": Layout(
        [_NAME, *_whole("Desired", "Current", "Ready"), _AGE, *_CONTAINERS, _SELECTOR], _replication_controller
    ),
    "v1 Service": Layout(
        [_NAME, *_text("Type", "Cluster-IP", "External-IP", "Port(s)"), _AGE, _SELECTOR],
        _service,
    ),
    "v1 Node": Layout(
        [
            _NAME,
            *_text("Status", "Roles"),
            _AGE,
            *_text("Version"),
            *_wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ],
        _node,
    ),
    "v1 Namespace": Layout(
        [_NAME, *_text("Status"), _AGE], _named_and_aged(lambda tree: (tree.get("status") or {}).get("phase", ""))
    ),
    "v1 Secret": Layout(
        [_NAME, *_text("Type", "Data"), _AGE], _named_and_aged(lambda tree: tree.get("type", ""), _size("data"))
    ),
    "v1 ConfigMap": Layout([_NAME, *_text("Data"), _AGE], _named_and_aged(_size("data", "binaryData"))),
    "v1 ServiceAccount": Layout([_NAME, _AGE], _named_and_aged()),
    "v1 Event": Layout(_EVENT_COLUMNS, _event),
    "events.k8s.io/v1 Event": Layout(_EVENT_COLUMNS, _new_event),
    "apps/v1 Deployment": Layout(
        [_NAME, *_text("Ready", "Up-to-date", "Available"), _AGE, *_CONTAINERS, _SELECTOR], _deployment
    ),
    "apps/v1 ReplicaSet": Layout(
        [_NAME, *_whole("Desired", "Current", "Ready"), _AGE, *_CONTAINERS, _SELECTOR], _replica_set
    ),
    "apps/v1 StatefulSet": Layout([_NAME, *_text("Ready"), _AGE, *_CONTAINERS], _stateful_set),
    "apps/v1 DaemonSet": Layout(
        [
            _NAME,
            *_whole("Desired", "Current", "Ready", "Up-to-date", "Available"),
            *_text("Node Selector"),
            _AGE,
            *_CONTAINERS,
            _SELECTOR,
        ],
        _daemon_set,
    ),
    "apps/v1 ControllerRevision": Layout(
        [_NAME, *_text("Controller", "Revision"), _AGE],
        _named_and_aged(_controller, lambda tree: tree.get("revision", 0)),
    ),
    "policy/v1 PodDisruptionBudget": Layout(
        [_NAME, *_text("Min Available", "Max Unavailable"), *_whole("Allowed Disruptions"), _AGE],
        _named_and_aged(
            _count_or_none("minAvailable"), _count_or_none("maxUnavailable"), _status("disruptionsAllowed")
        ),
    ),
    "coordination.k8s.io/v1 Lease": Layout(
        [_NAME, *_text("Holder"), _AGE], _named_and_aged(lambda tree: tree["spec"].get("holderIdentity", ""))
    ),
    "scheduling.k8s.io/v1 PriorityClass": Layout(
        [_NAME, *_whole("Value"), _column("Global-Default", "boolean"), _AGE, *_text("PreemptionPolicy")],
        _priority_class,
    ),
    "rbac.authorization.k8s.io/v1 RoleBinding": _BINDING,
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": _BINDING,
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": _WEBHOOKS,
    "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": _WEBHOOKS,
    "autoscaling/v1 Scale": Layout(
        [{**_NAME, "format": ""}, *_whole("Desired", "Available"), _AGE],
        _named_and_aged(lambda tree: tree["spec"].get("replicas", 0), _status("replicas")),
    ),
}


# --- custom kinds ----------------------------------------------------------------------------------------------------


def _custom_column(definition: Tree) -> Tree:
    path = definition["jsonPath"]
    description = definition.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    priority, form = definition.get("priority", 0), definition.get("format", "")
    return _column(definition["name"], definition["type"], priority, description, form)


def _custom_cell(definition: Tree) -> Callable[[Tree, int], Any]:
    path, type_ = JSONPath(definition["jsonPath"]), definition["type"]

    def cell(tree: Tree, now: int) -> Any:
        found = path.find(tree)
        return _shown(type_, found[0], now) if found else None

    return cell


def _shown(type_: str, value: Any, now: int) -> Any:
    """A value in a column of this type; nothing, if it is of another type."""
    match type_, value:
        case "string", _:
            return _as_text(value)
        case "integer" | "number", bool():
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return float(value)
        case "boolean", bool():
            return value
        case "date", str():
            return translate_age(value, now)
        case _:
            return None


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    return msgspec.json.encode(value, order="sorted").decode()
