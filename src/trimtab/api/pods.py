"""The Pod, with the fields that scheduling and deletion use.

Omitted on purpose: what only a kubelet needs (probes, environment, mounts), names without meaning that differ from
pod to pod (of volumes), and what no decision reads, since every field takes memory in each of 50,000 pods. The rest is
the same for all pods of a template, and is stored once (see `pooling`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from trimtab.api.meta import LabelSelector, ListMeta, ObjectMeta
from trimtab.api.model import Model, Present

ResourceList = Mapping[str, str | int | float]
"""Quantities as written: strings from an API server; in files of users also numbers."""


class NodeSelectorRequirement(Model):
    """One expression of a node selector; Gt and Lt compare integers."""

    key: Annotated[str, Meta(description="The label key, or the field, that the selector applies to.")]
    operator: Annotated[str, Meta(description="In, NotIn, Exists, DoesNotExist, Gt or Lt.")]
    values: Annotated[tuple[str, ...], Meta(description="The values that the operator compares with.")] = ()


class NodeSelectorTerm(Model):
    """Expressions on labels and fields that must all match. An empty term matches nothing."""

    match_expressions: Annotated[
        tuple[NodeSelectorRequirement, ...], Meta(description="Expressions on a node's labels.")
    ] = ()
    match_fields: Annotated[
        tuple[NodeSelectorRequirement, ...],
        Meta(description="Expressions on a node's fields (metadata.name)."),
    ] = ()


class NodeSelector(Model):
    """Terms of which at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Model):
    """A term that adds `weight` to the score of a node that matches."""

    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model):
    """The required and preferred nodes of a pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Model):
    """The pods that a pod is to be near to, or away from, in domains of `topology_key`."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Model):
    """A pod affinity term that adds `weight` to the score of a node that matches."""

    weight: int
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Model):
    """Pod affinity or anti-affinity, which have the same fields."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Model):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Model):
    """A toleration of taints. An empty key with `Exists` tolerates all."""

    key: Annotated[str, Meta(description="The taint's key; empty means all keys.")] = ""
    operator: Annotated[str, Meta(description="Exists or Equal (the default).")] = ""
    value: Annotated[str, Meta(description="The taint's value, for Equal.")] = ""
    effect: Annotated[str, Meta(description="NoSchedule, PreferNoSchedule or NoExecute; empty means all.")] = ""
    toleration_seconds: Annotated[
        int | None, Meta(description="How many seconds a NoExecute taint is tolerated; forever if absent.")
    ] = None


class TopologySpreadConstraint(Model):
    """A topology spread constraint."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ContainerPort(Model):
    """A port of a container; only its host port is used."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = ""


class ResourceRequirements(Model):
    """The resources of a container or of a whole pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerRestartRule(Model):
    """A restart rule of a container; some nodes do not support every action."""

    action: str = ""


class Container(Model):
    """A container, with the fields that a scheduler uses."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class ImageVolumeSource(Model):
    """An image that is mounted as a volume."""

    reference: str = ""


class Volume(Model):
    """A volume, with the sources that restrict placement.

    Volumes without any of these sources (config maps, secrets, empty directories, …) can be mounted on any node.
    """

    image: ImageVolumeSource | None = None
    persistent_volume_claim: Present | None = None
    ephemeral: Present | None = None
    gce_persistent_disk: Present | None = None
    aws_elastic_block_store: Present | None = None
    azure_disk: Present | None = None
    azure_file: Present | None = None
    vsphere_volume: Present | None = None
    portworx_volume: Present | None = None
    cinder: Present | None = None
    iscsi: Present | None = None
    rbd: Present | None = None


class PodResourceClaim(Model):
    """A dynamic resource claim; only its existence is used."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Model):
    """A gate that keeps a pod from being scheduled while it is present."""

    name: str


class PodSchedulingGroup(Model):
    """The group that a pod is scheduled together with."""

    pod_group_name: str | None = None


class PodSpec(Model):
    """The spec of a pod."""

    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    host_network: bool = False
    host_users: bool | None = None
    priority: int | None = None
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()


class PodCondition(Model):
    """A condition of a pod; Trimtab uses `Ready` and `PodScheduled`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ContainerStatus(Model):
    """The status of a container; the resources are those granted after an in-place resize."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None


class PodStatus(Model):
    """The status of a pod."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of that type, if the pod has it."""
        for condition in self.conditions:
            if condition.type == kind:
                return condition
        return None


class Pod(Model):
    """A Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def terminating(self) -> bool:
        """Whether its deletion was requested."""
        return self.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        """Whether its phase is Succeeded or Failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Whether it counts as one of its workload's pods."""
        return not self.finished and not self.terminating

    @property
    def ready(self) -> bool:
        """Whether its condition Ready is True."""
        condition = self.status.condition("Ready")
        return condition is not None and condition.status == "True"


class PodList(Model):
    """A page of pods."""

    metadata: ListMeta = ListMeta()
    items: tuple[Pod, ...] = ()


class PodTemplateSpec(Model):
    """The typed view of a pod template. Pods are created from the raw template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
