"""What an installation is told: where it goes, what of Trimtab runs, and how strict it is."""

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
"""The label that says whose an object is: nothing without it is ever replaced or removed."""

DEFAULT_CONFIGURATION: Mapping[str, Any] = {
    "apiVersion": configuration.API_VERSION,
    "kind": configuration.KIND,
    "scaleDown": {"defaultPolicies": [{"name": "level"}]},
    "logs": {"format": "json"},
}
"""What is installed unless a file is given: every workload is kept level when it shrinks."""

CONTAINER_PORTS: Mapping[str, int] = {"webhooks": 9443, "serving": 10269}


@dataclass(frozen=True, slots=True)
class Options:
    """One installation."""

    namespace: str = NAMESPACE
    image: str = f"{NAME}:{__version__}"
    components: Sequence[ComponentName] = ("scheduler", "webhooks", "controllers")
    replicas: int = 2
    configuration: Mapping[str, Any] = field(default_factory=lambda: dict(DEFAULT_CONFIGURATION))
    """A TrimtabConfiguration as it was written; where Trimtab runs and listens is filled in."""
    deny_cost_changes: bool = False
    """Whether others who change costs in protected namespaces are refused, rather than warned and audited."""
    api_server_ranges: Sequence[str] = ()
    """Where API servers call from (CIDR); anywhere, if nothing is said."""
    clonesets: bool = True
    """Whether the cluster's CloneSets are Trimtab's; what others bring is not judged by our rules."""
    shared: str = ""
    """Why the namespace is not Trimtab's alone, and so neither changed nor removed (see `namespaces`)."""
    authority: bytes = b""
    """Whom API servers are to trust, in PEM, where an administrator keeps the webhooks' certificates."""

    def settings(self) -> JSON:
        """The configuration as it is installed. In pods, health is asked for from outside, and ports are fixed."""
        tree = dict(self.configuration)
        webhooks = {**(tree.get("webhooks") or {}), "host": "0.0.0.0", "port": CONTAINER_PORTS["webhooks"]}  # noqa: S104 - in a pod
        serving = {**(tree.get("serving") or {}), "host": "0.0.0.0", "port": CONTAINER_PORTS["serving"]}  # noqa: S104 - in a pod
        return tree | {"namespace": self.namespace, "webhooks": webhooks, "serving": serving}

    def read(self) -> TrimtabConfiguration:
        """The installed configuration, checked."""
        return configuration.read(self.settings())

    def labels(self, component: str = "") -> dict[str, str]:
        """What every object of an installation carries."""
        labels = {"app.kubernetes.io/name": NAME, MANAGED_BY: NAME, "app.kubernetes.io/version": __version__}
        return labels | ({"app.kubernetes.io/component": component} if component else {})


def selecting(component: str) -> dict[str, str]:
    """The labels that tell the pods of a component from all others; they never change from version to version."""
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": component}


def account(component: str) -> str:
    """The ServiceAccount of a component, and what else is called after it."""
    return f"{NAME}-{component}"
