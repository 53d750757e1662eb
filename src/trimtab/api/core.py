"""The rest of the core group that Trimtab reads: what groups pods, what spans them, what tells of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from trimtab.api.documents import Document
from trimtab.api.meta import Condition, Labels, ObjectMeta, ObjectReference
from trimtab.api.model import Model


class ServiceSpec(Model):
    """Which pods a service stands for; none, where its endpoints are managed by hand."""

    selector: Labels = {}


class Service(Model):
    """A service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Model):
    """The old way of saying how many pods there should be; its selector is a plain map."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: Labels = {}
    template: Document | None = None


class ReplicationControllerStatus(Model):
    """How many there are."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicationController(Model):
    """A replication controller."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()

    @property
    def desired_replicas(self) -> int:
        """The number of pods asked for; 1 where the spec does not say."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class NamespaceStatus(Model):
    """Whether a namespace is going away."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Model):
    """A namespace; its labels are what selectors of namespaces match."""

    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class EventSource(Model):
    """Who noticed."""

    component: str = ""
    host: str = ""


class EventSeries(Model):
    """How often, where an event happens again and again."""

    count: int = 0
    last_observed_time: datetime | None = None


class Event(Model):
    """What happened to an object, for people."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = EventSource()
    count: int = 0
    series: EventSeries | None = None
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


class Binding(Model):
    """Where a pod is to run."""

    metadata: ObjectMeta = ObjectMeta()
    target: Annotated[ObjectReference, Meta(description="The node.")] = ObjectReference()
