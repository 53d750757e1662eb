"""Disruption budgets (`policy/v1`)."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model


class PodDisruptionBudgetSpec(Model):
    """The minimum of available, or maximum of unavailable, pods."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Model):
    """The disruptions that are allowed now."""

    observed_generation: int = 0
    disrupted_pods: Mapping[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Model):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
