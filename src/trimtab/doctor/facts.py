"""What is known of an installation: everything that was read of a cluster, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.api.annotations import Reason
from trimtab.api.configuration import ComponentName, TrimtabConfiguration
from trimtab.api.core import Event
from trimtab.api.documents import JSON
from trimtab.inspection.cluster import Cluster
from trimtab.install import definitions
from trimtab.install.options import Options

REPORTED = (Reason.COSTS_OVERWRITTEN, Reason.RIVAL_COSTS, Reason.UNREADABLE)
"""The reasons of events that findings are made of."""
COMPONENT = "app.kubernetes.io/component"
CLONESETS = "clonesets.apps.kruise.io"


@dataclass(frozen=True, slots=True)
class Denial:
    """Something that an account of Trimtab needs to do and may not."""

    user: str
    verb: str
    resource: str
    """With its group and subresource: `pods/eviction`, `deployments.apps`."""
    namespace: str = ""
    """Where it is not allowed; empty for the whole cluster."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """An installation as it was read. A field that is None could not be read; `gaps` says why."""

    namespace: str
    now: datetime
    """By the API server's clock."""
    clock_offset: float = 0.0
    """Seconds by which the API server's clock is ahead of this machine's."""
    is_local: bool = False
    """Whether the processes run outside the cluster: then it has no Deployments, Service or accounts of them."""
    configuration_text: str | None = ""
    """The installed configuration; empty if there is none."""
    configuration_error: str = ""
    options: Options | None = None
    """The installation as its configuration describes it."""
    server_version: str | None = ""
    deployments: Sequence[JSON] | None = ()
    definitions: Sequence[JSON] | None = ()
    webhooks: Sequence[JSON] | None = ()
    """The webhook configurations."""
    slices: Sequence[JSON] | None = ()
    """The EndpointSlices of the webhooks' Service."""
    secrets: Sequence[JSON] | None = ()
    """The Secret with the webhooks' certificates."""
    leases: Sequence[JSON] | None = ()
    denials: Sequence[Denial] | None = ()
    is_called: bool | None = True
    """Whether the API server calls the webhooks."""
    events: Sequence[Event] | None = ()
    """Events of the last hour with a reason of `REPORTED`."""
    cluster: Cluster = field(default_factory=lambda: Cluster(time=0))
    gaps: Mapping[str, str] = field(default_factory=dict)
    """By the name of a field: why it could not be read."""

    @property
    def configuration(self) -> TrimtabConfiguration | None:
        """The configuration, if it is valid."""
        return None if self.options is None else self.options.read()

    @property
    def components(self) -> tuple[ComponentName, ...]:
        """The components that are installed; webhooks too where only their registration is left."""
        if self.options is None:
            return ()
        registered: tuple[ComponentName, ...] = ("webhooks",) if self.webhooks else ()
        return tuple(dict.fromkeys((*self.options.components, *registered)))

    @property
    def is_installed(self) -> bool:
        """Whether anything of Trimtab is there to be checked."""
        return self.is_local or bool(self.deployments or self.webhooks or self.configuration_text)

    @property
    def has_clonesets(self) -> bool:
        """Whether the cluster's CloneSets are Trimtab's."""
        found = [each for each in self.definitions or () if each["metadata"]["name"] == CLONESETS]
        return any(definitions.is_ours(each) for each in found)

    def hooks(self) -> Iterator[tuple[JSON, JSON]]:
        """Every registered webhook, with the configuration that it is in."""
        for each in self.webhooks or ():
            for hook in each.get("webhooks") or ():
                yield each, hook
