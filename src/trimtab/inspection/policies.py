"""Which policy applies to a workload, where it comes from, and its strategies."""

from __future__ import annotations

from dataclasses import replace

from trimtab.api.apps import Deployment
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.templates import has_scheduling_group
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.inspection.settings import Settings
from trimtab.ranking.plan import Policy
from trimtab.scaledown.policy.effective import EffectivePolicy, Specificity, effective_policy, exemption
from trimtab.scaledown.policy.workloads import workload_ref

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
    problem: str = ""
    """What keeps it from working."""

    def sentence(self) -> str:
        """The policy for people."""
        if not self.name:
            return f"none: {self.reason}"
        what = f'default policy "{self.name}"' if self.is_default else f"ScaleDownPolicy {self.name}"
        return f"{what} ({self.mode}): {self.reason}"


def policy_of(
    cluster: Cluster, workload: Workload, settings: Settings
) -> tuple[AppliedPolicy, EffectivePolicy | None, Policy]:
    """The policy that applies, as a value and as it decides. Strategies that need samples rank no pod here."""
    ref = replace(workload_ref(workload), in_scheduling_group=_is_in_scheduling_group(cluster, workload))
    labels = cluster.namespace_labels(ref.namespace)
    found = effective_policy(ref, cluster.policies_in(ref.namespace), settings.defaults, labels)
    if found is None:
        reason = exemption(ref, settings.defaults, labels) or "no policy refers to it, and there is no default"
        return AppliedPolicy(reason=reason), None, Policy.of(())
    problem, strategies = "", Policy.of(())
    try:
        strategies = Policy.of(found.spec.strategies, settings.strategies)
    except InvalidError as error:
        problem = str(error)
    applied = AppliedPolicy(
        name=found.key or found.name,
        is_default=not found.key,
        mode=found.spec.mode,
        reason=_SOURCES[found.specificity],
        strategies=tuple(each.name for each in found.spec.strategies),
        overridden=found.overridden,
        problem=problem,
    )
    return applied, found, strategies


def _is_in_scheduling_group(cluster: Cluster, workload: Workload) -> bool:
    """Whether the template or some pods say so: admission may have put them into one."""
    owners = cluster.sets_of(workload) if isinstance(workload, Deployment) else [workload]
    pods = (pod for owner in owners for pod in cluster.pods_of(owner.metadata.uid))
    return has_scheduling_group(workload.spec.template) or any(pod.spec.scheduling_group is not None for pod in pods)
