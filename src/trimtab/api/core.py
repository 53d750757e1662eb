"""Other objects of the core group: Services, ReplicationControllers, Namespaces, Events."""

from __future__ import annotations

from datetime import datetime

from trimtab.api.documents import Document
from trimtab.api.meta import Condition, Labels, ObjectMeta, ObjectReference
from trimtab.api.model import Model


class ServiceSpec(Model):
    """The selector of a Service; empty if its endpoints are managed manually."""

    selector: Labels = {}


class Service(Model):
    """A Service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Model):
    """The replicas, selector (a plain map) and template."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: Labels = {}
    template: Document | None = None


class ReplicationControllerStatus(Model):
    """The observed numbers of pods."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicationController(Model):
    """A ReplicationController."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()

    @property
    def desired_replicas(self) -> int:
        """The number of pods requested; 1 if the spec has none."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class NamespaceStatus(Model):
    """The phase of a namespace."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Model):
    """A Namespace; namespace selectors match its labels."""

    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class EventSource(Model):
    """The component that reported an event."""

    component: str = ""
    host: str = ""


class EventSeries(Model):
    """The count of a repeated event."""

    count: int = 0
    last_observed_time: datetime | None = None


class Event(Model):
    """An Event about an object."""

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
