"""The options of an installation: its namespace, its components, and how strict it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trimtab import __version__
from trimtab.api import configuration
from trimtab.api.configuration import ComponentName, TrimtabConfiguration
from trimtab.api.documents import JSON

NAME = "trimtab"
NAMESPACE = "trimtab-system"
MANAGED_BY = "app.kubernetes.io/managed-by"
"""The label of all our objects: an object without it is never replaced or removed."""
INSTANCE = "app.kubernetes.io/instance"
"""The label that says which installation an object belongs to: the namespace of that installation."""

DEFAULT_CONFIGURATION: Mapping[str, Any] = {
    "apiVersion": configuration.API_VERSION,
    "kind": configuration.KIND,
    "scaleDown": {"defaultPolicies": [{"name": "level", "mode": "Observe"}]},
    "logs": {"format": "json"},
}
"""The configuration unless a file is given: the scale-downs of every workload are observed, and nothing is changed."""

SHARED_LABELS: Mapping[str, str] = {
    "app.kubernetes.io/name": NAME,
    MANAGED_BY: NAME,
    "app.kubernetes.io/version": __version__,
}
"""The labels of what several installations share: the definitions of our kinds."""

CONTAINER_PORTS: Mapping[str, int] = {"webhooks": 9443, "serving": 10269}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one installation. There is one in a namespace, so the namespace is its name."""

    namespace: str = NAMESPACE
    image: str = f"{NAME}:{__version__}"
    components: Sequence[ComponentName] = ("scheduler", "webhooks", "controllers")
    replicas: int = 2
    configuration: Mapping[str, Any] = field(default_factory=lambda: dict(DEFAULT_CONFIGURATION))
    """A TrimtabConfiguration as the user wrote it; the namespace and the ports are filled in."""
    deny_cost_changes: bool = False
    """Whether foreign changes of costs in protected namespaces are denied, rather than warned about and audited."""
    group_cost_edits: bool = False
    """Whether users who may edit in a namespace may write PodGroupCosts there."""
    api_server_ranges: Sequence[str] = ()
    """The CIDRs that API servers call from; any, if empty."""
    clonesets: bool = True
    """Whether the cluster's CloneSets are Trimtab's; OpenKruise's are not validated by our rules."""
    shared: str = ""
    """Why the namespace is not Trimtab's alone, and so neither changed nor removed (see `namespaces`)."""
    monitoring: bool = False
    """Whether there are a PodMonitor and a PrometheusRule, which need the Prometheus operator."""
    ca_bundle: bytes = b""
    """The CA bundle (PEM) for the webhook configurations, if an administrator manages the certificates."""

    def settings(self) -> JSON:
        """The configuration as it is installed. In pods, health is served to other hosts, on fixed ports."""
        tree = dict(self.configuration)
        registered = {"registeredAs": self.scoped(NAME)} | (tree.get("webhooks") or {})
        webhooks = {**registered, "host": "0.0.0.0", "port": CONTAINER_PORTS["webhooks"]}  # noqa: S104 - in a pod
        serving = {**(tree.get("serving") or {}), "host": "0.0.0.0", "port": CONTAINER_PORTS["serving"]}  # noqa: S104 - in a pod
        return tree | {"namespace": self.namespace, "webhooks": webhooks, "serving": serving}

    def read(self) -> TrimtabConfiguration:
        """The installed configuration. Raises InvalidError."""
        return configuration.read(self.settings())

    def labels(self, component: str = "") -> dict[str, str]:
        """The labels of every object of an installation."""
        labels = {**SHARED_LABELS, INSTANCE: self.namespace}
        return labels | ({"app.kubernetes.io/component": component} if component else {})

    def scoped(self, name: str) -> str:
        """The name of a cluster-scoped object, such as `trimtab-webhooks.team-a`.

        Namespaces have no dots in their names, so no two installations share an object. In the usual namespace the name
        is short, as it always was.
        """
        return name if self.namespace == NAMESPACE else f"{name}.{self.namespace}"


def selecting(component: str) -> dict[str, str]:
    """The labels that select the pods of a component; they are the same in every version."""
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": component}


def account(component: str) -> str:
    """The name of a component's ServiceAccount and of its other objects."""
    return f"{NAME}-{component}"
