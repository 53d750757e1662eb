"""KubeSchedulerConfiguration, as kube-scheduler reads it, and the early form of the default-spreading proposal.

Users write the configuration, so these types are strict: an unknown field is an error, while views of cluster objects
skip it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.pods import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
)

V1 = "kubescheduler.config.k8s.io/v1"
PROPOSAL = "componentconfig/v1alpha1"
KIND = "KubeSchedulerConfiguration"


class _Strict(Model, forbid_unknown_fields=True):
    """A type that rejects unknown fields."""


class PluginReference(_Strict):
    """A plugin by name, and its weight where it scores."""

    name: str
    weight: int = 0


class PluginSet(_Strict):
    """The plugins enabled in addition to the defaults, and the defaults that are disabled (`*` for all)."""

    enabled: tuple[PluginReference, ...] = ()
    disabled: tuple[PluginReference, ...] = ()


class Plugins(_Strict):
    """Plugins by extension point; `multi_point` applies to all extension points of a plugin."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()


class PluginConfig(_Strict):
    """The arguments of a plugin; their type depends on its name."""

    name: str
    args: Mapping[str, Any] = {}


class SchedulerProfile(_Strict):
    """A scheduler profile, for the pods with its scheduler name. A single profile need not have a name."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(_Strict):
    """Leader election of the scheduler."""

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(_Strict):
    """The connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 50
    burst: int = 100


class DefaultConstraint(TopologySpreadConstraint, forbid_unknown_fields=True):
    """A default constraint, for pods without constraints."""


class SchedulerConfiguration(_Strict):
    """The whole configuration."""

    api_version: str = V1
    kind: str = KIND
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(),)
    extenders: tuple[Mapping[str, Any], ...] = ()
    delay_cache_until_active: bool = False
    topology_spread_constraints: tuple[DefaultConstraint, ...] = ()
    """The proposal's: default constraints of all profiles. kube-scheduler does not have the field."""
    default_topology_spread_constraints: tuple[DefaultConstraint, ...] = ()
    """The other name that the proposal gives it."""


class ProposalConfiguration(_Strict):
    """The default-spreading proposal's sample: default constraints at the top of the configuration."""

    api_version: str = PROPOSAL
    kind: str = ""
    default_topology_spread_constraints: tuple[DefaultConstraint, ...] = ()


class _Args(_Strict):
    """Arguments of a plugin, which may have apiVersion and kind as in kube-scheduler."""

    api_version: str = V1
    kind: str = ""


class PodTopologySpreadArgs(_Args):
    """Constraints for pods without any: Kubernetes' own, a list, or the proposal's."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: Literal["System", "List", "Proposal"] = "System"


class ResourceSpec(_Strict):
    """A resource and its weight in a score."""

    name: str
    weight: int = 1


class UtilizationShapePoint(_Strict):
    """At this utilization (0–100), this score (0–10)."""

    utilization: int
    score: int


class RequestedToCapacityRatioParam(_Strict):
    """The curve of the requested-to-capacity-ratio strategy."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(_Strict):
    """How the free resources of a node become a score."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(_Args):
    """The resources that the filter ignores, and how it scores."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class NodeResourcesBalancedAllocationArgs(_Args):
    """The resources whose use is balanced."""

    resources: tuple[ResourceSpec, ...] = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class InterPodAffinityArgs(_Args):
    """The weight of required affinities of existing pods, and whether their preferences count."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class AddedRequirement(NodeSelectorRequirement, forbid_unknown_fields=True):
    """One expression of an added node affinity."""


class AddedTerm(NodeSelectorTerm, forbid_unknown_fields=True):
    """A term of an added node affinity."""

    match_expressions: tuple[AddedRequirement, ...] = ()
    match_fields: tuple[AddedRequirement, ...] = ()


class AddedSelector(NodeSelector, forbid_unknown_fields=True):
    """Terms of an added node affinity, of which at least one must match."""

    node_selector_terms: tuple[AddedTerm, ...] = ()


class AddedPreference(PreferredSchedulingTerm, forbid_unknown_fields=True):
    """A term of an added node affinity that adds `weight` to the score of a node that matches."""

    preference: AddedTerm = AddedTerm()


class AddedAffinity(_Strict):
    """Node affinity that every pod of a profile has."""

    required_during_scheduling_ignored_during_execution: AddedSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[AddedPreference, ...] = ()


class NodeAffinityArgs(_Args):
    """Node affinity added to every pod of the profile."""

    added_affinity: AddedAffinity | None = None


class DefaultPreemptionArgs(_Args):
    """The number of candidate nodes of preemption. Trimtab does not preempt; it only validates this."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class VolumeBindingArgs(_Args):
    """How long binding a volume may take. Trimtab does not place pods with volumes of their own."""

    bind_timeout_seconds: int = 600


class DynamicResourcesArgs(_Args):
    """How long the search for devices may take. Trimtab does not place pods with resource claims."""

    filter_timeout: str = "10s"
    binding_timeout: str = "10m"


def read(tree: Any) -> SchedulerConfiguration | ProposalConfiguration:
    """Decode a configuration from plain values (a parsed YAML file). Errors name the field."""
    if not isinstance(tree, dict):
        raise InvalidError("", "is not a configuration; it must be an object with apiVersion and kind")
    version = tree.get("apiVersion")
    if version == PROPOSAL:
        return codec.convert(tree, ProposalConfiguration)
    if version != V1:
        known = f'"{V1}"'
        raise InvalidError("apiVersion", f"{msgspec.json.encode(version).decode()} is not supported; write {known}")
    if tree.get("kind", KIND) != KIND:
        raise InvalidError("kind", f'{msgspec.json.encode(tree["kind"]).decode()} is not "{KIND}"')
    return codec.convert(tree, SchedulerConfiguration)
