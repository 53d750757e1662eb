"""Which policy applies to a workload, where it comes from, and its strategies."""

from __future__ import annotations

from dataclasses import replace

from trimtab.api.apps import Deployment
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.api.templates import has_scheduling_group
from trimtab.api.workloads import CustomWorkload
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.inspection.settings import Settings
from trimtab.ranking.explicit import explicit_policy
from trimtab.ranking.plan import Policy
from trimtab.ranking.strategies.idle import Idle
from trimtab.ranking.strategies.probe import Probe
from trimtab.scaledown.policy.effective import EffectivePolicy, Specificity, effective_policy, exemption
from trimtab.scaledown.policy.explicit_ranks import NO_RANKS, ExplicitRanks, delivered_as_costs, explicit_ranks
from trimtab.scaledown.policy.workloads import WorkloadRef, workload_ref
from trimtab.scaledown.sources.scores import NodeScores
from trimtab.scaledown.sources.signals import signals_of

_SOURCES = {
    Specificity.TARGET: "its targetRef names the workload",
    Specificity.OWNER: "its targetRef names the workload's owner",
    Specificity.SELECTOR: "its selector matches the labels of the workload's pods",
    Specificity.DEFAULT: "no ScaleDownPolicy refers to the workload",
}


class AppliedPolicy(Model):
    """The policy that applies to a workload; an empty name where none does."""

    name: str = ""
    """`namespace/name` of a ScaleDownPolicy, or the name of a default policy."""
    is_default: bool = False
    mode: str = ""
    reason: str = ""
    """Why it applies, or why none does."""
    strategies: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
    ranked_by: str = ""
    """Where another component ranks the pods, whose ranks replace the strategies of a default policy."""
    problem: str = ""
    """What keeps it from working."""
    notes: tuple[str, ...] = ()
    """Why some ranks do not count, or cannot be seen from outside."""

    def sentence(self) -> str:
        """The policy for people."""
        if not self.name:
            return f"none: {self.reason}"
        what = f'default policy "{self.name}"' if self.is_default else f"ScaleDownPolicy {self.name}"
        ranks = f"; {self.ranked_by} ranks the pods" if self.ranked_by else ""
        return f"{what} ({self.mode}): {self.reason}{ranks}"


def policy_of(
    cluster: Cluster, workload: Workload, settings: Settings
) -> tuple[AppliedPolicy, EffectivePolicy | None, Policy]:
    """The policy that applies, as a value and as it decides. Strategies that need samples rank no pod here."""
    in_group = _is_in_scheduling_group(cluster, workload)
    ref = replace(workload_ref(workload, cluster.owners), in_scheduling_group=in_group)
    labels = cluster.namespace_labels(ref.namespace)
    found = effective_policy(ref, cluster.policies_in(ref.namespace), settings.defaults, labels)
    if found is None:
        reason = exemption(ref, settings.defaults, labels) or "no policy refers to it, and there is no default"
        return AppliedPolicy(reason=reason), None, Policy.of(())
    explicit = explicit_ranks(cluster, _top(cluster, workload)) if found.is_default else NO_RANKS
    if explicit.sources:
        found = replace(found, spec=delivered_as_costs(found.spec), ranked_by=explicit.source)
    strategies, problem = _strategies(found, explicit, settings)
    notes = filter(None, [explicit.note, explicit.gap, _about_samples(found.spec, settings)])
    applied = AppliedPolicy(
        name=found.key or found.name,
        is_default=not found.key,
        mode=found.spec.mode,
        reason=_SOURCES[found.specificity],
        strategies=tuple(each.name for each in found.spec.strategies),
        overridden=found.overridden,
        ranked_by=found.ranked_by,
        problem=problem,
        notes=tuple(notes),
    )
    return applied, found, strategies


def _strategies(found: EffectivePolicy, explicit: ExplicitRanks, settings: Settings) -> tuple[Policy, str]:
    """How a policy ranks pods, and what keeps it from doing so."""
    if found.ranked_by:
        return explicit_policy(explicit.ranks), ""
    try:
        policy = Policy.of(found.spec.strategies, settings.strategies)
    except InvalidError as error:
        return Policy.of(()), str(error)
    return replace(policy, scores=NodeScores(settings.schedulers.known)), ""


def _about_samples(spec: ScaleDownPolicySpec, settings: Settings) -> str:
    """Which strategies rank by samples, which are taken while Trimtab runs and nowhere else."""
    sampled = [
        each.name
        for each in spec.strategies
        if each.name in (Idle.name, Probe.name) or signals_of((each,), settings.strategies)
    ]
    if not sampled:
        return ""
    return f"{' and '.join(sampled)} rank by samples that only a running Trimtab has: shown is what follows without"


def _top(cluster: Cluster, workload: Workload) -> WorkloadRef:
    """The workload that users scale: the Deployment of a ReplicaSet, or what else owns it."""
    owner, found = workload.metadata.controller, workload
    if owner is not None and cluster.owners.resizes(workload.metadata):
        kind: type[Deployment | CustomWorkload] = cluster.owners.find(owner) or Deployment
        above = cluster.find(kind, workload.metadata.namespace, owner.name)
        found = above if above is not None and above.metadata.uid == owner.uid else workload
    return workload_ref(found, cluster.owners)


def _is_in_scheduling_group(cluster: Cluster, workload: Workload) -> bool:
    """Whether the template or some pods say so: admission may have put them into one."""
    pods = (cluster.grouped_pods(owner.metadata.uid) for owner in cluster.controllers_of(workload))
    return has_scheduling_group(workload.spec.template) or any(pods)
