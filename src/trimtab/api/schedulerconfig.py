"""KubeSchedulerConfiguration, as kube-scheduler reads it, and the default-spreading proposal's early form of it.

A configuration is written by people, so these types are strict: a field that does not exist is an error that names it,
where the views of cluster objects would skip it.
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
    """Written by people: an unknown field is a mistake."""


class PluginReference(_Strict):
    """A plugin by name, and its weight where it scores."""

    name: str
    weight: int = 0


class PluginSet(_Strict):
    """What is switched on beyond the defaults, and which defaults are switched off (`*` for all)."""

    enabled: tuple[PluginReference, ...] = ()
    disabled: tuple[PluginReference, ...] = ()


class Plugins(_Strict):
    """Plugins by extension point; `multi_point` speaks for all points that a plugin has."""

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
    """The arguments of one plugin; which type they are of depends on its name."""

    name: str
    args: Mapping[str, Any] = {}


class SchedulerProfile(_Strict):
    """One way of scheduling, for the pods that name it. The only profile of a configuration need not have a name."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(_Strict):
    """Who may schedule."""

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(_Strict):
    """How the API server is reached."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 50
    burst: int = 100


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


class DefaultConstraint(TopologySpreadConstraint, forbid_unknown_fields=True):
    """A constraint for pods that state none."""


class ProposalConfiguration(_Strict):
    """The default-spreading proposal's sample: default constraints at the top of the configuration."""

    api_version: str = PROPOSAL
    kind: str = ""
    default_topology_spread_constraints: tuple[DefaultConstraint, ...] = ()


class _Args(_Strict):
    """Arguments may state their own type, as kube-scheduler allows."""

    api_version: str = V1
    kind: str = ""


class PodTopologySpreadArgs(_Args):
    """Constraints for pods that state none: the system's, an operator's list, or the proposal's."""

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
    """How the room that is left on a node becomes a score."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(_Args):
    """What the resource filter leaves out, and how it scores."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class NodeResourcesBalancedAllocationArgs(_Args):
    """Which resources are to be used evenly."""

    resources: tuple[ResourceSpec, ...] = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class InterPodAffinityArgs(_Args):
    """How much a required affinity of an existing pod counts, and whether its preferences do."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class AddedRequirement(NodeSelectorRequirement, forbid_unknown_fields=True):
    """One expression of an added node affinity."""


class AddedTerm(NodeSelectorTerm, forbid_unknown_fields=True):
    """A term of an added node affinity."""

    match_expressions: tuple[AddedRequirement, ...] = ()
    match_fields: tuple[AddedRequirement, ...] = ()


class AddedSelector(NodeSelector, forbid_unknown_fields=True):
    """Terms of an added node affinity, of which one must hold."""

    node_selector_terms: tuple[AddedTerm, ...] = ()


class AddedPreference(PreferredSchedulingTerm, forbid_unknown_fields=True):
    """A term of an added node affinity that is worth `weight` where it holds."""

    preference: AddedTerm = AddedTerm()


class AddedAffinity(_Strict):
    """Node affinity that every pod of a profile has."""

    required_during_scheduling_ignored_during_execution: AddedSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[AddedPreference, ...] = ()


class NodeAffinityArgs(_Args):
    """Node affinity added to every pod of the profile."""

    added_affinity: AddedAffinity | None = None


class DefaultPreemptionArgs(_Args):
    """How many nodes preemption looks at. Trimtab does not preempt; it reads this to say whether it is well-formed."""

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
    """Read a configuration from plain values (a parsed YAML file). Errors name the field."""
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
