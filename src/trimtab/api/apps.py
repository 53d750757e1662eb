"""The workloads of `apps/v1`."""

from __future__ import annotations

from datetime import datetime

from trimtab.api.documents import Document
from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model


class ReplicaSetSpec(Model):
    """The replicas, selector and template."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: Document | None = None


class ReplicaSetStatus(Model):
    """The observed numbers of pods."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Model):
    """A ReplicaSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()

    @property
    def desired_replicas(self) -> int:
        """The number of pods requested; 1 if the spec has none."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class RollingUpdateDeployment(Model):
    """How far a rolling update may deviate from the desired replicas."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(Model):
    """How old pods are replaced by new ones."""

    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Model):
    """The replicas, selector, template and update strategy."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: Document | None = None
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentCondition(Condition):
    """A condition with the time of its last update, from which progress is measured."""

    last_update_time: datetime | None = None


class DeploymentStatus(Model):
    """The observed numbers of pods."""

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
    """A Deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def desired_replicas(self) -> int:
        """The number of pods requested; 1 if the spec has none."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class StatefulSetSpec(Model):
    """The part of the spec that spreading uses: selector and replicas."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: Document | None = None
    service_name: str = ""


class StatefulSet(Model):
    """A StatefulSet. It is scaled down by ordinal, not by deletion cost."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()

    @property
    def desired_replicas(self) -> int:
        """The number of pods requested; 1 if the spec has none."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class ControllerRevision(Model):
    """A revision of a template."""

    metadata: ObjectMeta = ObjectMeta()
    data: Document | None = None
    revision: int = 0


class ScaleSpec(Model):
    """The replicas requested."""

    replicas: int = 0


class ScaleStatus(Model):
    """The observed replicas, and the selector as text."""

    replicas: int = 0
    selector: str = ""


class Scale(Model):
    """The `scale` subresource (`autoscaling/v1`)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
