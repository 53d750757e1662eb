"""The workloads of `apps/v1`."""

from __future__ import annotations

from datetime import datetime

from trimtab.api.documents import Document
from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model


class ReplicaSetSpec(Model):
    """How many pods, which, and what of."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: Document | None = None


class ReplicaSetStatus(Model):
    """How many there are."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Model):
    """A replica set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()

    @property
    def desired_replicas(self) -> int:
        """The number of pods asked for; 1 where the spec does not say."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class RollingUpdateDeployment(Model):
    """How far a rolling update may stray from the wanted number."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(Model):
    """How old pods give way to new ones."""

    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Model):
    """How many pods, which, what of, and how they are replaced."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: Document | None = None
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentCondition(Condition):
    """A condition that also tells when it was last confirmed: progress is measured from there."""

    last_update_time: datetime | None = None


class DeploymentStatus(Model):
    """How many there are."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()


class Deployment(Model):
    """A deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def desired_replicas(self) -> int:
        """The number of pods asked for; 1 where the spec does not say."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class StatefulSetSpec(Model):
    """What of a stateful set takes part in spreading: its selector, and how many it wants."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: Document | None = None
    service_name: str = ""


class StatefulSet(Model):
    """A stateful set. It shrinks by ordinal: nobody else may choose its victims."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()

    @property
    def desired_replicas(self) -> int:
        """The number of pods asked for; 1 where the spec does not say."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class ControllerRevision(Model):
    """A template as it was at one revision."""

    metadata: ObjectMeta = ObjectMeta()
    data: Document | None = None
    revision: int = 0


class ScaleSpec(Model):
    """The size asked for."""

    replicas: int = 0


class ScaleStatus(Model):
    """The size there is, and the selector as text."""

    replicas: int = 0
    selector: str = ""


class Scale(Model):
    """The `scale` subresource (`autoscaling/v1`): a size without the workload around it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
